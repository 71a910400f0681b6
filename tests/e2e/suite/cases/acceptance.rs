//! What users of the mesh check: the `ip route get` lines of its published examples
//! (networkservicemesh/deployments-k8s, `examples`), with the policies of these examples.

use e2e::{Mesh, Process, until};
use libtest_mimic::Trial;
use nsm_netlink::Netns;
use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        the_lookups_of_policy_based_routing_lead_where_the_mesh_says,
        under_the_mark_of_go_the_lookups_are_the_same_to_the_letter,
        the_lookups_hold_when_the_forwarder_has_died_and_is_back,
        the_lookups_hold_when_the_endpoint_has_died_and_another_is_in_its_place,
        the_lookups_of_mutually_aware_endpoints_lead_where_the_mesh_says,
    ]
}

/// The policies of `apps/nse-kernel-pbr`.
const POLICIES: &str = r#"
- { from: 172.16.2.201/24, proto: 6, dstport: 6666, routes: [ { prefix: 172.16.3.0/24, nexthop: 172.16.2.200 } ] }
- { from: 172.16.2.201/24, proto: 6, srcport: 5555 }
- { proto: 17, dstport: 6666 }
- { proto: 17, dstport: 6667-6670 }
- { from: "2004::3/120", proto: 17, dstport: 5555, routes: [ { prefix: "2004::5/120", nexthop: "2004::6" } ] }
"#;

/// What is asked in the pod of a client, and what the answer has to contain:
/// `features/policy-based-routing`, and all examples of `heal` that have policies.
const LOOKUPS: [(&str, &str); 5] = [
    (
        "r get 172.16.3.1 from 172.16.2.201 ipproto tcp dport 6666",
        "172.16.3.1 from 172.16.2.201 via 172.16.2.200 dev nsm-1 table 1",
    ),
    (
        "r get 172.16.3.1 from 172.16.2.201 ipproto tcp sport 5555",
        "172.16.3.1 from 172.16.2.201 dev nsm-1 table 2",
    ),
    (
        "r get 172.16.4.1 ipproto udp dport 6666",
        "172.16.4.1 dev nsm-1 table 3 src 172.16.1.101",
    ),
    (
        "r get 172.16.4.1 ipproto udp dport 6668",
        "172.16.4.1 dev nsm-1 table 4 src 172.16.1.101",
    ),
    (
        "-6 route get 2004::5 from 2004::3 ipproto udp dport 5555",
        "via 2004::6 dev nsm-1 table 5 src 2004::3",
    ),
];

/// What `ip` prints besides, between the table and the source: an answer for IPv6 tells whose the
/// route is, and one for IPv4 does not.
const MARK: &str = " proto 78";
/// As the routes of Go forwarders are marked, and those of anybody who types `ip route`: of this
/// nothing is printed.
const ANYBODYS: &str = "--route-protocol=3";

/// What `ip` prints of the rules of a pod that has none but those of the kernel.
const DEFAULT_RULES: &str =
    "0: from all lookup local 32766: from all lookup main 32767: from all lookup default";

/// The tables that the Go forwarders take, the lowest first.
const TABLES: &str = "--policy-route-tables=1-252";

/// A pod with a connection to the service of policy-based-routing.
struct Example {
    nse: Option<Process>,
    forwarder: Option<Process>,
    nsc: Process,
    mesh: Mesh,
    /// What is not looked at in what is printed.
    besides: &'static str,
}

impl Example {
    fn start() -> Self {
        Self::start_with(&[], MARK)
    }

    fn start_with(more: &[&str], besides: &'static str) -> Self {
        let mesh = Mesh::new(1, 1);
        fs::write(mesh.file("policies-0.yaml"), POLICIES).unwrap();
        let nse = Some(Self::endpoint(&mesh, "172.16.1.100/31", &[]));
        let forwarder = Some(Self::forwarder(&mesh, more));
        let services = "--network-services=kernel://policy-based-routing/nsm-1";
        let nsc = mesh.client(0, &[services]);
        nsc.until_it_stands(1);
        let example = Self {
            nse,
            forwarder,
            nsc,
            mesh,
            besides,
        };
        assert_eq!(example.answers(), LOOKUPS.map(|it| it.1));
        example
    }

    fn endpoint(mesh: &Mesh, cidr: &str, more: &[&str]) -> Process {
        let cidr = format!("--cidr-prefix={cidr}");
        let own = ["--service-names=policy-based-routing", cidr.as_str()];
        mesh.endpoint(0, &[&own, more].concat())
    }

    fn forwarder(mesh: &Mesh, more: &[&str]) -> Process {
        let endpoint = format!("--endpoints=policy-based-routing={}", mesh.url("nse-0"));
        mesh.forwarder(&[&[&endpoint, TABLES], more].concat())
    }

    /// What `ip` answers in the pod: what is wanted where the answer contains it.
    fn answers(&self) -> [String; 5] {
        LOOKUPS.map(|(words, wanted)| {
            let printed = ip(&self.mesh.pods[0], words).replace(self.besides, "");
            match printed.contains(wanted) {
                true => wanted.to_owned(),
                false => printed,
            }
        })
    }

    #[track_caller]
    fn is_connected(&self, client: &str, endpoint: &str) {
        let (pod, network) = (&self.mesh.pods[0], &self.mesh.networks[0]);
        is_heard(pod, client, network, endpoint);
        is_heard(network, endpoint, pod, client);
    }

    #[track_caller]
    fn ends(self) {
        assert_eq!(self.nsc.stop(), Some(0));
        self.mesh.is_clean();
        // That does not see what is marked as anybody's.
        assert_eq!(ip(&self.mesh.pods[0], "rule"), DEFAULT_RULES);
    }
}

/// What `ip` prints in a namespace, in one line.
fn ip(netns: &Netns, words: &str) -> String {
    let mut ip = Command::new("ip");
    ip.args(words.split(' ')).env("LC_ALL", "C");
    let printed = netns.enter(|| ip.output()).unwrap().unwrap();
    let all = [printed.stdout, printed.stderr].concat();
    let text = String::from_utf8(all).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// That what is sent from an address in one namespace is received at an address in another.
#[track_caller]
fn is_heard(from: &Netns, source: &str, to: &Netns, target: &str) {
    let bound = |netns: &Netns, address| {
        let bind = || UdpSocket::bind((address, 0)).unwrap();
        netns.enter(bind).unwrap()
    };
    let (sender, receiver) = (bound(from, source), bound(to, target));
    let patience = Some(Duration::from_secs(10));
    receiver.set_read_timeout(patience).unwrap();
    sender
        .send_to(b"hello", receiver.local_addr().unwrap())
        .unwrap();
    let mut buffer = [0; 8];
    let heard = receiver.recv_from(&mut buffer).unwrap();
    assert_eq!(heard, (5, sender.local_addr().unwrap()));
}

fn the_lookups_of_policy_based_routing_lead_where_the_mesh_says() {
    let example = Example::start();
    example.is_connected("172.16.1.101", "172.16.1.100");
    example.ends();
}

fn under_the_mark_of_go_the_lookups_are_the_same_to_the_letter() {
    let mut example = Example::start_with(&[ANYBODYS], "");

    // And what others have on the interface, under the same mark, is not taken for ours.
    let pod = &example.mesh.pods[0];
    ip(pod, "route add 192.0.2.0/24 dev nsm-1");
    let of_others = |pod: &Netns| {
        let address = ip(pod, "-6 -o address show dev nsm-1 scope link");
        assert!(address.contains("fe80::"), "{address}");
        [address, ip(pod, "route show 192.0.2.0/24")]
    };
    let before = of_others(pod);
    assert!(before[1].contains("dev nsm-1"), "{before:?}");
    example.forwarder.take().unwrap().kill();
    let forwarder = Example::forwarder(&example.mesh, &[ANYBODYS]);
    forwarder.until_logged("connection established", 1);
    example.forwarder = Some(forwarder);
    assert_eq!(of_others(&example.mesh.pods[0]), before);
    assert_eq!(example.answers(), LOOKUPS.map(|it| it.1));

    example.ends();
}

fn the_lookups_hold_when_the_forwarder_has_died_and_is_back() {
    let mut example = Example::start();

    example.forwarder.take().unwrap().kill();
    example.mesh.delete_interfaces(0);
    for (answer, wanted) in example.answers().iter().zip(LOOKUPS) {
        assert_ne!(answer, wanted.1, "there is no interface");
    }
    example.forwarder = Some(Example::forwarder(&example.mesh, &[]));

    until("the lookups lead where they did", || {
        example.answers() == LOOKUPS.map(|it| it.1)
    });
    example.is_connected("172.16.1.101", "172.16.1.100");
    example.ends();
}

/// As in `heal/local-nse-death`: what the first endpoint gave stays, and so it is still the source.
fn the_lookups_hold_when_the_endpoint_has_died_and_another_is_in_its_place() {
    let mut example = Example::start();

    example.nse.take().unwrap().kill();
    let next = Example::endpoint(&example.mesh, "172.16.1.102/31", &["--name=nse-new"]);
    example.nse = Some(next);
    example.nsc.until_logged("endpoint=\"nse-new\"", 1);

    assert_eq!(example.answers(), LOOKUPS.map(|it| it.1));
    example.is_connected("172.16.1.103", "172.16.1.102");
    example.ends();
}

/// The addresses are the same on both connections, and so is what the lookups are from and to.
fn the_lookups_of_mutually_aware_endpoints_lead_where_the_mesh_says() {
    let mesh = Mesh::new(1, 2);
    let selectors = ["proto: 6, dstport: 6666", "proto: 17, dstport: 5555"];
    for (number, selector) in selectors.iter().enumerate() {
        let policy = format!(
            "- {{ from: 172.16.1.101/32, {selector}, routes: [ {{ prefix: 172.16.1.100/32 }} ] }}\n"
        );
        fs::write(mesh.file(&format!("policies-{number}.yaml")), policy).unwrap();
    }
    let services = [1, 2].map(|it| format!("mutually-aware-nses-{it}"));
    let names = services
        .each_ref()
        .map(|it| format!("--service-names={it}"));
    let cidr = "--cidr-prefix=172.16.1.100/31";
    let _nses = [0, 1].map(|it| mesh.endpoint(it, &[&names[it], cidr]));
    let endpoint = |it: usize| format!("{}={}", services[it], mesh.url(&format!("nse-{it}")));
    let endpoints = format!("--endpoints={},{}", endpoint(0), endpoint(1));
    let _forwarder = mesh.forwarder(&[&endpoints, TABLES]);
    let urls: Vec<_> = [0, 1]
        .map(|it| format!("kernel://{}/nsm-{}?color=red", services[it], it + 1))
        .into();
    let urls = urls.join(",");
    let nsc = mesh.client(
        0,
        &[
            &format!("--network-services={urls}"),
            &format!("--awareness-groups=[{urls}]"),
        ],
    );
    nsc.until_it_stands(2);

    let answer = |of: &str| {
        ip(
            &mesh.pods[0],
            &format!("r get 172.16.1.100 from 172.16.1.101 ipproto {of}"),
        )
    };
    let wanted = |interface: &str| format!("172.16.1.100 from 172.16.1.101 dev {interface}");
    let tcp = answer("tcp dport 6666");
    assert!(tcp.contains(&wanted("nsm-1")), "{tcp}");
    let udp = answer("udp dport 5555");
    assert!(udp.contains(&wanted("nsm-2")), "{udp}");
    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}
