//! The DNS servers that an endpoint tells of, in a client's pod.

use e2e::Mesh;
use libtest_mimic::Trial;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::Duration;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![names_are_asked_for_over_the_connection_until_the_client_ends]
}

const ORIGINAL: &str = "search cluster.local\nnameserver 192.0.2.53\n";
/// The endpoint itself, at the first address of network 0.
const SERVER: &str =
    r#"--dns-configs=[{"dns_server_ips":["172.16.0.0"],"search_domains":["net"]}]"#;

/// A question for the address of `a.net`, with the identifier 1.
const QUESTION: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\x03net\0\0\x01\0\x01";
/// The same as an answer: the name is there, and has no address.
const ANSWER: &[u8] = b"\0\x01\x81\x80\0\x01\0\0\0\0\0\0\x01a\x03net\0\0\x01\0\x01";

fn names_are_asked_for_over_the_connection_until_the_client_ends() {
    let mesh = Mesh::new(1, 1);
    let path = mesh.file("resolv.conf");
    fs::write(&path, ORIGINAL).unwrap();
    let file = || fs::read_to_string(&path).unwrap();
    let _nse = mesh.endpoint(0, &[SERVER]);
    let _forwarder = mesh.forwarder(&[]);
    let in_network = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 53)).unwrap();
    let server = mesh.networks[0].enter(in_network).unwrap();
    // It ends with the process, if nobody asks.
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = server.recv_from(&mut buffer) {
            buffer[2..4].copy_from_slice(&ANSWER[2..4]);
            server.send_to(&buffer[..length], from).unwrap();
        }
    });
    let resolv_conf = format!("--resolv-conf={}", path.display());
    let client = || mesh.client(0, &[&resolv_conf]);

    let nsc = client();
    nsc.until_it_stands(1);
    assert!(file().contains("\nnameserver 127.0.0.1\nsearch cluster.local net\n"));
    assert_eq!(asked(&mesh), ANSWER);

    // Whoever comes after a kill finds what stood in the file.
    nsc.kill();
    let nsc = client();
    nsc.until_it_stands(1);
    assert_eq!(asked(&mesh), ANSWER);

    assert_eq!(nsc.stop(), Some(0));
    assert_eq!(file(), ORIGINAL);
    mesh.is_clean();
}

/// What the proxy of the pod answers.
fn asked(mesh: &Mesh) -> Vec<u8> {
    let in_pod = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let socket = mesh.pods[0].enter(in_pod).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    socket.send_to(QUESTION, (Ipv4Addr::LOCALHOST, 53)).unwrap();
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).unwrap();
    buffer[..length].to_vec()
}
