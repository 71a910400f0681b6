//! An endpoint with all that this crate has, behind a hop that dies and comes back.

use std::time::Duration;

use nsm_api::connection::{Connection, Mechanism, Path, PathSegment};
use nsm_api::mechanism::{KERNEL, NETNS_URL};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::begin::AnswerLayer;
use nsm_chain::test_util::{FailOn, Fault, Recorder, echo};
use nsm_chain::{
    BeginLayer, BoxNetworkService, Call, DeadlineLayer, Error, ErrorKind, MetadataLayer, Side,
    UpdatePathLayer,
};
use tower::{ServiceBuilder, ServiceExt};

use crate::{
    IpamLayer, IpamPolicy, MechanismsLayer, OWN_NETNS, Offer, Policies, PoliciesLayer, PolicyList,
    ServicesLayer,
};

/// An endpoint and what it remembers. Another one of the same settings is the same after a
/// restart.
struct Endpoint {
    chain: BoxNetworkService,
    ipam: IpamLayer,
    policies: Policies,
}

/// What an endpoint is made with.
struct Settings {
    prefixes: &'static str,
    policy: IpamPolicy,
    list: &'static str,
}

const SETTINGS: Settings = Settings {
    prefixes: "172.16.1.0/24,fd00:1::/64",
    policy: IpamPolicy::Polite,
    list: "",
};

fn list(yaml: &str) -> PolicyList {
    PolicyList::parse("policies.yaml", yaml).unwrap()
}

impl Settings {
    fn start(&self) -> Endpoint {
        self.start_above(FailOn::request(0))
    }

    /// An endpoint in which something goes wrong below the elements.
    fn start_above(&self, wrong: FailOn) -> Endpoint {
        let ipam = IpamLayer::new(self.prefixes.parse().unwrap(), self.policy);
        let policies = Policies::new(list(self.list));
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(UpdatePathLayer::new("nse"))
            .layer(BeginLayer::new(Side::Server))
            .layer(MetadataLayer::new(Side::Server))
            .layer(ServicesLayer::new(["icmp-responder"], "ETHERNET"))
            .layer(ipam.clone())
            .layer(PoliciesLayer::new(policies.clone()))
            .layer(MechanismsLayer::new([Offer::kernel(), Offer::Noop]))
            .layer(wrong)
            .service(echo());
        Endpoint {
            chain,
            ipam,
            policies,
        }
    }
}

/// A forwarder in front of an endpoint. Another one is the same after a restart: it has forgotten
/// everything.
fn forwarder(endpoint: &Endpoint, dies: FailOn) -> BoxNetworkService {
    ServiceBuilder::new()
        .layer(BoxNetworkService::layer())
        .layer(UpdatePathLayer::new("forwarder"))
        .layer(BeginLayer::new(Side::Server))
        .layer(dies)
        .layer(AnswerLayer)
        // What elements told each other ends at the hop.
        .map_request(|call: Call| Call {
            extensions: Default::default(),
            ..call
        })
        .service(endpoint.chain.clone())
}

fn works() -> FailOn {
    FailOn::request(0)
}

/// A client, which brings what it was answered last.
struct Client {
    connection: Connection,
}

impl Client {
    fn new(name: &str) -> Self {
        let segment = PathSegment {
            name: "nsc".to_owned(),
            id: name.to_owned(),
            ..PathSegment::default()
        };
        Self {
            connection: Connection {
                id: name.to_owned(),
                network_service: "icmp-responder".to_owned(),
                path: Some(Path {
                    index: 0,
                    path_segments: vec![segment],
                }),
                ..Connection::default()
            },
        }
    }

    async fn request(&mut self, by: &BoxNetworkService) -> Result<(), Error> {
        let request = NetworkServiceRequest {
            connection: Some(self.connection.clone()),
            mechanism_preferences: vec![Mechanism::kernel()],
        };
        self.connection = by.clone().oneshot(Call::request(request)).await?;
        Ok(())
    }

    async fn close(&self, by: &BoxNetworkService) -> Result<(), Error> {
        by.clone()
            .oneshot(Call::close(self.connection.clone()))
            .await?;
        Ok(())
    }

    fn src(&self) -> &[String] {
        self.connection.src_ip_addrs()
    }

    fn dst(&self) -> &[String] {
        self.connection.dst_ip_addrs()
    }
}

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

/// Longer than any test waits.
const NEVER: Duration = Duration::from_secs(1 << 30);

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
async fn a_close_that_fails_below_frees_the_addresses_all_the_same() {
    let endpoint = SETTINGS.start_above(FailOn::close(1));
    let by = forwarder(&endpoint, works());
    let mut client = Client::new("a");
    client.request(&by).await.unwrap();

    client.close(&by).await.unwrap_err();

    assert_eq!(endpoint.ipam.connections(), 0);
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
    assert_eq!(from, ["10.1.0.2", "10.1.0.3"]);
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
