//! A question from the source of a policy to an address that stands in every network, and who
//! answers it.

use crate::mesh::source;
use nsm_netlink::{Family, LinkState, Namespace, Netns};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The address that all questions go to, in each family (RFC 2544, RFC 5180), and the port of echo
/// (RFC 862).
const EVERYWHERE: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), 7),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1)), 7),
];
/// How long those who answer sleep at most before they see that it is over.
const LOOK: Duration = Duration::from_millis(50);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(200);

/// Answers all questions that come to a network, with its number, until it is dropped.
#[derive(Debug)]
pub struct Answers {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Answers {
    /// Gives the network its address, and begins.
    pub fn begin(network: &Netns, number: u8) -> Self {
        let mut kernel = network.open().unwrap();
        let lo = kernel.index_of("lo").unwrap();
        kernel.set_link(lo, LinkState::Up).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for address in EVERYWHERE {
            let net = address.ip().into();
            kernel
                .add_address(lo, net, nsm_netlink::DuplicateDetection::Skip)
                .unwrap();
            let socket = network.enter(|| UdpSocket::bind(address)).unwrap().unwrap();
            socket.set_read_timeout(Some(LOOK)).unwrap();
            let ended = Arc::clone(&ended);
            threads.push(thread::spawn(move || {
                while !ended.load(Relaxed) {
                    // Without a question in time, or with a refusal of an earlier answer, it looks
                    // again.
                    if let Ok((_, from)) = socket.recv_from(&mut [0; 8]) {
                        socket.send_to(&[number], from).ok();
                    }
                }
            }));
        }
        Self { ended, threads }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

/// Who answers a question from the source of the policies of that network, in each family. Nobody
/// when there is no such source, no way, or no answer in time.
pub fn who_answers(pod: &Netns, network: usize) -> [Option<u8>; 2] {
    Family::ALL.map(|family| {
        let from = source(network, family);
        let to = EVERYWHERE
            .into_iter()
            .find(|to| Family::of(&to.ip()) == family)?;
        let socket = pod.enter(|| UdpSocket::bind((from, 0))).unwrap().ok()?;
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(&[0], to).ok()?;
        let mut answer = [0; 1];
        socket.recv(&mut answer).ok()?;
        Some(answer[0])
    })
}
