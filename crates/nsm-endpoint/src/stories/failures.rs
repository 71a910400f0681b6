//! What fails below the elements.

use nsm_chain::ErrorKind;
use nsm_chain::test_util::{FailOn, Fault};

use super::{Client, SETTINGS, Settings, forwarder, list, works};
use crate::PolicyList;

#[tokio::test(start_paused = true)]
async fn a_first_request_that_fails_below_leaves_nothing() {
    let fails = FailOn::request(1).on_the_way_up();
    let endpoint = Settings {
        prefixes: "10.0.0.0/31",
        ..SETTINGS
    }
    .start_above(fails);
    let by = forwarder(&endpoint, works());

    let error = Client::new("a").request(&by).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(endpoint.ipam.connections(), 0);

    let mut other = Client::new("b");
    other.request(&by).await.unwrap();
    assert_eq!(other.src(), ["10.0.0.1/32"]);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_below_changes_nothing() {
    let endpoint = Settings {
        list: "[ { from: 10.1.0.1 } ]",
        ..SETTINGS
    }
    .start_above(FailOn::request(2).with(Fault::Panic));
    let by = forwarder(&endpoint, works());
    let mut client = Client::new("a");
    client.request(&by).await.unwrap();
    let had = client.connection.clone();

    endpoint.policies.set(list("[ { from: 10.1.0.2 } ]"));
    let error = client.request(&by).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert_eq!(client.connection, had);
    client.request(&by).await.unwrap();

    assert_eq!(
        client.src(),
        ["172.16.1.1/32", "fd00:1::1/128", "10.1.0.2/32"]
    );
    assert_eq!(endpoint.ipam.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_clients_own_address_survives_a_refresh_that_fails_below() {
    let endpoint = Settings {
        list: "[ { from: 192.168.7.1 } ]",
        ..SETTINGS
    }
    .start_above(FailOn::request(2));
    let by = forwarder(&endpoint, works());
    let mut client = Client::new("a");
    client.connection.ip_context_mut().src_ip_addrs = vec!["192.168.7.1/24".to_owned()];
    client.request(&by).await.unwrap();
    let had = client.src().to_vec();

    endpoint.policies.set(PolicyList::default());
    client.request(&by).await.unwrap_err();
    client.request(&by).await.unwrap();

    assert_eq!(client.src(), had);
}

#[tokio::test(start_paused = true)]
async fn a_return_that_fails_below_takes_nothing_from_others() {
    let before = SETTINGS.start();
    let mut clients = [Client::new("a"), Client::new("b")];
    for client in &mut clients {
        client.request(&forwarder(&before, works())).await.unwrap();
    }
    let had: Vec<_> = clients.iter().map(|client| client.src().to_vec()).collect();

    let after = SETTINGS.start_above(FailOn::request(1));
    let by = forwarder(&after, works());
    clients[1].request(&by).await.unwrap_err();
    assert_eq!(after.ipam.connections(), 0);
    clients[0].request(&by).await.unwrap();
    clients[1].request(&by).await.unwrap();

    assert_eq!(clients.map(|client| client.src().to_vec()).to_vec(), had);
}

#[tokio::test(start_paused = true)]
async fn a_close_that_fails_below_frees_the_addresses_all_the_same() {
    let endpoint = SETTINGS.start_above(FailOn::close(1));
    let by = forwarder(&endpoint, works());
    let mut client = Client::new("a");
    client.request(&by).await.unwrap();

    client.close(&by).await.unwrap_err();

    assert_eq!(endpoint.ipam.connections(), 0);
}
