//! Clients, hops and endpoints that go away and come back.

use std::time::Duration;

use nsm_chain::test_util::{FailOn, Fault};
use nsm_chain::{BoxNetworkService, Call, DeadlineLayer, ErrorKind, UpdatePathLayer};
use tower::{ServiceBuilder, ServiceExt};

use super::{Client, SETTINGS, forwarder, works};

/// Longer than any test waits.
const NEVER: Duration = Duration::from_secs(1 << 30);

#[tokio::test(start_paused = true)]
async fn after_a_restart_of_the_endpoint_each_client_keeps_its_addresses_in_any_order() {
    let before = SETTINGS.start();
    let by = forwarder(&before, works());
    let mut clients: Vec<Client> = (0..20).map(|n| Client::new(&format!("c{n}"))).collect();
    for client in &mut clients {
        client.request(&by).await.unwrap();
    }
    let had: Vec<_> = clients
        .iter()
        .map(|client| (client.src().to_vec(), client.dst().to_vec()))
        .collect();

    let after = SETTINGS.start();
    let by = forwarder(&after, works());
    // 7 has no factor in common with 20: each once, in another order.
    for n in (0..20).map(|n| n * 7 % 20) {
        clients[n].request(&by).await.unwrap();
    }
    let mut new = Client::new("new");
    new.request(&by).await.unwrap();

    for (client, (src, dst)) in clients.iter().zip(&had) {
        assert_eq!(client.src(), src);
        assert_eq!(client.dst(), dst);
    }
    assert_eq!(new.src()[0], "172.16.1.41/32");
    assert_eq!(after.ipam.connections(), 21);
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_forwarder_died_before_the_answer_came_gets_the_same_address() {
    let endpoint = SETTINGS.start();
    // The endpoint has answered, and nobody hears of it.
    let dying = forwarder(
        &endpoint,
        FailOn::request(1).with(Fault::Delay(NEVER)).on_the_way_up(),
    );
    let mut client = Client::new("a");
    let attempt = tokio::time::timeout(Duration::from_secs(1), client.request(&dying)).await;
    attempt.unwrap_err();
    assert_eq!(endpoint.ipam.connections(), 1);

    let restarted = forwarder(&endpoint, works());
    client.request(&restarted).await.unwrap();

    assert_eq!(client.src()[0], "172.16.1.1/32");
    assert_eq!(
        endpoint.ipam.connections(),
        1,
        "the endpoint holds one allocation"
    );
    let mut other = Client::new("b");
    other.request(&restarted).await.unwrap();
    assert_eq!(other.src()[0], "172.16.1.3/32");

    for client in [&client, &other] {
        client.close(&restarted).await.unwrap();
    }
    assert_eq!(endpoint.ipam.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_by_another_forwarder_keeps_its_address() {
    let endpoint = SETTINGS.start();
    let mut client = Client::new("a");
    client
        .request(&forwarder(&endpoint, works()))
        .await
        .unwrap();
    let had = client.src().to_vec();
    let old = client.connection.clone();

    let other = ServiceBuilder::new()
        .layer(BoxNetworkService::layer())
        .layer(UpdatePathLayer::new("other-forwarder"))
        .map_request(|call: Call| Call {
            extensions: Default::default(),
            ..call
        })
        .service(endpoint.chain.clone());
    client.request(&other).await.unwrap();
    assert_eq!(client.src(), had);

    // The old way is closed by its time-out, and the client has its address all the same.
    forwarder(&endpoint, works())
        .oneshot(Call::close(old))
        .await
        .unwrap();
    client.request(&other).await.unwrap();
    assert_eq!(client.src(), had);
    assert_eq!(endpoint.ipam.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_leaves_a_connection_that_its_next_try_finds() {
    let slow = FailOn::request(1).with(Fault::Delay(Duration::from_secs(60)));
    let endpoint = SETTINGS.start_above(slow);
    let by = ServiceBuilder::new()
        .layer(BoxNetworkService::layer())
        .layer(DeadlineLayer::new(Duration::from_secs(15)))
        .service(forwarder(&endpoint, works()));
    let mut client = Client::new("a");

    let error = client.request(&by).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    tokio::time::sleep(Duration::from_secs(60)).await;
    client.request(&by).await.unwrap();

    assert_eq!(client.src()[0], "172.16.1.1/32");
    assert_eq!(endpoint.ipam.connections(), 1);
}
