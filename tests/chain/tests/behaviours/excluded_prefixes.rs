//! Behaviours of `excluded_prefixes`: the addresses of a client's connections are apart.

use chain_suite::{connection, send};
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::connectioncontext::{PolicyRoute, Route};
use nsm_api::mechanism::{INTERFACE_NAME, KERNEL};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::excluded_prefixes::{ExcludedPrefixesLayer, Member};
use nsm_chain::test_util::{FailOn, Recorder, echo};
use nsm_chain::{BoxNetworkService, Call, ClientInfo, ClientInfoLayer, Error, ErrorKind};
use tower::{Layer, ServiceBuilder};

/// A client, what it asks for, and what it is answered: what a connection has in its context.
struct Client {
    layer: ExcludedPrefixesLayer,
    below: Recorder,
    chain: BoxNetworkService,
}

impl Client {
    fn new(groups: Vec<Vec<Member>>) -> Self {
        let layer = ExcludedPrefixesLayer::new(groups);
        let below = Recorder::new();
        let inner = below.layer(FailOn::request(0).layer(echo()));
        let chain = BoxNetworkService::new(layer.layer(inner));
        Self {
            layer,
            below,
            chain,
        }
    }

    async fn request(&self, connection: Connection) -> Result<Connection, Error> {
        let interface = format!("nsm-{}", connection.id);
        let mechanism = Mechanism::kernel().with_parameter(INTERFACE_NAME, interface);
        let call = Call::request(NetworkServiceRequest {
            connection: Some(connection),
            mechanism_preferences: vec![mechanism],
        });
        send(&self.chain, call).await
    }

    /// What the last request excluded.
    fn excluded(&self) -> Vec<String> {
        let last = self.below.last();
        let ip = last.connection().ip_context();
        ip.map_or(Vec::new(), |ip| ip.excluded_prefixes.clone())
    }
}

/// A connection of the service `net-` and its id, with a source and a destination.
fn of(id: &str, source: &str, destination: &str) -> Connection {
    let mut connection = Connection {
        network_service: format!("net-{id}"),
        ..connection(id)
    };
    let ip = connection.ip_context_mut();
    ip.src_ip_addrs.push(source.to_owned());
    ip.dst_ip_addrs.push(destination.to_owned());
    connection
}

fn member(service: &str) -> Member {
    Member {
        network_service: service.to_owned(),
        ..Member::default()
    }
}

#[tokio::test]
async fn a_request_excludes_what_the_other_connections_use_and_not_what_is_its_own() {
    let client = Client::new(vec![]);
    let mut first = of("0", "172.16.0.1/24", "172.16.0.0/32");
    let route = |prefix: &str| Route {
        prefix: prefix.to_owned(),
        ..Route::default()
    };
    first.ip_context_mut().src_routes = vec![route("10.0.0.0/8"), route("172.16.0.7/32")];
    first.ip_context_mut().excluded_prefixes = vec!["10.96.0.0/12".to_owned()];
    let first = client.request(first).await.unwrap();
    assert_eq!(client.excluded(), ["10.96.0.0/12"]);

    client
        .request(of("1", "fd00::1/128", "fd00::/128"))
        .await
        .unwrap();
    let used = [
        "10.96.0.0/12",
        "172.16.0.0/32",
        "172.16.0.1/32",
        "172.16.0.7/32",
    ];
    assert_eq!(client.excluded(), used);

    client.request(first).await.unwrap();
    assert_eq!(
        client.excluded(),
        ["10.96.0.0/12", "fd00::/128", "fd00::1/128"]
    );
}

#[tokio::test]
async fn what_has_two_readings_excludes_nothing() {
    let client = Client::new(vec![]);
    let mut first = of("0", "010.0.0.1/32", "172.16.0.0/32");
    first.ip_context_mut().excluded_prefixes = vec!["010.96.0.0/12".to_owned()];
    client.request(first).await.unwrap();

    client
        .request(of("1", "172.16.1.1/32", "172.16.1.0/32"))
        .await
        .unwrap();

    assert_eq!(client.excluded(), ["172.16.0.0/32"]);
}

#[tokio::test]
async fn what_was_excluded_for_the_others_sake_is_not_in_the_answer() {
    let client = Client::new(vec![]);
    client
        .request(of("0", "172.16.0.1/32", "172.16.0.0/32"))
        .await
        .unwrap();
    let mut second = of("1", "172.16.1.1/32", "172.16.1.0/32");
    let own = vec!["192.0.2.0/24".to_owned(), "172.16.0.1/32".to_owned()];
    second.ip_context_mut().excluded_prefixes.clone_from(&own);

    let answer = client.request(second).await.unwrap();

    assert_eq!(client.excluded().len(), 3, "each once");
    assert_eq!(answer.ip_context().unwrap().excluded_prefixes, own);
}

#[tokio::test]
async fn an_answer_with_an_address_of_another_connection_is_refused() {
    let client = Client::new(vec![]);
    let first = client
        .request(of("0", "172.16.0.1/32", "172.16.0.0/32"))
        .await;
    for wrong in [
        of("1", "172.16.0.1/24", "172.16.1.0/32"),
        of("1", "172.16.1.1/32", "172.16.0.0/32"),
        of("1", "172.16.0.0", "172.16.1.0/32"),
    ] {
        let error = client.request(wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
        let report = error.report().to_string();
        assert!(report.contains("which another connection uses"), "{report}");
    }
    assert_eq!(client.layer.connections(), 1);

    // It may have what it has.
    client.request(first.unwrap()).await.unwrap();
}

#[tokio::test]
async fn what_a_closed_connection_had_is_free_again() {
    let client = Client::new(vec![]);
    let first = client
        .request(of("0", "172.16.0.1/32", "172.16.0.0/32"))
        .await;

    send(&client.chain, Call::close(first.unwrap()))
        .await
        .unwrap();

    client
        .request(of("1", "172.16.0.1/32", "172.16.0.0/32"))
        .await
        .unwrap();
    assert_eq!(client.excluded(), [""; 0]);
    assert_eq!(client.layer.connections(), 1);
}

#[tokio::test]
async fn a_refresh_uses_what_its_answer_says_and_no_more() {
    let client = Client::new(vec![]);
    client
        .request(of("0", "172.16.0.1/32", "172.16.0.0/32"))
        .await
        .unwrap();
    client
        .request(of("0", "172.16.0.3/32", "172.16.0.2/32"))
        .await
        .unwrap();

    client
        .request(of("1", "172.16.0.1/32", "172.16.0.0/32"))
        .await
        .unwrap();

    assert_eq!(client.excluded(), ["172.16.0.2/32", "172.16.0.3/32"]);
}

#[tokio::test]
async fn services_of_a_group_may_overlap_and_exclude_the_others() {
    let group = vec![member("net-0"), member("net-1")];
    let client = Client::new(vec![group, vec![member("net-2")]]);
    let overlapping = |id| of(id, "172.16.0.1/32", "172.16.0.0/32");
    client.request(overlapping("0")).await.unwrap();
    client.request(overlapping("1")).await.unwrap();
    assert_eq!(client.excluded(), [""; 0]);

    for id in ["2", "3"] {
        client.request(overlapping(id)).await.unwrap_err();
        let apart = of(id, "fd00::1/128", "fd00::/128");
        let apart = client.request(apart).await.unwrap();
        assert_eq!(client.excluded(), ["172.16.0.0/32", "172.16.0.1/32"]);
        send(&client.chain, Call::close(apart)).await.unwrap();
    }
}

#[tokio::test]
async fn a_group_is_told_by_what_it_names_whatever_labels_a_connection_has_besides() {
    let with = |change: &dyn Fn(&mut Member)| {
        let mut wanted = Member {
            mechanism: Some(KERNEL.to_owned()),
            interface: Some("nsm-1".to_owned()),
            labels: [("app".to_owned(), "web".to_owned())].into(),
            ..member("net-1")
        };
        change(&mut wanted);
        wanted
    };
    for (wanted, is_aware) in [
        (with(&|_| {}), true),
        (with(&|it| it.mechanism = None), true),
        (with(&|it| it.interface = None), true),
        (with(&|it| it.labels.clear()), true),
        (with(&|it| it.mechanism = Some("MEMIF".to_owned())), false),
        (with(&|it| it.interface = Some("nsm-0".to_owned())), false),
        (with(&|it| it.network_service = "net".to_owned()), false),
        (
            with(&|it| _ = it.labels.insert("app".into(), "db".into())),
            false,
        ),
    ] {
        let client = Client::new(vec![vec![member("net-0"), wanted.clone()]]);
        let client = Client {
            chain: ServiceBuilder::new()
                .layer(BoxNetworkService::layer())
                .layer(ClientInfoLayer::new(ClientInfo {
                    pod: Some("alpine".to_owned()),
                    ..ClientInfo::default()
                }))
                .service(client.chain),
            ..client
        };
        client
            .request(of("0", "172.16.0.1/32", "172.16.0.0/32"))
            .await
            .unwrap();
        let mut second = of("1", "172.16.0.1/32", "172.16.0.0/32");
        second.labels.insert("app".to_owned(), "web".to_owned());

        assert_eq!(client.request(second).await.is_ok(), is_aware, "{wanted:?}");
    }
}

#[tokio::test]
async fn sources_that_policies_name_may_be_those_of_several_connections() {
    let client = Client::new(vec![]);
    for (id, source, destination) in [
        ("0", "172.16.0.1/32", "172.16.0.0/32"),
        ("1", "172.16.1.1/32", "172.16.1.0/32"),
    ] {
        let mut connection = of(id, source, destination);
        let ip = connection.ip_context_mut();
        ip.src_ip_addrs.push("10.9.0.9/32".to_owned());
        ip.policies.push(PolicyRoute {
            from: "10.9.0.9".to_owned(),
            ..PolicyRoute::default()
        });
        client.request(connection).await.unwrap();
    }

    assert_eq!(client.excluded(), ["172.16.0.0/32", "172.16.0.1/32"]);
}
