//! A client that returns under the same ids and wants something else than before.

use e2e::{Mesh, Process, Standing, free_addresses};
use libtest_mimic::Trial;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        another_interface_name_takes_all_along_and_leaves_nothing_of_the_old_one,
        another_interface_name_asked_of_a_new_forwarder_takes_all_along,
        another_interface_name_after_a_restart_of_everybody_takes_all_along,
        two_connections_that_swap_names_at_once_come_out_right,
        two_connections_that_swap_names_at_a_new_forwarder_come_out_right,
        another_network_behind_the_same_interface_gets_all_its_traffic,
        another_pod_with_the_same_ids_takes_nothing_from_the_first,
    ]
}

/// Who is restarted together with the client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum With {
    Nobody,
    Forwarder,
    Everybody,
}

/// A client of one pod, and all that it needs.
struct Running<'a> {
    mesh: &'a Mesh,
    endpoints: Vec<Process>,
    forwarder: Process,
    nsc: Process,
}

impl<'a> Running<'a> {
    fn start(mesh: &'a Mesh) -> Self {
        let running = Self {
            mesh,
            endpoints: mesh.endpoints(),
            forwarder: mesh.forwarder(&[]),
            nsc: mesh.client(0, &[]),
        };
        running.nsc.until_it_stands(mesh.networks.len());
        mesh.until_served(0);
        running
    }

    /// Kills the client, and others, and starts it with these services in place of those before.
    fn want(self, services: &str, with: With) -> Self {
        let mesh = self.mesh;
        let (mut endpoints, mut forwarder) = (self.endpoints, self.forwarder);
        self.nsc.kill();
        if with >= With::Forwarder {
            forwarder.kill();
            forwarder = mesh.forwarder(&[]);
        }
        if with >= With::Everybody {
            endpoints.into_iter().for_each(Process::kill);
            endpoints = mesh.endpoints();
        }
        let services = format!("--network-services={services}");
        let nsc = mesh.client(0, &[&services]);
        nsc.until_it_stands(mesh.networks.len());
        Self {
            mesh,
            endpoints,
            forwarder,
            nsc,
        }
    }

    fn ends_clean(self) {
        assert_eq!(self.nsc.stop(), Some(0));
        self.mesh.is_clean();
    }
}

/// What stands, with interfaces renamed.
fn renamed(stands: &Standing, names: &[(&str, &str)]) -> Standing {
    let rename = |text: &String| {
        let words = text.split(' ').map(|word| {
            let new = names.iter().find(|(old, _)| *old == word);
            new.map_or(word, |(_, new)| new)
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let all = |texts: &[String]| {
        let mut texts: Vec<_> = texts.iter().map(rename).collect();
        texts.sort();
        texts
    };
    Standing {
        interfaces: all(&stands.interfaces),
        addresses: all(&stands.addresses),
        rules: stands.rules.clone(),
        routes: all(&stands.routes),
    }
}

fn another_interface_name_takes_all_along_and_leaves_nothing_of_the_old_one() {
    another_name(With::Nobody);
}

fn another_interface_name_asked_of_a_new_forwarder_takes_all_along() {
    another_name(With::Forwarder);
}

fn another_interface_name_after_a_restart_of_everybody_takes_all_along() {
    another_name(With::Everybody);
}

fn another_name(with: With) {
    let mesh = Mesh::new(1, 1);
    let running = Running::start(&mesh);
    let before = (mesh.in_pod(0), mesh.in_network(0));

    let running = running.want("net-0/other-0", with);

    let expected = renamed(&before.0, &[("nsm-0", "other-0")]);
    assert_ne!(expected, before.0);
    assert_eq!((mesh.in_pod(0), mesh.in_network(0)), (expected, before.1));
    mesh.until_served(0);
    running.ends_clean();
}

fn two_connections_that_swap_names_at_once_come_out_right() {
    swapped_names(With::Nobody);
}

fn two_connections_that_swap_names_at_a_new_forwarder_come_out_right() {
    swapped_names(With::Forwarder);
}

/// It is a race, and so it is run several times.
fn swapped_names(with: With) {
    let mesh = Mesh::new(1, 2);
    let mut running = Running::start(&mesh);
    let networks = || [0, 1].map(|it| mesh.in_network(it));
    let (pod, before) = (mesh.in_pod(0), networks());
    let swap = [("nsm-0", "nsm-1"), ("nsm-1", "nsm-0")];
    let swapped = renamed(&pod, &swap);

    for _ in 0..5 {
        running = running.want("net-0/nsm-1,net-1/nsm-0", with);
        assert_eq!(mesh.in_pod(0), swapped);
        assert_eq!(networks(), before);
        mesh.until_served(0);

        running = running.want("net-0/nsm-0,net-1/nsm-1", with);
        assert_eq!(mesh.in_pod(0), pod);
        assert_eq!(networks(), before);
        mesh.until_served(0);
    }
    running.ends_clean();
}

fn another_network_behind_the_same_interface_gets_all_its_traffic() {
    let mesh = Mesh::new(1, 2);
    let life = "--max-token-lifetime=6s";
    let own = |network| format!("--cidr-prefix=172.16.{network}.0/30,fd00:{network}::/126");
    let endpoints = [0, 1].map(|network| mesh.endpoint(network, &[&own(network)]));
    let _forwarder = mesh.forwarder(&[life]);
    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(2);
    nsc.kill();

    // The ids are given by place: each connection has the other's network from now on.
    let services = "--network-services=net-1/nsm-0,net-0/nsm-1";
    let nsc = mesh.client(0, &[services, life, "--request-timeout=3s"]);
    nsc.until_it_stands(2);
    for network in [0, 1] {
        // Each connection is closed where it was before it is asked for elsewhere, and the other may
        // come there sooner or later than that.
        let told = nsc.told_addresses(&format!("nsm-{}", 1 - network));
        let has_second = told.contains(&format!("172.16.{network}.3/32"));
        mesh.lead_to_pair(network, usize::from(has_second));
    }
    mesh.until_served(0);
    let stands = mesh.in_pod(0);
    for (network, endpoint) in endpoints.iter().enumerate() {
        let interface = format!("nsm-{}", 1 - network);
        assert_eq!(
            stands.addresses_on(&interface),
            nsc.told_addresses(&interface)
        );
        assert_eq!(mesh.in_network(network).interfaces.len(), 1);
        endpoint.until_logged("connection closed", 1);
    }
    assert_eq!(mesh.in_pod(0), stands);
    mesh.until_served(0);

    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
    for network in [0, 1] {
        let all = [1, 3].map(|host| format!("172.16.{network}.{host}/32"));
        assert_eq!(free_addresses(&mesh, network), all);
    }
}

fn another_pod_with_the_same_ids_takes_nothing_from_the_first() {
    let mesh = Mesh::new(2, 1);
    let running = Running::start(&mesh);
    let before = (mesh.in_pod(0), mesh.in_network(0));

    let other = mesh.client(1, &["--name=nsc-0"]);
    other.until_it_stands(1);
    assert_eq!(mesh.in_pod(0), before.0);
    assert_eq!(mesh.in_pod(1).interfaces, ["nsm-0"]);
    assert_eq!(mesh.in_network(0).interfaces.len(), 2);

    assert_eq!(other.stop(), Some(0));
    assert_eq!((mesh.in_pod(0), mesh.in_network(0)), before);
    running.ends_clean();
}
