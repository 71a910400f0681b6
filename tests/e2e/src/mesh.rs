//! Pods, networks behind endpoints, and who runs there.

use crate::clock::Clock;
use crate::process::{Process, until};
use crate::standing::Standing;
use crate::traffic::{Answers, who_answers};
use nsm_netlink::{Family, Kernel, Namespace, Netns};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The namespaces and the folder of one case. Everything ends with this value.
///
/// Network 0 has service `net-0`, whose connection is `nsm-0` in a pod; its endpoint gives addresses
/// of 172.16.0.0/24 and fd00:0::/64, and policies for 10.9.0.9 and 2001:db8:0::9. So with the others
/// and their numbers.
#[derive(Debug)]
pub struct Mesh {
    /// Where the forwarder runs.
    pub node: Netns,
    /// Where the clients run.
    pub pods: Vec<Netns>,
    /// Where the endpoints run.
    pub networks: Vec<Netns>,
    folder: PathBuf,
    /// How many programs have been started.
    started: AtomicUsize,
    /// What programs are started with from now on.
    environment: Mutex<Vec<(String, OsString)>>,
    /// Programs of others that run in place of ours from now on.
    others: Mutex<BTreeMap<String, PathBuf>>,
    _answers: Vec<Answers>,
}

/// The source of the traffic that the policies of a network are for.
pub fn source(network: usize, family: Family) -> IpAddr {
    // There are a handful.
    let number = network as u8;
    match family {
        Family::V4 => Ipv4Addr::new(10, 9, number, 9).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, number.into(), 0, 0, 0, 0, 9).into(),
    }
}

impl Mesh {
    /// A mesh of so many pods and networks, in which nobody runs.
    pub fn new(pods: usize, networks: usize) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);

        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("nsm-e2e-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let several = |count| (0..count).map(|_| Netns::create().unwrap()).collect();
        let networks: Vec<_> = several(networks);
        let mut answers = Vec::new();
        for (number, network) in networks.iter().enumerate() {
            fs::write(policy_path(&folder, number), policies(number, 0)).unwrap();
            answers.push(Answers::begin(network, number as u8));
        }
        Self {
            node: Netns::current().unwrap(),
            pods: several(pods),
            networks,
            folder,
            started: AtomicUsize::new(0),
            environment: Mutex::default(),
            others: Mutex::default(),
            _answers: answers,
        }
    }

    /// Starts the endpoint of a network. `more` are flags of the form `--name=value`, which take the
    /// place of those of the same name.
    pub fn endpoint(&self, network: usize, more: &[&str]) -> Process {
        let own = self.endpoint_flags(network);
        self.start("nse", &self.networks[network], &own, more)
    }

    /// The flags of the endpoint of a network.
    pub fn endpoint_flags(&self, network: usize) -> Vec<String> {
        vec![
            format!("--name=nse-{network}"),
            format!("--listen-on={}", self.url(&format!("nse-{network}"))),
            format!("--service-names=net-{network}"),
            format!("--cidr-prefix=172.16.{network}.0/24,fd00:{network}::/64"),
            format!(
                "--pbr-config-path={}",
                policy_path(&self.folder, network).display()
            ),
        ]
    }

    /// Writes the policies of a network anew, so that they lead to the endpoint's address in that
    /// pair of its addresses. At first it is pair 0. An endpoint follows them.
    pub fn lead_to_pair(&self, network: usize, pair: usize) {
        let text = policies(network, 2 * pair);
        fs::write(policy_path(&self.folder, network), text).unwrap();
    }

    /// Starts the endpoints of all networks.
    pub fn endpoints(&self) -> Vec<Process> {
        let networks = 0..self.networks.len();
        networks.map(|it| self.endpoint(it, &[])).collect()
    }

    /// Starts the forwarder.
    pub fn forwarder(&self, more: &[&str]) -> Process {
        let endpoints = 0..self.networks.len();
        let endpoints = endpoints.map(|it| format!("net-{it}={}", self.url(&format!("nse-{it}"))));
        let endpoints: Vec<_> = endpoints.collect();
        let own = [
            format!("--listen-on={}", self.url("forwarder")),
            format!("--endpoints={}", endpoints.join(",")),
        ];
        self.start("forwarder", &self.node, &own, more)
    }

    /// Starts the client of a pod, with a connection to each network.
    pub fn client(&self, pod: usize, more: &[&str]) -> Process {
        let services = 0..self.networks.len();
        let services: Vec<_> = services.map(|it| format!("net-{it}/nsm-{it}")).collect();
        let own = [
            format!("--name=nsc-{pod}"),
            format!("--connect-to={}", self.url("forwarder")),
            format!("--network-services={}", services.join(",")),
        ];
        self.start("nsc", &self.pods[pod], &own, more)
    }

    fn start(&self, program: &str, netns: &Netns, own: &[String], more: &[&str]) -> Process {
        let arguments = flags(own, more);
        let number = self.started.fetch_add(1, Relaxed);
        let log = self.folder.join(format!("{number}-{program}.log"));
        if let Some(other) = self.others.lock().unwrap().get(program) {
            return Process::start_at(other, program, netns, &log, &arguments);
        }
        let environment = self.environment.lock().unwrap();
        Process::start_with(program, netns, &log, &arguments, &environment)
    }

    /// Starts programs by a clock of their own from now on, or by the machine's.
    pub fn start_by(&self, clock: Option<&Clock>) {
        let environment = clock.map(Clock::environment).unwrap_or_default();
        *self.environment.lock().unwrap() = environment;
    }

    /// Starts a program of others in place of ours of that name from now on. It is started with the
    /// same flags.
    pub fn start_in_place_of(&self, program: &str, other: &Path) {
        let mut others = self.others.lock().unwrap();
        others.insert(program.to_owned(), other.to_owned());
    }

    /// Where a program listens: `forwarder`, or `nse-` and the number of its network.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.sock"))
    }

    /// The same, as a setting.
    pub fn url(&self, name: &str) -> String {
        format!("unix://{}", self.socket(name).display())
    }

    /// A file of the case.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Deletes all interfaces of a pod, and with them their other ends.
    pub fn delete_interfaces(&self, pod: usize) {
        let mut kernel = self.pods[pod].open().unwrap();
        for link in kernel.links().unwrap() {
            if link.name != "lo" {
                kernel.delete_link(link.index).unwrap();
            }
        }
    }

    /// Whether a program holds a descriptor of any pod.
    pub fn holds_a_pod(&self, program: &Process) -> bool {
        let name = |pod: &Netns| PathBuf::from(format!("net:[{}]", pod.id().ino));
        let pods: Vec<_> = self.pods.iter().map(name).collect();
        let held = program.descriptors();
        held.iter().any(|it| pods.contains(&it.target))
    }

    /// What stands in a pod.
    pub fn in_pod(&self, pod: usize) -> Standing {
        Standing::of(&self.pods[pod])
    }

    /// What stands in a network, besides what it has of its own.
    pub fn in_network(&self, network: usize) -> Standing {
        Standing::of(&self.networks[network])
    }

    /// Waits until the traffic of a pod's policies is answered by their own networks, and tells how
    /// long that took. There must be no other pod with these policies.
    #[track_caller]
    pub fn until_served(&self, pod: usize) -> Duration {
        let networks = 0..self.networks.len();
        until("all traffic goes where it should", || {
            let mut served = networks.clone().map(|network| {
                let right = Some(network as u8);
                who_answers(&self.pods[pod], network) == [right, right]
            });
            served.all(|it| it)
        })
    }

    /// Waits until there is nothing left of any connection, in any namespace.
    #[track_caller]
    pub fn until_clean(&self) {
        until("nothing is left", || self.left().is_empty());
    }

    /// That there is nothing left of any connection, in any namespace.
    #[track_caller]
    pub fn is_clean(&self) {
        assert_eq!(self.left(), []);
    }

    fn left(&self) -> Vec<Standing> {
        let all = self.pods.iter().chain(&self.networks);
        let standing = all.map(Standing::of);
        standing.filter(|it| !it.is_empty()).collect()
    }
}

/// Flags, with more that take the place of those of the same name.
pub(crate) fn flags(own: &[String], more: &[&str]) -> Vec<String> {
    let flag = |it: &str| it.split('=').next().unwrap_or_default().to_owned();
    let replaced = |it: &&String| more.iter().any(|other| flag(other) == flag(it));
    let mut flags: Vec<_> = own.iter().filter(|it| !replaced(it)).cloned().collect();
    flags.extend(more.iter().map(|it| (*it).to_owned()));
    flags
}

/// All traffic of the sources goes to the endpoint, at the address of that number in its prefixes.
fn policies(network: usize, host: usize) -> String {
    let hops = [
        ("0.0.0.0/0", format!("172.16.{network}.{host}")),
        ("::/0", format!("fd00:{network}::{host:x}")),
    ];
    let policies = Family::ALL.into_iter().zip(hops);
    let texts = policies.map(|(family, (prefix, hop))| {
        let from = source(network, family);
        format!("- from: {from}\n  routes:\n    - prefix: {prefix}\n      nexthop: '{hop}'\n")
    });
    texts.collect()
}

fn policy_path(folder: &Path, network: usize) -> PathBuf {
    folder.join(format!("policies-{network}.yaml"))
}

impl Drop for Mesh {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}
