//! A pod, a network behind an endpoint, and who runs there.

use crate::process::Process;
use nsm_netlink::{Family, Kernel, Namespace, Netns, Rule};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The service that there is.
const SERVICE: &str = "net";

/// The namespaces and the folder of one case.
#[derive(Debug)]
pub struct Mesh {
    node: Netns,
    pod: Netns,
    network: Netns,
    folder: PathBuf,
}

impl Mesh {
    /// A mesh in which nobody runs.
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);

        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nsm-e2e-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let policies = "- from: 10.9.9.9\n- from: 2001:db8::9\n";
        fs::write(folder.join("policies.yaml"), policies).unwrap();
        Self {
            node: Netns::current().unwrap(),
            pod: Netns::create().unwrap(),
            network: Netns::create().unwrap(),
            folder,
        }
    }

    /// Starts the endpoint.
    pub fn endpoint(&self) -> Process {
        let arguments = [
            format!("--listen-on={}", self.socket("nse")),
            format!("--service-names={SERVICE}"),
            "--cidr-prefix=172.16.1.0/24,fd00:1::/64".to_owned(),
            format!("--pbr-config-path={}/policies.yaml", self.folder.display()),
        ];
        self.start("nse", &self.network, &arguments, &[])
    }

    /// Starts the forwarder.
    pub fn forwarder(&self, more: &[&str]) -> Process {
        let arguments = [
            format!("--listen-on={}", self.socket("forwarder")),
            format!("--endpoints={SERVICE}={}", self.socket("nse")),
        ];
        self.start("forwarder", &self.node, &arguments, more)
    }

    /// Starts the client.
    pub fn client(&self, more: &[&str]) -> Process {
        let arguments = [
            format!("--connect-to={}", self.socket("forwarder")),
            format!("--network-services={SERVICE}/nsm-0"),
        ];
        self.start("nsc", &self.pod, &arguments, more)
    }

    fn start(&self, program: &str, netns: &Netns, own: &[String], more: &[&str]) -> Process {
        let more = more.iter().map(|argument| (*argument).to_owned());
        let arguments: Vec<_> = own.iter().cloned().chain(more).collect();
        let log = self.folder.join(format!("{program}.log"));
        Process::start(program, netns, &log, &arguments)
    }

    fn socket(&self, program: &str) -> String {
        format!("unix://{}/{program}.sock", self.folder.display())
    }

    /// Waits until a client has said so often that its connection stands.
    #[track_caller]
    pub fn until_it_stands(&self, client: &Process, times: usize) {
        client.until_logged("the connection stands", times);
    }

    /// What stands in the pod for the connection: the interfaces, their addresses and the rules.
    pub fn standing(&self) -> (Vec<String>, Vec<String>, Vec<Rule>) {
        let mut kernel = self.pod.open().unwrap();
        let links = kernel.links().unwrap().into_iter();
        let names = links.map(|link| link.name).filter(|name| name != "lo");
        let names: Vec<_> = names.collect();
        let addresses = kernel.addresses().unwrap().into_iter();
        let addresses = addresses
            .map(|(_, net)| net.to_string())
            .filter(|net| !net.starts_with("fe80") && !net.starts_with("127.") && net != "::1/128");
        let mut addresses: Vec<_> = addresses.collect();
        addresses.sort();
        let mut rules = Vec::new();
        for family in Family::ALL {
            let all = kernel.rules(family).unwrap().items;
            rules.extend(all.into_iter().filter(|rule| rule.protocol >= 78));
        }
        (names, addresses, rules)
    }

    /// That there is nothing left of any connection, at both ends.
    #[track_caller]
    pub fn is_clean(&self) {
        let (names, addresses, rules) = self.standing();
        assert!(
            names.is_empty() && addresses.is_empty() && rules.is_empty(),
            "{names:?} {addresses:?} {rules:?}"
        );
        let far = self.network.open().unwrap().links().unwrap();
        assert_eq!(far.len(), 1, "{far:?}");
    }
}

impl Default for Mesh {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}
