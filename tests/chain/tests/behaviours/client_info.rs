//! Behaviours of `client_info`: what others learn of a client.

use chain_suite::{connection, request, send};
use nsm_api::connection::Connection;
use nsm_chain::test_util::{Recorder, echo};
use nsm_chain::{Call, ClientInfo, ClientInfoLayer};
use tower::Layer;

fn somewhere() -> ClientInfoLayer {
    ClientInfoLayer::new(ClientInfo {
        node: Some("worker-1".to_owned()),
        pod: Some("alpine".to_owned()),
        cluster: Some(String::new()),
    })
}

fn labels(connection: &Connection) -> Vec<(&str, &str)> {
    let labels = connection.labels.iter();
    labels.map(|(k, v)| (k.as_str(), v.as_str())).collect()
}

#[tokio::test]
async fn a_request_says_where_the_client_runs_as_far_as_it_is_known() {
    let chain = somewhere().layer(echo());

    let answer = send(&chain, request(connection("c"))).await.unwrap();

    let expected = [("nodeName", "worker-1"), ("podName", "alpine")];
    assert_eq!(labels(&answer), expected);
}

#[tokio::test]
async fn a_label_that_the_client_has_set_stays() {
    let chain = somewhere().layer(echo());
    let mut own = connection("c");
    own.labels.insert("podName".into(), "mine".into());
    own.labels.insert("app".into(), "web".into());

    let answer = send(&chain, request(own)).await.unwrap();

    let expected = [
        ("app", "web"),
        ("nodeName", "worker-1"),
        ("podName", "mine"),
    ];
    assert_eq!(labels(&answer), expected);
}

#[tokio::test]
async fn a_close_goes_as_it_is() {
    let below = Recorder::new();
    let chain = somewhere().layer(below.layer(echo()));

    send(&chain, Call::close(connection("c"))).await.unwrap();

    assert_eq!(below.last().connection(), &connection("c"));
}
