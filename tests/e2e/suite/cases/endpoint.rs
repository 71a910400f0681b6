//! What an endpoint says of its policy file, and what becomes of its end of a connection.

use e2e::{Caller, Mesh, Process, until};
use libtest_mimic::Trial;
use nsm_netlink::{Namespace, Netns};
use std::fs;
use std::path::PathBuf;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_policy_file_with_a_mistake_is_one_line_with_its_place_and_status_2,
        a_policy_file_that_cannot_be_read_is_one_line_and_status_1,
        a_forwarder_holds_no_namespace_of_an_endpoint,
        an_endpoint_whose_namespace_goes_takes_its_end_along,
        an_answer_ends_at_the_endpoint_and_has_its_name,
    ]
}

/// Where the policies of the endpoint of network 0 are.
fn policy_file(mesh: &Mesh) -> PathBuf {
    mesh.file("policies-0.yaml")
}

/// The status that the endpoint of network 0 ends with, and the lines that it logs.
fn ended(mesh: &Mesh) -> (Option<i32>, Vec<String>) {
    let (log, flags) = (mesh.file("nse.log"), mesh.endpoint_flags(0));
    let nse = Process::start("nse", &mesh.networks[0], &log, &flags);
    let status = nse.ended();
    let lines = fs::read_to_string(log).unwrap();
    (status, lines.lines().map(str::to_owned).collect())
}

fn a_policy_file_with_a_mistake_is_one_line_with_its_place_and_status_2() {
    for (policies, place, reason) in [
        (
            "- from: 10.0.0.1\n  dstPort: 80\n",
            "policies-0.yaml:2:3: ",
            "dstPort",
        ),
        ("- proto: 300\n", "policies-0.yaml:1:10: ", "300"),
    ] {
        let mesh = Mesh::new(1, 1);
        fs::write(policy_file(&mesh), policies).unwrap();

        let (status, lines) = ended(&mesh);

        assert_eq!(status, Some(2), "{lines:#?}");
        assert_eq!(lines.len(), 1, "{lines:#?}");
        for words in ["NSM_PBR_CONFIG_PATH", place, reason] {
            assert!(lines[0].contains(words), "{words}: {lines:#?}");
        }
    }
}

fn a_policy_file_that_cannot_be_read_is_one_line_and_status_1() {
    let mesh = Mesh::new(1, 1);
    fs::remove_file(policy_file(&mesh)).unwrap();
    fs::create_dir(policy_file(&mesh)).unwrap();

    let (status, lines) = ended(&mesh);

    assert_eq!(status, Some(1), "{lines:#?}");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("cannot read"), "{lines:#?}");
}

/// How many descriptors of a process refer to a namespace.
fn holds(process: &Process, netns: &Netns) -> usize {
    let name = netns.id().to_string();
    let descriptors = process.descriptors();
    let of = descriptors
        .iter()
        .filter(|it| it.target.as_os_str() == name.as_str());
    of.count()
}

fn a_forwarder_holds_no_namespace_of_an_endpoint() {
    let mesh = Mesh::new(1, 1);
    let (_nse, forwarder) = (mesh.endpoint(0, &[]), mesh.forwarder(&[]));
    let caller = Caller::new(&mesh.url("forwarder"), &[]);
    let mut request = caller.ask_for("1", &mesh.pods[0], "nsm-0");

    for _ in 0..10 {
        request.connection = Some(caller.request(request.clone()).unwrap());
        until("the endpoint's namespace is let go", || {
            holds(&forwarder, &mesh.networks[0]) == 0
        });
    }
}

fn an_endpoint_whose_namespace_goes_takes_its_end_along() {
    let mesh = Mesh::new(1, 1);
    let network = Netns::create().unwrap();
    let (log, flags) = (mesh.file("nse.log"), mesh.endpoint_flags(0));
    let nse = Process::start("nse", &network, &log, &flags);
    let _forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(1);
    assert_eq!(mesh.in_pod(0).interfaces, ["nsm-0"]);

    nse.kill();
    drop(network);

    until("the client's end is gone too", || {
        mesh.in_pod(0).interfaces.is_empty()
    });
}

fn an_answer_ends_at_the_endpoint_and_has_its_name() {
    let mesh = Mesh::new(1, 1);
    let (_nse, _forwarder) = (mesh.endpoint(0, &[]), mesh.forwarder(&[]));
    let caller = Caller::new(&mesh.url("forwarder"), &[]);
    let mut request = caller.ask_for("1", &mesh.pods[0], "nsm-0");

    for _ in 0..2 {
        let answer = caller.request(request.clone()).unwrap();

        let path = answer.path.as_ref().unwrap();
        let hops: Vec<_> = path.path_segments.iter().map(|hop| &hop.name).collect();
        assert_eq!(hops, ["nsc", "forwarder", "nse-0"]);
        assert_eq!(answer.network_service_endpoint_name, "nse-0");
        request.connection = Some(answer);
    }
    caller.close(request.connection.unwrap()).unwrap();
    mesh.is_clean();
}
