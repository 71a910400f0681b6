//! What a collector of OpenTelemetry gets of the programs, and what one that is away does to them.

use e2e::{Caller, Mesh, Process};
use libtest_mimic::Trial;
use nsm_netlink::Netns;
use program_suite::{Collected, Collector};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        one_request_is_one_trace_over_the_three_programs_and_their_elements,
        at_the_usual_level_a_trace_has_one_span_for_each_program,
        the_metrics_of_policyroute_arrive,
        nobody_waits_for_a_collector_that_is_not_there,
        nobody_waits_for_a_collector_that_takes_connections_and_never_answers,
        nobody_waits_for_a_collector_whose_name_has_no_address,
    ]
}

/// The client, as its chain is read.
const NSC: [&str; 16] = [
    "[id: nsc-0-0] [type: networkService] [method: Request]",
    "deadline/deadlineClient.Request",
    "updatepath/updatepathClient.Request",
    "begin/beginClient.Request",
    "metadata/metadataClient.Request",
    "refresh/refreshClient.Request",
    "heal/healClient.Request",
    "token/tokenClient.Request",
    "clientinfo/clientinfoClient.Request",
    "dns/dnsClient.Request",
    "mechanisms/mechanismsClient.Request",
    "kernel/kernelClient.Request",
    "excludedprefixes/excludedprefixesClient.Request",
    "sendfd/sendfdClient.Request",
    "answer/answerClient.Request",
    "connect/connectClient.Request",
];

/// The forwarder.
const FORWARDER: [&str; 24] = [
    "[id: nsc-0-0] [type: networkService] [method: Request]",
    "deadline/deadlineServer.Request",
    "reunite/reuniteServer.Request",
    "updatepath/updatepathServer.Request",
    "begin/beginServer.Request",
    "updatetoken/updatetokenServer.Request",
    "metadata/metadataServer.Request",
    "metadata/metadataClient.Request",
    "timeout/timeoutServer.Request",
    "monitor/monitorServer.Request",
    "standing/standingServer.Request",
    "recvfd/recvfdServer.Request",
    "netns/netnsServer.Request",
    "discover/discoverServer.Request",
    "policyroute/policyrouteServer.Request",
    "kernel/kernelServer.Request",
    "mechanismtranslation/mechanismtranslationClient.Request",
    "netns/netnsClient.Request",
    "recvfd/recvfdClient.Request",
    "token/tokenClient.Request",
    "answer/answerClient.Request",
    "roundrobin/roundrobinClient.Request",
    "monitor/monitorClient.Request",
    "connect/connectClient.Request",
];

/// The endpoint. Its call has the forwarder's id, which is a new one each time.
const NSE: [&str; 15] = [
    "deadline/deadlineServer.Request",
    "updatepath/updatepathServer.Request",
    "begin/beginServer.Request",
    "updatetoken/updatetokenServer.Request",
    "metadata/metadataServer.Request",
    "timeout/timeoutServer.Request",
    "monitor/monitorServer.Request",
    "trimpath/trimpathServer.Request",
    "recvfd/recvfdServer.Request",
    "services/servicesServer.Request",
    "dnscontext/dnscontextServer.Request",
    "point2pointipam/point2pointipamServer.Request",
    "policyroute/policyrouteServer.Request",
    "mechanisms/mechanismsServer.Request",
    "sendfd/sendfdServer.Request",
];

/// A collector that is found on the loopback of every namespace of a mesh.
struct Everywhere {
    runtime: Runtime,
    collector: Collector,
    endpoints: Endpoints,
}

/// What each program is told of the collector.
struct Endpoints {
    node: String,
    pod: String,
    network: String,
}

impl Everywhere {
    fn start(mesh: &Mesh) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let collector = runtime.block_on(Collector::start());
        let (pod, pods) = loopback(&mesh.pods[0]);
        let (network, networks) = loopback(&mesh.networks[0]);
        {
            let _entered = runtime.enter();
            collector.also_at(pod);
            collector.also_at(network);
        }
        Self {
            endpoints: Endpoints {
                node: collector.address().to_string(),
                pod: pods,
                network: networks,
            },
            runtime,
            collector,
        }
    }

    /// Waits until it has got enough.
    fn until(&self, enough: impl Fn(&Collected) -> bool) -> Collected {
        self.runtime.block_on(self.collector.until(enough))
    }
}

impl Endpoints {
    /// The same everywhere.
    fn all(endpoint: &str) -> Self {
        let [node, pod, network] = [(); 3].map(|()| endpoint.to_owned());
        Self { node, pod, network }
    }
}

/// A listener on the loopback of a namespace, and its address.
fn loopback(netns: &Netns) -> (TcpListener, String) {
    let bound = netns.enter(|| TcpListener::bind("127.0.0.1:0"));
    let listener = bound.unwrap().unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// The flags of a program that tells a collector at this level.
fn telling(endpoint: &str, level: &str) -> [String; 4] {
    [
        "--telemetry=true".to_owned(),
        format!("--open-telemetry-endpoint={endpoint}"),
        "--metrics-export-interval=50ms".to_owned(),
        format!("--log-level={level}"),
    ]
}

/// Starts an endpoint, a forwarder and a client that tell the collector, and waits until the
/// connection stands.
fn all_three(mesh: &Mesh, endpoints: &Endpoints, level: &str) -> [Process; 3] {
    let flags = |endpoint: &str| telling(endpoint, level);
    let [node, pod, network] =
        [&endpoints.node, &endpoints.pod, &endpoints.network].map(|it| flags(it));
    let nse = mesh.endpoint(0, &network.each_ref().map(String::as_str));
    let forwarder = mesh.forwarder(&node.each_ref().map(String::as_str));
    let nsc = mesh.client(0, &pod.each_ref().map(String::as_str));
    nsc.until_it_stands(1);
    [nse, forwarder, nsc]
}

/// Ends the three, the client first. Each sends its last spans.
fn end([nse, forwarder, nsc]: [Process; 3]) {
    for program in [nsc, forwarder, nse] {
        assert_eq!(program.stop(), Some(0));
    }
}

/// The one trace of the client's first request, from its first span to its last: the service and
/// the name of each span. A span that has two others right below it, or none above it that was
/// collected, fails the case.
fn trace(collected: &Collected) -> Vec<(&str, &str)> {
    let all = || collected.spans.iter().zip(&collected.sent_by);
    let roots = all().filter(|(span, service)| {
        *service == "nsc-0" && span.parent_span_id.is_empty() && span.name == NSC[0]
    });
    let roots: Vec<_> = roots.map(|(span, _)| &span.trace_id).collect();
    assert_eq!(roots.len(), 1, "{:#?}", collected.names());
    let mut left: Vec<_> = all()
        .filter(|(span, _)| span.trace_id == *roots[0])
        .collect();
    let mut above: &[u8] = &[];
    let mut trace = Vec::new();
    while !left.is_empty() {
        let below = left.iter().filter(|(it, _)| it.parent_span_id == above);
        assert_eq!(below.count(), 1, "below {:?}: {left:#?}", trace.last());
        let next = left.iter().position(|(it, _)| it.parent_span_id == above);
        let (span, service) = left.swap_remove(next.unwrap());
        trace.push((service.as_str(), span.name.as_str()));
        above = &span.span_id;
    }
    trace
}

fn one_request_is_one_trace_over_the_three_programs_and_their_elements() {
    let mesh = Mesh::new(1, 1);
    let collector = Everywhere::start(&mesh);
    let programs = all_three(&mesh, &collector.endpoints, "DEBUG");
    end(programs);

    // A close is a trace of its own.
    let whole = NSC.len() + FORWARDER.len() + 1 + NSE.len();
    let collected = collector.until(|collected| collected.number >= 2 * whole);

    let trace = trace(&collected);
    let of = |service: &str| {
        let spans = trace.iter().filter(|(it, _)| *it == service);
        spans.map(|(_, name)| *name).collect::<Vec<_>>()
    };
    assert_eq!(of("nsc-0"), NSC);
    assert_eq!(of("forwarder"), FORWARDER);
    assert!(of("nse-0")[0].ends_with("[method: Request]"), "{trace:#?}");
    assert_eq!(of("nse-0")[1..], NSE);
    assert_eq!(trace.len(), whole);
}

fn at_the_usual_level_a_trace_has_one_span_for_each_program() {
    let mesh = Mesh::new(1, 1);
    let collector = Everywhere::start(&mesh);
    let programs = all_three(&mesh, &collector.endpoints, "INFO");
    end(programs);

    let collected = collector.until(|collected| collected.number >= 6);

    let trace = trace(&collected);
    let services: Vec<_> = trace.iter().map(|(service, _)| *service).collect();
    assert_eq!(services, ["nsc-0", "forwarder", "nse-0"]);
}

fn the_metrics_of_policyroute_arrive() {
    let mesh = Mesh::new(1, 1);
    let collector = Everywhere::start(&mesh);
    let _programs = all_three(&mesh, &collector.endpoints, "INFO");

    for metric in [
        "nsm.policyroute.reconciles",
        "nsm.policyroute.reconcile.duration",
        "nsm.policyroute.rules",
        "nsm.policyroute.routes",
        "nsm.policyroute.standing",
    ] {
        collector.until(|collected| collected.metrics.iter().any(|it| it == metric));
    }
}

/// How long it takes to start the three programs, and to ask 50 times for a connection.
fn times(mesh: &Mesh, endpoints: Option<&Endpoints>) -> ([Process; 3], Duration, Duration) {
    let start = Instant::now();
    let programs = match endpoints {
        Some(endpoints) => all_three(mesh, endpoints, "DEBUG"),
        None => {
            let programs = [
                mesh.endpoint(0, &["--log-level=DEBUG"]),
                mesh.forwarder(&["--log-level=DEBUG"]),
                mesh.client(0, &["--log-level=DEBUG"]),
            ];
            programs[2].until_it_stands(1);
            programs
        }
    };
    let started = start.elapsed();
    // As the client would ask again.
    let caller = Caller::new(&mesh.url("forwarder"), &["--name=nsc-0"]);
    let mut request = caller.ask_for("nsc-0-0", &mesh.pods[0], "nsm-0");
    let start = Instant::now();
    for _ in 0..50 {
        request.connection = Some(caller.request(request.clone()).unwrap());
    }
    (programs, started, start.elapsed())
}

/// That nobody waits for a collector that is away: no start, no request, no end.
fn nobody_waits(away: impl FnOnce(&Mesh) -> Endpoints) {
    let without = {
        let mesh = Mesh::new(1, 1);
        let (_programs, started, asked) = times(&mesh, None);
        [started, asked]
    };
    let mesh = Mesh::new(1, 1);
    let endpoints = away(&mesh);

    let (programs, started, asked) = times(&mesh, Some(&endpoints));

    // Whoever waited for a collector would wait for a second at the least, each time.
    for (with, without) in [started, asked].into_iter().zip(without) {
        let most = 3 * without + Duration::from_secs(1);
        assert!(with < most, "{with:?}, and {without:?} without one");
    }
    let [nse, forwarder, nsc] = programs;
    for program in [nsc, forwarder, nse] {
        let start = Instant::now();
        assert_eq!(program.stop(), Some(0));
        let took = start.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}

fn nobody_waits_for_a_collector_that_is_not_there() {
    // The port is a reserved one (tcpmux).
    nobody_waits(|_| Endpoints::all("127.0.0.1:1"));
}

fn nobody_waits_for_a_collector_that_takes_connections_and_never_answers() {
    let mut listeners = Vec::new();
    nobody_waits(|mesh| {
        let [node, pod, network] = [&mesh.node, &mesh.pods[0], &mesh.networks[0]].map(|netns| {
            let (listener, address) = loopback(netns);
            listeners.push(listener);
            address
        });
        Endpoints { node, pod, network }
    });
    // The kernel has taken them.
    for listener in listeners {
        listener.set_nonblocking(true).unwrap();
        listener.accept().unwrap();
    }
}

fn nobody_waits_for_a_collector_whose_name_has_no_address() {
    nobody_waits(|_| Endpoints::all("otel-collector.invalid:4317"));
}
