use super::{LO, World};
use crate::objects::net;
use ipnet::IpNet;
use nsm_netlink::fake::{Flow, Way};
use nsm_netlink::{
    DuplicateDetection, Errno, Event, Family, Kernel, KernelError, LinkState, Monitor, Namespace,
    Netns, NetnsId, Route, Rtnl, RtnlNotifications, Rule, VethEnd,
};
use std::fs;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

const LOCAL: u32 = 255;
/// How long the kernel may take for what it does in its own time.
const PATIENCE: Duration = Duration::from_secs(10);

/// A new namespace of the machine's kernel.
pub(crate) struct Real {
    netns: Netns,
    /// Where the other ends of its interfaces are.
    far: Netns,
    monitor: Mutex<Monitor>,
}

impl Namespace for Real {
    type Kernel = Rtnl;
    type Notifications = RtnlNotifications;

    fn id(&self) -> NetnsId {
        self.netns.id()
    }

    fn open(&self) -> Result<Rtnl, KernelError> {
        self.netns.open()
    }

    fn listen(&self) -> Result<RtnlNotifications, KernelError> {
        self.netns.listen()
    }
}

impl Real {
    fn name(&self, index: u32) -> Option<String> {
        let links = self.kernel().links().unwrap();
        links
            .into_iter()
            .find(|link| link.index == index)
            .map(|link| link.name)
    }

    fn write_sysctl(&self, path: &str, value: &str) {
        let file = format!("/proc/sys/net/{path}");
        let written = self.netns.enter(|| fs::write(&file, value)).unwrap();
        written.unwrap_or_else(|error| panic!("{file} is written: {error}"));
    }

    fn read_sysctl(&self, path: &str) -> String {
        let file = format!("/proc/sys/net/{path}");
        let text = self.netns.enter(|| fs::read_to_string(&file)).unwrap();
        text.unwrap_or_else(|error| panic!("{file} is read: {error}"))
            .trim()
            .to_owned()
    }

    /// Waits for a route that the kernel makes in its own time.
    fn wait_for_local(&self, family: Family, wanted: impl Fn(&Route) -> bool) {
        let started = Instant::now();
        let mut kernel = self.kernel();
        while !kernel
            .routes(family, LOCAL..=LOCAL)
            .unwrap()
            .items
            .iter()
            .any(&wanted)
        {
            assert!(
                started.elapsed() < PATIENCE,
                "the kernel makes the routes of an address"
            );
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Runs `ip` in the namespace, for what only the world does.
    fn ip(&self, family: Family, words: &str) -> Output {
        let family = match family {
            Family::V4 => "-4",
            Family::V6 => "-6",
        };
        let mut command = Command::new("ip");
        command.arg(family).args(words.split_whitespace());
        let output = self.netns.enter(|| command.output()).unwrap();
        output.unwrap_or_else(|error| panic!("`ip` of iproute2 runs: {error}"))
    }

    fn must_ip(&self, family: Family, words: &str) {
        let output = self.ip(family, words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {words}: {error}");
    }

    fn route_words(&self, route: &Route) -> String {
        let words = route.display(|index| self.name(index)).to_string();
        // Without a word about it `ip` takes the scope that fits the next hop.
        let scope = if route.scope == 0 && route.family() == Family::V4 {
            " scope 0"
        } else {
            ""
        };
        words + scope
    }
}

impl World for Real {
    fn fresh() -> Self {
        let netns = Netns::create().unwrap();
        let monitor = Mutex::new(Monitor::new(&netns).unwrap());
        let world = Self {
            netns,
            far: Netns::create().unwrap(),
            monitor,
        };
        // It may be set on the machine, and namespaces inherit it.
        for which in ["all", "default"] {
            world.write_sysctl(&format!("ipv4/conf/{which}/promote_secondaries"), "0");
        }
        // Otherwise each interface has an address and a route that no test asks for.
        world.write_sysctl("ipv6/conf/default/addr_gen_mode", "1");
        world
    }

    fn add_link(&self, name: &str) -> u32 {
        let ends = [VethEnd::named(name), VethEnd::named(name)];
        self.kernel()
            .add_veth(&ends[0], &ends[1], &self.far)
            .unwrap();
        let mut far = self.far.open().unwrap();
        let index = far.index_of(name).unwrap();
        far.set_link(index, LinkState::Up).unwrap();
        self.kernel().index_of(name).unwrap()
    }

    fn delete_link(&self, index: u32) {
        self.kernel().delete_link(index).unwrap();
    }

    fn set_up(&self, index: u32) {
        self.kernel().set_link(index, LinkState::Up).unwrap();
        // IPv6 waits for the carrier, of which the kernel hears a little later (`linkwatch`).
        let name = self.name(index).unwrap();
        if index != LO && self.read_sysctl(&format!("ipv6/conf/{name}/disable_ipv6")) == "0" {
            let multicast = net("ff00::/8");
            self.wait_for_local(Family::V6, |route| {
                route.prefix == multicast && route.dev() == Some(index)
            });
        }
    }

    fn set_down(&self, index: u32) {
        self.kernel().set_link(index, LinkState::Down).unwrap();
    }

    fn lose_carrier(&self, index: u32) {
        let name = self.name(index).unwrap();
        let mut far = self.far.open().unwrap();
        let index = far.index_of(&name).unwrap();
        far.set_link(index, LinkState::Down).unwrap();
    }

    fn rename(&self, index: u32, name: &str) {
        let old = self.name(index).unwrap();
        self.must_ip(Family::V4, &format!("link set {old} name {name}"));
    }

    fn set_ipv6(&self, index: u32, enabled: bool) {
        let name = self.name(index).unwrap();
        let value = if enabled { "0" } else { "1" };
        self.write_sysctl(&format!("ipv6/conf/{name}/disable_ipv6"), value);
    }

    fn add_address(&self, index: u32, address: IpNet) {
        self.kernel()
            .add_address(index, address, DuplicateDetection::Skip)
            .unwrap();
        // An IPv6 address is put to use a little later, also without a detection of duplicates
        // (`addrconf_dad_work`, net/ipv6/addrconf.c).
        let family = Family::of_net(&address);
        self.wait_for_local(family, |route| route.prefix.addr() == address.addr());
    }

    fn remove_address(&self, index: u32, address: IpNet) {
        self.kernel().delete_address(index, address).unwrap();
    }

    fn add_rule_unnumbered(&self, rule: &Rule) -> bool {
        let text = rule.to_string();
        let (_, words) = text.split_once(':').unwrap();
        self.ip(rule.family(), &format!("rule add {words}"))
            .status
            .success()
    }

    fn restore_rules(&self, family: Family) {
        let ip = if family == Family::V4 {
            "ip -4"
        } else {
            "ip -6"
        };
        let mut shell = Command::new("sh");
        shell.args(["-ec", &format!("{ip} rule save | {ip} rule restore")]);
        let status = self.netns.enter(|| shell.status()).unwrap().unwrap();
        assert!(status.success(), "{shell:?}");
    }

    fn prepend(&self, route: &Route) -> bool {
        let words = format!("route prepend {}", self.route_words(route));
        self.ip(route.family(), &words).status.success()
    }

    fn replace(&self, route: &Route) -> bool {
        let words = format!("route replace {}", self.route_words(route));
        self.ip(route.family(), &words).status.success()
    }

    fn add_multipath(&self, legs: &[Route]) -> bool {
        let first = &legs[0];
        let mut words = format!(
            "route add {} table {} proto {} metric {}",
            first.prefix, first.table, first.protocol, first.metric
        );
        for leg in legs {
            let hop = leg.hop.unwrap();
            let via = hop.via.map(|via| format!("via {via}")).unwrap_or_default();
            let dev = self.name(hop.dev).unwrap();
            let onlink = if leg.onlink { "onlink" } else { "" };
            words += &format!(" nexthop {via} dev {dev} weight {} {onlink}", hop.weight);
        }
        self.ip(first.family(), &words).status.success()
    }

    fn lookup(&self, flow: &Flow) -> Result<Way, Errno> {
        let mut words = format!("route get {}", flow.to);
        if let Some(from) = flow.from {
            words += &format!(" from {from}");
        }
        if let Some(proto) = flow.proto {
            words += &format!(" ipproto {proto}");
        }
        for (word, port) in [("sport", flow.sport), ("dport", flow.dport)] {
            if let Some(port) = port {
                words += &format!(" {word} {port}");
            }
        }
        if flow.mark != 0 {
            words += &format!(" mark {}", flow.mark);
        }
        if let Some(oif) = flow.oif {
            words += &format!(" oif {}", self.name(oif).unwrap());
        }
        let output = self.ip(Family::of(&flow.to), &words);
        let (answer, error) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        if !output.status.success() || answer.contains(" error -") {
            return Err(reason(&answer, &error));
        }
        let word = |name| {
            let mut words = answer.split_whitespace();
            words.find(|word| *word == name).and_then(|_| words.next())
        };
        let table = match word("table") {
            None | Some("main") => 254,
            Some("local") => 255,
            Some(number) => number.parse().unwrap(),
        };
        let dev = self.kernel().index_of(word("dev").unwrap()).unwrap();
        Ok(Way {
            table,
            dev,
            via: word("via").map(|via| via.parse().unwrap()),
        })
    }

    fn events(&self) -> Vec<Event> {
        self.monitor.lock().unwrap().drain().unwrap()
    }
}

/// What `ip route get` fails with.
fn reason(answer: &str, error: &str) -> Errno {
    let known = [
        ("No route to host", "error -113", Errno::EHOSTUNREACH),
        ("Network is unreachable", "error -101", Errno::ENETUNREACH),
        ("Permission denied", "error -13", Errno::EACCES),
        ("Invalid argument", "error -22", Errno::EINVAL),
    ];
    let found = known
        .into_iter()
        .find(|(text, number, _)| error.contains(text) || answer.contains(number));
    found
        .unwrap_or_else(|| panic!("`ip route get` says: {answer}{error}"))
        .2
}
