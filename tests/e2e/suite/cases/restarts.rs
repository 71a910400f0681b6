//! Restarts of everybody, again and again: nothing gathers.

use e2e::{GatedEndpoint, Mesh, Process};
use fastrand::Rng;
use libtest_mimic::Trial;
use nsm_netlink::{Kernel, Namespace};

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        twenty_restarts_of_everybody_in_any_order_leave_as_much_as_there_are_connections,
        forwarders_that_are_killed_before_they_serve_leave_the_very_interface_to_the_last,
        a_forwarder_that_is_killed_keeps_the_interface_of_an_endpoint_that_makes_up_names,
        a_client_that_names_no_interface_finds_its_own_again_after_a_kill,
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Nsc(usize),
    Forwarder,
    Nse(usize),
}

fn twenty_restarts_of_everybody_in_any_order_leave_as_much_as_there_are_connections() {
    const SEED: u64 = 11_371;

    let mesh = Mesh::new(2, 2);
    let mut random = Rng::with_seed(SEED);
    let mut order = [
        Program::Nse(0),
        Program::Nse(1),
        Program::Forwarder,
        Program::Nsc(0),
        Program::Nsc(1),
    ];
    let mut running = Vec::new();
    for _ in 0..=20 {
        running.into_iter().for_each(Process::kill);
        running = order.map(|program| start(&mesh, program)).into();

        let clients = order.iter().zip(&running);
        let clients = clients.filter_map(|(program, process)| match program {
            Program::Nsc(pod) => Some((*pod, process)),
            Program::Forwarder | Program::Nse(_) => None,
        });
        let clients: Vec<_> = clients.collect();
        for (_, client) in &clients {
            client.until_it_stands(2);
        }
        mesh.is_as_told(&clients);
        random.shuffle(&mut order);
    }
    for process in running {
        assert_eq!(process.stop(), Some(0));
    }
    mesh.is_clean();
}

fn forwarders_that_are_killed_before_they_serve_leave_the_very_interface_to_the_last() {
    let mesh = Mesh::new(1, 1);
    let _nse = mesh.endpoint(0, &[]);
    let mut forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(1);
    let index = || {
        let mut pod = mesh.pods[0].open().unwrap();
        pod.index_of("nsm-0").unwrap()
    };
    let before = (index(), mesh.in_pod(0), mesh.in_network(0));

    for _ in 0..5 {
        forwarder.kill();
        forwarder = mesh.forwarder(&[]);
    }
    forwarder.until_logged("connection established", 1);

    assert_eq!((index(), mesh.in_pod(0), mesh.in_network(0)), before);
    mesh.until_served(0);
    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}

fn a_forwarder_that_is_killed_keeps_the_interface_of_an_endpoint_that_makes_up_names() {
    let mesh = Mesh::new(1, 1);
    let nse = GatedEndpoint::start(&mesh, 0, &[]);
    nse.gate.invent_names();
    let mut forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(1);
    let links = || {
        [&mesh.pods[0], &mesh.networks[0]].map(|namespace| {
            let links = namespace.open().unwrap().links().unwrap();
            let links = links.into_iter().map(|link| (link.index, link.name));
            links.collect::<Vec<_>>()
        })
    };
    let before = links();

    for _ in 0..3 {
        forwarder.kill();
        forwarder = mesh.forwarder(&[]);
        forwarder.until_logged("connection established", 1);

        assert_eq!(links(), before);
    }
    mesh.until_served(0);
    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}

fn start(mesh: &Mesh, program: Program) -> Process {
    match program {
        Program::Nsc(pod) => mesh.client(pod, &[]),
        Program::Forwarder => mesh.forwarder(&[]),
        Program::Nse(network) => mesh.endpoint(network, &[]),
    }
}

fn a_client_that_names_no_interface_finds_its_own_again_after_a_kill() {
    const WITHOUT_NAME: &str = "--network-services=net-0";

    let mesh = Mesh::new(1, 1);
    let _nse = mesh.endpoint(0, &[]);
    let _forwarder = mesh.forwarder(&[]);
    let client = mesh.client(0, &[WITHOUT_NAME]);
    client.until_it_stands(1);
    let before = (mesh.in_pod(0), mesh.in_network(0));

    client.kill();
    let client = mesh.client(0, &[WITHOUT_NAME]);
    client.until_it_stands(1);

    assert_eq!((mesh.in_pod(0), mesh.in_network(0)), before);
    let links = mesh.pods[0].open().unwrap().links().unwrap();
    assert!(links.iter().any(|link| link.name.starts_with("net-0-")));
    assert_eq!(client.stop(), Some(0));
    mesh.is_clean();
}
