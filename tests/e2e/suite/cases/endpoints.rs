//! Several endpoints of one service.

use e2e::{Caller, Mesh, Process};
use libtest_mimic::Trial;
use nsm_api::connection::{Connection, State};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::ErrorKind;
use std::time::{Duration, Instant};

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        connections_are_spread_over_the_endpoints_of_a_service_and_closed_where_they_stand,
        who_asks_for_an_endpoint_that_was_killed_is_sent_to_another_one_and_gets_its_policies,
        a_new_forwarder_finds_the_endpoint_that_a_connection_names,
        a_connection_that_asks_for_another_endpoint_leaves_nothing_at_the_first,
    ]
}

/// Both networks have an endpoint of service `net-0`.
struct Two<'a> {
    mesh: &'a Mesh,
    endpoints: [Option<Process>; 2],
    forwarder: Option<Process>,
    caller: Caller,
}

impl<'a> Two<'a> {
    fn start(mesh: &'a Mesh) -> Self {
        let endpoint = |network| Some(mesh.endpoint(network, &["--service-names=net-0"]));
        Self {
            mesh,
            endpoints: [endpoint(0), endpoint(1)],
            forwarder: Some(Self::forwarder(mesh)),
            caller: Caller::new(&mesh.url("forwarder"), &[]),
        }
    }

    fn forwarder(mesh: &Mesh) -> Process {
        let (one, other) = (mesh.url("nse-0"), mesh.url("nse-1"));
        mesh.forwarder(&[&format!("--endpoints=net-0={one},net-0={other}")])
    }

    fn ask_for(&self, pod: usize) -> NetworkServiceRequest {
        let id = format!("client-{pod}");
        self.caller.ask_for(&id, &self.mesh.pods[pod], "nsm-0")
    }

    /// Which network a connection leads to.
    fn network_of(connection: &Connection) -> usize {
        let name = connection.network_service_endpoint_name.as_str();
        name.strip_prefix("nse-").unwrap().parse().unwrap()
    }

    /// That a pod has what the endpoint of that network gives, and nothing else.
    #[track_caller]
    fn stands_in(&self, pod: usize, network: usize) {
        let stands = self.mesh.in_pod(pod);
        assert_eq!(stands.interfaces, ["nsm-0"]);
        let (own, policy) = (format!("172.16.{network}."), format!("10.9.{network}.9/32"));
        let addresses = stands.addresses_on("nsm-0");
        assert!(
            addresses.iter().any(|it| it.starts_with(&own)),
            "{addresses:?}"
        );
        assert!(addresses.contains(&policy.as_str()), "{addresses:?}");
        // Each has one for each family.
        assert_eq!((addresses.len(), stands.rules.len()), (4, 2));
    }
}

/// What a client asks for that gives its endpoint up: nothing of it travels.
fn anew(request: &NetworkServiceRequest, given_up: &Connection) -> NetworkServiceRequest {
    let mut request = request.clone();
    let mut connection = given_up.clone();
    connection.network_service_endpoint_name.clear();
    connection.mechanism = None;
    connection.context = None;
    connection.set_state(State::ReselectRequested);
    request.connection = Some(connection);
    request
}

fn connections_are_spread_over_the_endpoints_of_a_service_and_closed_where_they_stand() {
    let mesh = Mesh::new(4, 2);
    let two = Two::start(&mesh);

    let answers: Vec<_> = (0..4)
        .map(|pod| two.caller.request(two.ask_for(pod)).unwrap())
        .collect();

    for (pod, answer) in answers.iter().enumerate() {
        two.stands_in(pod, Two::network_of(answer));
    }
    for network in [0, 1] {
        assert_eq!(mesh.in_network(network).interfaces.len(), 2);
    }
    for answer in answers {
        two.caller.close(answer).unwrap();
    }
    mesh.is_clean();
    for endpoint in two.endpoints.into_iter().flatten() {
        assert_eq!(
            endpoint.log().matches("connection closed").count(),
            2,
            "{}",
            endpoint.log()
        );
    }
}

fn who_asks_for_an_endpoint_that_was_killed_is_sent_to_another_one_and_gets_its_policies() {
    let mesh = Mesh::new(1, 2);
    let mut two = Two::start(&mesh);
    let mut request = two.ask_for(0);
    let stands = two.caller.request(request.clone()).unwrap();
    let first = Two::network_of(&stands);
    two.stands_in(0, first);
    two.endpoints[first].take().unwrap().kill();
    let start = Instant::now();

    request.connection = Some(stands.clone());
    let error = two.caller.request(request.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{}", error.report());
    let report = error.report().to_string();
    assert!(report.contains("ask for another one"), "{report}");
    two.stands_in(0, first);
    // As a client that has given up: not by the one that keeps the first connection.
    let other = Caller::new(&mesh.url("forwarder"), &[]);
    let moved = other.request(anew(&request, &stands)).unwrap();

    assert_eq!(Two::network_of(&moved), 1 - first);
    two.stands_in(0, 1 - first);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    other.close(moved).unwrap();
    mesh.is_clean();
}

fn a_new_forwarder_finds_the_endpoint_that_a_connection_names() {
    let mesh = Mesh::new(2, 2);
    let mut two = Two::start(&mesh);
    let answers = [0, 1].map(|pod| two.caller.request(two.ask_for(pod)).unwrap());
    let networks = [0, 1].map(|pod| Two::network_of(&answers[pod]));
    assert_ne!(networks[0], networks[1]);
    let before = [0, 1].map(|pod| mesh.in_pod(pod));

    for _ in 0..2 {
        two.forwarder.take().unwrap().kill();
        two.forwarder = Some(Two::forwarder(&mesh));
        for (pod, answer) in answers.iter().enumerate() {
            let mut request = two.ask_for(pod);
            request.connection = Some(answer.clone());
            let again = two.caller.request(request).unwrap();
            assert_eq!(Two::network_of(&again), networks[pod]);
            assert_eq!(mesh.in_pod(pod), before[pod]);
        }
    }
    // And one that closes it has not served it.
    two.forwarder.take().unwrap().kill();
    two.forwarder = Some(Two::forwarder(&mesh));
    for answer in answers {
        two.caller.close(answer).unwrap();
    }
    for pod in [0, 1] {
        assert_eq!(mesh.in_pod(pod).interfaces, [""; 0]);
    }
    for endpoint in two.endpoints.into_iter().flatten() {
        assert_eq!(
            endpoint.log().matches("connection closed").count(),
            1,
            "{}",
            endpoint.log()
        );
    }
}

fn a_connection_that_asks_for_another_endpoint_leaves_nothing_at_the_first() {
    let mesh = Mesh::new(1, 2);
    let two = Two::start(&mesh);
    let mut request = two.ask_for(0);
    let mut stands = two.caller.request(request.clone()).unwrap();

    for _ in 0..4 {
        let network = Two::network_of(&stands);
        let mut other = stands.clone();
        other.network_service_endpoint_name = format!("nse-{}", 1 - network);
        other.context = None;
        request.connection = Some(other);
        stands = two.caller.request(request.clone()).unwrap();

        assert_eq!(Two::network_of(&stands), 1 - network);
        two.stands_in(0, 1 - network);
        assert!(mesh.in_network(network).is_empty());
    }
    two.caller.close(stands).unwrap();
    mesh.is_clean();
}
