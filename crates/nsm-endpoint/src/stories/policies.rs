//! Policies that change.

use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::test_util::{Recorder, echo};
use nsm_chain::{Call, ErrorKind};
use tower::{ServiceBuilder, ServiceExt};

use super::{Client, SETTINGS, Settings, forwarder, list, works};
use crate::{Policies, PoliciesLayer, PolicyList};

#[tokio::test(start_paused = true)]
async fn policies_that_changed_while_the_endpoint_was_down_change_at_the_return() {
    let mut client = Client::new("a");
    let before = Settings {
        list: "[ { from: 10.1.0.1 }, { from: 10.1.0.2 } ]",
        ..SETTINGS
    };
    client
        .request(&forwarder(&before.start(), works()))
        .await
        .unwrap();

    let after = Settings {
        list: "[ { from: 10.1.0.2 }, { from: 10.1.0.3 } ]",
        ..SETTINGS
    };
    client
        .request(&forwarder(&after.start(), works()))
        .await
        .unwrap();

    let assigned = ["172.16.1.1/32", "fd00:1::1/128"];
    assert_eq!(
        client.src(),
        [&assigned[..], &["10.1.0.2/32", "10.1.0.3/32"]].concat()
    );
    let from: Vec<_> = client
        .connection
        .policies()
        .iter()
        .map(|policy| policy.from.as_str())
        .collect();
    assert_eq!(from, ["10.1.0.2/32", "10.1.0.3/32"]);
}

#[tokio::test(start_paused = true)]
async fn policies_go_and_come_with_the_next_refresh() {
    let endpoint = SETTINGS.start();
    let by = forwarder(&endpoint, works());
    let mut client = Client::new("a");
    let assigned = ["172.16.1.1/32", "fd00:1::1/128"];

    for _ in 0..3 {
        endpoint.policies.set(list(
            "[ { from: 10.1.0.1 }, { from: 10.2.0.0/16 }, { proto: 6 } ]",
        ));
        client.request(&by).await.unwrap();
        assert_eq!(client.src(), [&assigned[..], &["10.1.0.1/32"]].concat());
        assert_eq!(client.connection.policies().len(), 3);

        endpoint.policies.set(PolicyList::default());
        client.request(&by).await.unwrap();
        assert_eq!(client.src(), assigned);
        assert_eq!(client.connection.policies(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn without_metadata_the_policies_element_says_what_is_missing() {
    let below = Recorder::new();
    let chain = ServiceBuilder::new()
        .layer(PoliciesLayer::new(Policies::default()))
        .layer(below.clone())
        .service(echo());

    let request = Call::request(NetworkServiceRequest::default());
    let error = chain.oneshot(request).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.report().to_string().contains("no metadata layer"));
    assert!(below.calls().is_empty());
}
