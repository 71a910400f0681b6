//! An endpoint's policy file that changes while connections stand.

use e2e::{Caller, Listening, Mesh, Process, until};
use libtest_mimic::Trial;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_netlink::{Monitor, Object};
use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        an_edit_of_the_policies_is_in_the_kernel_within_a_second,
        another_next_hop_touches_its_route_and_nothing_else,
        a_mistake_in_the_policies_changes_nothing_and_is_reported_with_its_place,
        policies_whose_file_is_removed_stay_as_they_were,
        an_edit_reaches_the_clients_with_its_labels_and_no_others,
        every_swap_of_a_volume_arrives_however_it_is_reported,
        a_policy_file_that_is_removed_and_added_five_times_arrives_each_time,
        policies_of_which_no_event_tells_arrive_within_the_period_of_looking,
        an_endpoint_that_follows_its_file_for_long_holds_no_more_descriptors,
    ]
}

/// A client's connection to network 0, and those who make it.
struct Running<'a> {
    mesh: &'a Mesh,
    nse: Process,
    _forwarder: Process,
    caller: Caller,
}

impl<'a> Running<'a> {
    fn start(mesh: &'a Mesh) -> Self {
        Self::start_with(mesh, &[])
    }

    fn start_with(mesh: &'a Mesh, more: &[&str]) -> Self {
        Self {
            mesh,
            nse: mesh.endpoint(0, more),
            _forwarder: mesh.forwarder(&[]),
            caller: Caller::new(&mesh.url("forwarder"), &[]),
        }
    }

    /// A connection of a pod, with these labels.
    fn client(&self, pod: usize, labels: &[(&str, &str)]) -> Client<'_> {
        let id = format!("client-{pod}");
        let mut request = self.caller.ask_for(&id, &self.mesh.pods[pod], "nsm-0");
        let labels = labels.iter();
        request.connection.get_or_insert_default().labels = labels
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>();
        let answer = self.caller.request(request.clone()).unwrap();
        Client {
            caller: &self.caller,
            listening: self.caller.listen(&answer),
            request,
            answer,
        }
    }

    /// What the endpoint has said of its file.
    fn warnings(&self) -> Vec<String> {
        let log = self.nse.log();
        let warnings = log.lines().filter(|line| line.contains("WARN"));
        warnings.map(str::to_owned).collect()
    }
}

/// A client that does what it is asked to.
struct Client<'a> {
    caller: &'a Caller,
    listening: Listening<'a>,
    request: NetworkServiceRequest,
    answer: Connection,
}

impl Client<'_> {
    /// Waits until it is asked to refresh, and does so.
    fn refresh_when_asked(&mut self) {
        self.listening.until_asked();
        self.refresh();
    }

    fn refresh(&mut self) {
        self.request.connection = Some(self.answer.clone());
        self.answer = self.caller.request(self.request.clone()).unwrap();
    }

    /// What the policies that it has are for.
    fn sources(&self) -> Vec<&str> {
        let policies = self.answer.policies().iter();
        policies.map(|policy| policy.from.as_str()).collect()
    }
}

fn policy_file(mesh: &Mesh) -> PathBuf {
    mesh.file("policies-0.yaml")
}

/// A file with a policy for each of these hosts.
fn policies(hosts: &[u8]) -> String {
    let items = hosts.iter().map(|host| format!("- from: 10.20.0.{host}\n"));
    items.collect()
}

/// The rules of a pod, by what they are for.
fn rules(mesh: &Mesh) -> Vec<String> {
    let rules = mesh.in_pod(0).rules;
    rules
        .iter()
        .filter_map(|rule| Some(rule.selector.from?.addr().to_string()))
        .collect()
}

fn an_edit_of_the_policies_is_in_the_kernel_within_a_second() {
    let mesh = Mesh::new(1, 1);
    let (nse, _forwarder) = (mesh.endpoint(0, &[]), mesh.forwarder(&[]));
    // By itself it would ask again in minutes.
    let nsc = mesh.client(0, &["--max-token-lifetime=10m"]);
    nsc.until_it_stands(1);

    let mut slowest = Duration::ZERO;
    for hosts in [&[1][..], &[1, 2], &[3], &[4, 5, 6], &[]] {
        let start = Instant::now();
        fs::write(policy_file(&mesh), policies(hosts)).unwrap();
        let expected: Vec<_> = hosts.iter().map(|it| format!("10.20.0.{it}")).collect();
        until("the rules are those of the file", || {
            rules(&mesh) == expected
        });
        slowest = slowest.max(start.elapsed());
    }

    eprintln!("from an edit to the kernel of the pod: {slowest:?} at most");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert!(!nse.log().contains("WARN"), "{}", nse.log());
    assert!(!nsc.log().contains("another endpoint"), "{}", nsc.log());
}

fn another_next_hop_touches_its_route_and_nothing_else() {
    let mesh = Mesh::new(1, 1);
    let running = Running::start(&mesh);
    let mut client = running.client(0, &[]);
    let text = |hop: u8| {
        let hop = format!("  routes: [ {{ prefix: 10.0.0.0/8, nexthop: 172.16.0.{hop} }} ]\n");
        format!("- from: 10.20.0.1\n{hop}- from: 10.20.0.2\n")
    };
    fs::write(policy_file(&mesh), text(0)).unwrap();
    client.refresh_when_asked();
    let before = mesh.in_pod(0);
    let mut monitor = Monitor::new(&mesh.pods[0]).unwrap();

    fs::write(policy_file(&mesh), text(2)).unwrap();
    client.refresh_when_asked();

    let after = mesh.in_pod(0);
    assert_eq!(after.rules, before.rules);
    assert_eq!(
        (after.interfaces, after.addresses),
        (before.interfaces, before.addresses)
    );
    let changed = |this: &[String], other: &[String]| -> Vec<String> {
        let changed = this.iter().filter(|route| !other.contains(route));
        changed.cloned().collect()
    };
    let new = changed(&after.routes, &before.routes);
    assert_eq!(new.len(), 1, "{new:?}");
    assert!(new[0].contains("via 172.16.0.2"), "{new:?}");
    assert_eq!(changed(&before.routes, &after.routes).len(), 1);
    let events = monitor.drain().unwrap();
    assert!(!events.is_empty());
    for event in events {
        let Object::Route(route) = &event.object else {
            panic!("a rule was touched: {event:?}");
        };
        let text = route.display(|_| None).to_string();
        assert!(text.contains("10.0.0.0/8"), "{text}");
    }
}

fn a_mistake_in_the_policies_changes_nothing_and_is_reported_with_its_place() {
    let mesh = Mesh::new(1, 1);
    let running = Running::start(&mesh);
    let mut client = running.client(0, &[]);
    let before = mesh.in_pod(0);

    fs::write(policy_file(&mesh), "- from: 10.0.0.1\n  dstPort: 80\n").unwrap();
    running
        .nse
        .until_logged("policies-0.yaml:2:3: unknown field `dstPort`", 1);
    client.refresh();

    assert!(!client.listening.was_asked());
    assert_eq!(mesh.in_pod(0), before);
    assert_eq!(running.warnings().len(), 1, "{:?}", running.warnings());

    fs::write(policy_file(&mesh), policies(&[1])).unwrap();
    client.refresh_when_asked();
    assert_eq!(rules(&mesh), ["10.20.0.1"]);
}

fn policies_whose_file_is_removed_stay_as_they_were() {
    let mesh = Mesh::new(1, 1);
    let running = Running::start(&mesh);
    let mut client = running.client(0, &[]);
    let before = mesh.in_pod(0);

    fs::remove_file(policy_file(&mesh)).unwrap();
    running.nse.until_logged("the policy file is gone", 1);
    client.refresh();

    assert!(!client.listening.was_asked());
    assert_eq!(mesh.in_pod(0), before);
    assert_eq!(running.warnings().len(), 1, "{:?}", running.warnings());
}

fn an_edit_reaches_the_clients_with_its_labels_and_no_others() {
    let mesh = Mesh::new(2, 1);
    let file = |voice: u8, data: u8| {
        format!(
            "- {{ from: 10.20.0.{voice}, labels: {{ app: voice }} }}\n\
             - {{ from: 10.20.0.{data}, labels: {{ app: data }} }}\n"
        )
    };
    fs::write(policy_file(&mesh), file(1, 2)).unwrap();
    let running = Running::start(&mesh);
    let mut voice = running.client(0, &[("app", "voice"), ("zone", "a")]);
    let mut data = running.client(1, &[("app", "data")]);
    assert_eq!(voice.sources(), ["10.20.0.1/32"]);
    assert_eq!(data.sources(), ["10.20.0.2/32"]);
    let untouched = mesh.in_pod(1);

    fs::write(policy_file(&mesh), file(3, 2)).unwrap();
    voice.refresh_when_asked();

    assert_eq!(rules(&mesh), ["10.20.0.3"]);
    assert!(!data.listening.was_asked());
    data.refresh();
    assert_eq!(mesh.in_pod(1), untouched);
}

fn every_swap_of_a_volume_arrives_however_it_is_reported() {
    let mesh = Mesh::new(1, 1);
    let volume = mesh.file("volume");
    let version = |name: &str, hosts: &[u8]| {
        fs::create_dir_all(volume.join(name)).unwrap();
        fs::write(volume.join(name).join("config.yaml"), policies(hosts)).unwrap();
    };
    let swap = |former: &str, name: &str, hosts: &[u8]| {
        version(name, hosts);
        symlink(name, volume.join("..data_tmp")).unwrap();
        fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
        fs::remove_dir_all(volume.join(former)).unwrap();
    };
    version("..1", &[1]);
    symlink("..1", volume.join("..data")).unwrap();
    symlink("..data/config.yaml", volume.join("config.yaml")).unwrap();
    let flag = format!("--pbr-config-path={}", volume.join("config.yaml").display());
    let running = Running::start_with(&mesh, &[&flag]);
    let mut client = running.client(0, &[]);

    // As rename, with the former version removed at once, and three at once.
    swap("..1", "..2", &[2]);
    client.refresh_when_asked();
    assert_eq!(rules(&mesh), ["10.20.0.2"]);
    swap("..2", "..3", &[3]);
    swap("..3", "..4", &[3, 4]);
    swap("..4", "..5", &[5]);
    client.refresh_when_asked();
    assert_eq!(rules(&mesh), ["10.20.0.5"]);
    // As write, and as create.
    fs::write(volume.join("config.yaml"), policies(&[6])).unwrap();
    client.refresh_when_asked();
    assert_eq!(rules(&mesh), ["10.20.0.6"]);
    fs::write(volume.join("plain"), policies(&[7])).unwrap();
    fs::remove_file(volume.join("config.yaml")).unwrap();
    symlink("plain", volume.join("config.yaml")).unwrap();
    client.refresh_when_asked();
    assert_eq!(rules(&mesh), ["10.20.0.7"]);
}

fn a_policy_file_that_is_removed_and_added_five_times_arrives_each_time() {
    let mesh = Mesh::new(1, 1);
    let running = Running::start(&mesh);
    let mut client = running.client(0, &[]);

    for host in 1..=5 {
        fs::remove_file(policy_file(&mesh)).unwrap();
        running
            .nse
            .until_logged("the policy file is gone", host.into());
        fs::write(policy_file(&mesh), policies(&[host])).unwrap();
        client.refresh_when_asked();
        assert_eq!(rules(&mesh), [format!("10.20.0.{host}")]);
    }
}

fn policies_of_which_no_event_tells_arrive_within_the_period_of_looking() {
    let mesh = Mesh::new(1, 1);
    // What is mounted is seen by this case and its programs. Nothing tells them of it.
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
    let folder = mesh.file("mounted");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("config.yaml");
    let flag = format!("--pbr-config-path={}", path.display());
    let running = Running::start_with(&mesh, &[&flag]);
    let mut client = running.client(0, &[]);
    assert_eq!(client.sources(), [""; 0]);

    let start = Instant::now();
    mount(
        Some("policies"),
        &folder,
        Some("tmpfs"),
        MsFlags::empty(),
        None::<&str>,
    )
    .unwrap();
    fs::write(&path, policies(&[1])).unwrap();
    client.refresh_when_asked();
    assert_eq!(rules(&mesh), ["10.20.0.1"]);
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );

    // Another content of the same length and age.
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, policies(&[2])).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_times(FileTimes::new().set_modified(written))
        .unwrap();
    drop(file);
    client.refresh_when_asked();
    assert_eq!(rules(&mesh), ["10.20.0.2"]);
    // The folder of the case cannot go as long as it is there. The endpoint still watches it.
    umount2(&folder, MntFlags::MNT_DETACH).unwrap();
}

fn an_endpoint_that_follows_its_file_for_long_holds_no_more_descriptors() {
    let mesh = Mesh::new(1, 1);
    let running = Running::start(&mesh);
    let mut client = running.client(0, &[]);
    let mut change = |host: u8| {
        let new = mesh.file("new");
        fs::write(&new, policies(&[host])).unwrap();
        fs::rename(&new, policy_file(&mesh)).unwrap();
        client.refresh_when_asked();
    };
    change(1);
    let before = running.nse.descriptors().len();

    (2..30).for_each(&mut change);

    until("as many as before", || {
        running.nse.descriptors().len() == before
    });
    assert_eq!(running.nse.stop(), Some(0));
}
