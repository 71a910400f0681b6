//! The programs of a cell, where they run, and what stands there.

use super::cell::{Cell, Language};
use super::monitor;
use super::pod::Stands;
use e2e::{Mesh, Process, source, who_answers};
use nsm_api::connection::Connection;
use nsm_netlink::{Family, Namespace, Netns};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the kernel of a pod may take to become what it should be.
const PATIENCE: Duration = Duration::from_secs(20);
/// The interface of the connection in the pod.
const INTERFACE: &str = "nsm-0";

/// A client in a pod, a forwarder on a node, and an endpoint in a network.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) cell: Cell,
    pub(super) client: Option<Process>,
    pub(super) forwarder: Option<Process>,
    pub(super) endpoint: Option<Process>,
    /// What the client was started with besides.
    settings: Vec<String>,
    /// After those who run in it.
    pub(super) mesh: Mesh,
}

impl Stage {
    /// Starts all three, the client with more flags, and waits until its traffic is answered.
    pub(super) fn start(programs: &Path, cell: Cell, settings: &[&str]) -> Self {
        let mut mesh = Mesh::new(1, 1);
        // Others make interfaces beside us.
        mesh.node = Netns::create().unwrap();
        let written = [
            ("nsc", "client", cell.client),
            ("forwarder", "forwarder", cell.forwarder),
            ("nse", "endpoint", cell.endpoint),
        ];
        for (ours, theirs, language) in written {
            if language == Language::Go {
                mesh.start_in_place_of(ours, &programs.join(theirs));
            }
        }
        let mut stage = Self {
            cell,
            client: None,
            forwarder: Some(mesh.forwarder(&[])),
            endpoint: None,
            settings: settings.iter().map(|it| (*it).to_owned()).collect(),
            mesh,
        };
        stage.write_policies(0, 0);
        stage.start_endpoint();
        stage.start_client();
        stage
    }

    /// Starts the client, and waits until its traffic is answered.
    pub(super) fn start_client(&mut self) {
        let service = format!("--network-services=kernel://net-0/{INTERFACE}");
        let settings = self.settings.iter().map(String::as_str);
        let settings: Vec<_> = [service.as_str()].into_iter().chain(settings).collect();
        let client = self.mesh.client(0, &settings);
        client.until_it_stands(1);
        self.client = Some(client);
        self.mesh.until_served(0);
    }

    /// Kills the endpoint.
    pub(super) fn kill_endpoint(&mut self) {
        self.endpoint.take().unwrap().kill();
    }

    /// Starts it anew.
    pub(super) fn start_endpoint(&mut self) {
        self.endpoint = Some(self.mesh.endpoint(0, &[]));
    }

    /// Lets the endpoint have policies for the traffic of these sources, by its address in that pair
    /// of its addresses.
    pub(super) fn write_policies(&self, sources: usize, pair: usize) {
        let texts = Family::ALL.into_iter().map(|family| {
            let (from, hop) = (source(sources, family), hop(family, pair));
            let (prefix, length) = (everything(family), length(family));
            format!("- from: {from}/{length}\n  routes:\n    - prefix: {prefix}\n      nexthop: '{hop}'\n")
        });
        let text: String = texts.collect();
        fs::write(self.mesh.file("policies-0.yaml"), text).unwrap();
    }

    /// Whether the traffic of these sources is answered by the endpoint, in both families.
    pub(super) fn answers(&self, sources: usize) -> bool {
        who_answers(&self.mesh.pods[0], sources) == [Some(0), Some(0)]
    }

    /// What stands in the pod.
    pub(super) fn pod(&self) -> Stands {
        Stands::of(&self.mesh.pods[0])
    }

    /// What stands in the endpoint's network, besides what it has of its own.
    pub(super) fn network(&self) -> Stands {
        Stands::of(&self.mesh.networks[0])
    }

    /// What has to stand in the pod when these sources have policies by that pair, and the client the
    /// first pair of addresses.
    pub(super) fn expected(&self, sources: usize, pair: usize) -> Stands {
        let mut expected = Stands {
            interfaces: BTreeSet::from([INTERFACE.to_owned()]),
            ..Stands::default()
        };
        for family in Family::ALL {
            let length = length(family);
            let own = match family {
                Family::V4 => "172.16.0.1",
                Family::V6 => "fd00::1",
            };
            let (source, endpoint) = (source(sources, family), hop(family, 0));
            for address in [own.to_owned(), source.to_string()] {
                let text = format!("{address}/{length} on {INTERFACE}");
                expected.addresses.insert(text);
            }
            let route = format!("{endpoint}/{length} dev {INTERFACE}");
            expected.routes.insert(route);
            let (everything, hop) = (everything(family), hop(family, pair));
            let way = format!("{everything} via {hop} dev {INTERFACE}");
            expected.policies.insert(format!("from {source}: {way}"), 1);
        }
        expected
    }

    /// Waits until that stands in the pod.
    #[track_caller]
    pub(super) fn until_pod(&self, expected: &Stands) {
        let start = Instant::now();
        // Whoever waits in vain wants to see for what.
        while self.pod() != *expected && start.elapsed() < PATIENCE {
            sleep(Duration::from_millis(10));
        }
        assert_eq!(self.pod(), *expected);
    }

    /// The connections that the endpoint knows.
    pub(super) fn at_endpoint(&self) -> Vec<Connection> {
        monitor::connections(&self.mesh.url("nse-0"))
    }

    /// Those that the forwarder knows.
    pub(super) fn at_forwarder(&self) -> Vec<Connection> {
        monitor::connections(&self.mesh.url("forwarder"))
    }

    /// The names and ids of all hops of the connection, as the forwarder knows them.
    pub(super) fn hops(&self) -> Vec<(String, String)> {
        let connection = monitor::connection(&self.mesh.url("forwarder"));
        let segments = connection.path.into_iter().flat_map(|it| it.path_segments);
        segments.map(|it| (it.name, it.id)).collect()
    }

    /// The second in which the client's token expires, as the forwarder has it: each refresh brings a
    /// later one.
    pub(super) fn expiry(&self) -> i64 {
        let connection = monitor::connection(&self.mesh.url("forwarder"));
        let path = connection.path.unwrap();
        path.path_segments[0].expires.as_ref().unwrap().seconds
    }

    /// Whether the endpoint answers with policies by that pair of its addresses.
    pub(super) fn is_answered(&self, pair: usize) -> bool {
        let known = self.at_endpoint();
        let hops = known.iter().flat_map(|connection| {
            let context = connection.context.iter();
            let ip = context.filter_map(|context| context.ip_context.as_ref());
            let routes = ip.flat_map(|ip| &ip.policies).flat_map(|it| &it.routes);
            routes.map(|route| route.next_hop.as_str())
        });
        let mut hops: Vec<&str> = hops.collect();
        hops.sort_unstable();
        let mut right = Family::ALL.map(|family| hop(family, pair));
        right.sort_unstable();
        hops == right
    }

    /// How many descriptors of the pod a program holds.
    pub(super) fn held(&self, program: &Process) -> usize {
        let pod = format!("net:[{}]", self.mesh.pods[0].id().ino);
        let held = program.descriptors();
        held.iter()
            .filter(|it| it.target == Path::new(&pod))
            .count()
    }
}

/// The prefix of a family's addresses.
fn everything(family: Family) -> &'static str {
    match family {
        Family::V4 => "0.0.0.0/0",
        Family::V6 => "::/0",
    }
}

/// The length of a prefix that is one address. The Go implementation takes no address without.
fn length(family: Family) -> u8 {
    match family {
        Family::V4 => 32,
        Family::V6 => 128,
    }
}

/// The endpoint's address in that pair of its addresses.
fn hop(family: Family, pair: usize) -> String {
    match family {
        Family::V4 => format!("172.16.0.{}", 2 * pair),
        Family::V6 => match 2 * pair {
            0 => "fd00::".to_owned(),
            host => format!("fd00::{host:x}"),
        },
    }
}
