//! What a client is given, and what is refused.

use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::{KERNEL, NETNS_URL, OWN_NETNS};
use nsm_chain::ErrorKind;

use super::{Client, SETTINGS, Settings, forwarder, works};
use crate::IpamPolicy;

#[tokio::test(start_paused = true)]
async fn a_client_gets_addresses_routes_policies_and_a_mechanism() {
    let endpoint = Settings {
        list: "[ { from: 10.1.0.1, proto: tcp, dstport: 25 } ]",
        ..SETTINGS
    }
    .start();
    let mut client = Client::new("a");

    client
        .request(&forwarder(&endpoint, works()))
        .await
        .unwrap();

    assert_eq!(
        client.src(),
        ["172.16.1.1/32", "fd00:1::1/128", "10.1.0.1/32"]
    );
    assert_eq!(client.dst(), ["172.16.1.0/32", "fd00:1::/128"]);
    let ip = client.connection.ip_context().unwrap();
    let routes: Vec<_> = ip
        .src_routes
        .iter()
        .map(|route| route.prefix.as_str())
        .collect();
    assert_eq!(routes, ["172.16.1.0/32", "fd00:1::/128"]);
    let routes: Vec<_> = ip
        .dst_routes
        .iter()
        .map(|route| route.prefix.as_str())
        .collect();
    assert_eq!(routes, ["172.16.1.1/32", "fd00:1::1/128"]);
    assert_eq!(client.connection.policies()[0].proto, "6");
    let mechanism = client.connection.mechanism.as_ref().unwrap();
    assert_eq!(mechanism.r#type, KERNEL);
    assert_eq!(mechanism.parameters[NETNS_URL], OWN_NETNS);
    assert_eq!(client.connection.payload, "ETHERNET");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_refreshes_change_nothing() {
    let endpoint = Settings {
        list: "[ { from: 10.1.0.1 }, { from: 10.1.0.1, proto: 6 }, { from: 172.16.1.1 } ]",
        ..SETTINGS
    }
    .start();
    let forwarder = forwarder(&endpoint, works());
    let mut client = Client::new("a");
    client.request(&forwarder).await.unwrap();
    let first = client.connection.clone();
    assert_eq!(
        client.src(),
        ["172.16.1.1/32", "fd00:1::1/128", "10.1.0.1/32"]
    );

    for _ in 0..1000 {
        client.request(&forwarder).await.unwrap();
    }

    assert_eq!(client.connection, first);
    assert_eq!(endpoint.ipam.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_endpoint_names_the_prefix_and_serves_again_after_a_close() {
    let endpoint = Settings {
        prefixes: "10.0.0.0/30",
        ..SETTINGS
    }
    .start();
    let by = forwarder(&endpoint, works());
    let mut clients = [Client::new("a"), Client::new("b"), Client::new("c")];
    clients[0].request(&by).await.unwrap();
    clients[1].request(&by).await.unwrap();

    let error = clients[2].request(&by).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    assert_eq!(
        error.report().to_string(),
        "ipam: resource exhausted: no two free addresses in 10.0.0.0/30"
    );
    // Those who have addresses are not concerned.
    clients[0].request(&by).await.unwrap();

    clients[0].close(&by).await.unwrap();
    clients[2].request(&by).await.unwrap();
    assert_eq!(clients[2].src(), ["10.0.0.1/32"]);
}

#[tokio::test(start_paused = true)]
async fn a_prefix_that_is_excluded_later_moves_the_client() {
    let endpoint = SETTINGS.start();
    let by = forwarder(&endpoint, works());
    let mut client = Client::new("a");
    client.request(&by).await.unwrap();

    client.connection.ip_context_mut().excluded_prefixes = vec!["172.16.1.0/30".to_owned()];
    client.request(&by).await.unwrap();

    assert_eq!(client.src(), ["fd00:1::1/128", "172.16.1.5/32"]);
    assert_eq!(client.dst(), ["fd00:1::/128", "172.16.1.4/32"]);
    let ip = client.connection.ip_context().unwrap();
    assert_eq!(ip.src_routes.len(), 2);
    assert_eq!(ip.dst_routes.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn with_strict_a_client_of_another_endpoint_ends_with_this_ones_addresses_only() {
    let other = Settings {
        prefixes: "192.168.7.0/24",
        list: "[ { from: 10.9.0.9 }, { from: 10.8.0.0/16 } ]",
        ..SETTINGS
    };
    for (policy, addresses) in [
        (IpamPolicy::Strict, &["172.16.1.1/32", "10.1.0.1/32"][..]),
        (
            IpamPolicy::Polite,
            &["192.168.7.1/32", "172.16.1.1/32", "10.1.0.1/32"],
        ),
    ] {
        let mut client = Client::new("a");
        client
            .request(&forwarder(&other.start(), works()))
            .await
            .unwrap();
        let endpoint = Settings {
            prefixes: "172.16.1.0/24",
            policy,
            list: "[ { from: 10.1.0.1 } ]",
        }
        .start();

        client
            .request(&forwarder(&endpoint, works()))
            .await
            .unwrap();

        assert_eq!(client.src(), addresses, "{policy}");
        let routes = &client.connection.ip_context().unwrap().src_routes;
        assert_eq!(routes.len(), addresses.len() - 1, "{policy}");
        assert_eq!(client.connection.policies().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_makes_no_foreign_address_one_of_the_endpoints() {
    // The network of a policy is no prefix of the endpoint, before a close and after it.
    let endpoint = Settings {
        policy: IpamPolicy::Strict,
        list: "[ { from: 172.16.2.201/24 } ]",
        ..SETTINGS
    }
    .start();
    let by = forwarder(&endpoint, works());
    let mut first = Client::new("a");
    first.request(&by).await.unwrap();
    first.close(&by).await.unwrap();

    let mut second = Client::new("b");
    second.connection.ip_context_mut().src_ip_addrs = vec!["172.16.2.7/24".to_owned()];
    second.request(&by).await.unwrap();

    assert_eq!(
        second.src(),
        ["172.16.1.1/32", "fd00:1::1/128", "172.16.2.201/32"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_takes_no_address() {
    let endpoint = SETTINGS.start();
    let by = forwarder(&endpoint, works());
    let refused = |change: fn(&mut Connection)| {
        let mut client = Client::new("a");
        change(&mut client.connection);
        let by = by.clone();
        async move { client.request(&by).await.unwrap_err().kind() }
    };

    let unknown = refused(|connection| connection.network_service = "other".to_owned());
    assert_eq!(unknown.await, ErrorKind::NotFound);
    let payload = refused(|connection| connection.payload = "IP".to_owned());
    assert_eq!(payload.await, ErrorKind::InvalidArgument);
    let mechanism = refused(|connection| {
        connection.mechanism = Some(Mechanism {
            r#type: "MEMIF".to_owned(),
            ..Mechanism::default()
        });
    });
    assert_eq!(mechanism.await, ErrorKind::InvalidArgument);
    let excluded = refused(|connection| {
        connection.ip_context_mut().excluded_prefixes = vec!["all".to_owned()];
    });
    assert_eq!(excluded.await, ErrorKind::InvalidArgument);

    assert_eq!(endpoint.ipam.connections(), 0);
}
