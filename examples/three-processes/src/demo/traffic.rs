//! Questions from the source of every policy, to one address that stands in every network, and who
//! answers them.
//!
//! A question that its own endpoint has answered went there by the policy's interface and came back
//! by it. One that the node sees left by the pod's own network.

use super::setting::{ENDPOINTS, EVERYWHERE, address};
use super::world::World;
use nsm_netlink::Netns;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The port of the questions: that of echo (RFC 862).
const PORT: u16 = 7;
/// How often each policy asks.
const TICK: Duration = Duration::from_millis(2);
/// Who answers, in the first byte of an answer; endpoints by their place in the list.
const NODE: u8 = u8::MAX;
/// How long an answer may take. It takes some microseconds, on a machine at rest.
const PATIENCE: Duration = Duration::from_secs(1);

/// All questions.
#[derive(Debug, Clone)]
pub struct Traffic(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    flows: Vec<Flow>,
    /// Questions that the node has seen.
    by_node: AtomicU64,
    /// Which of the pictures of the world a question belongs to; answers to older ones tell nothing.
    epoch: AtomicU64,
    paused: AtomicBool,
    /// Whether the pause has been noticed.
    rests: AtomicBool,
    ended: AtomicBool,
}

/// The questions of one policy.
#[derive(Debug, Default)]
struct Flow {
    asked: AtomicU64,
    /// Questions that the kernel did not take: without the interface there is no such source.
    refused: AtomicU64,
    /// Answers of the right endpoint.
    right: AtomicU64,
    /// Answers of anybody else.
    wrong: AtomicU64,
    /// The youngest epoch of which a question was answered by the right one.
    epoch: AtomicU64,
}

/// Sums over all policies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Questions that went out.
    pub asked: u64,
    /// Questions that the kernel did not take.
    pub refused: u64,
    /// Questions that the right endpoint answered.
    pub right: u64,
    /// Questions that anybody else answered.
    pub wrong: u64,
    /// Questions that left by the pod's own network.
    pub by_node: u64,
}

impl Traffic {
    /// Begins to ask, once the sources are there.
    pub fn start(world: &World) -> io::Result<Self> {
        let policies = ENDPOINTS.len() * EVERYWHERE.len();
        let shared = Arc::new(Shared {
            flows: (0..policies).map(|_| Flow::default()).collect(),
            by_node: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            paused: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        for (place, netns) in world.networks.iter().enumerate() {
            // There are two.
            answer(netns, place as u8, &shared)?;
        }
        answer(&world.node, NODE, &shared)?;
        let sockets = world.pod.enter(sockets)??;
        let asks = Arc::clone(&shared);
        let name = thread::Builder::new().name("traffic".to_owned());
        name.spawn(move || asks.ask(&sockets))?;
        Ok(Self(shared))
    }

    /// From now on only answers to questions from now on count as a sign that a policy is served.
    pub fn begin_epoch(&self) {
        self.0.epoch.fetch_add(1, Relaxed);
    }

    /// Whether every policy has been served in this epoch.
    pub fn is_served(&self) -> bool {
        let epoch = self.0.epoch.load(Relaxed);
        let mut flows = self.0.flows.iter();
        flows.all(|flow| flow.right.load(Relaxed) > 0 && flow.epoch.load(Relaxed) >= epoch)
    }

    /// Stops asking, waits for the answers that are under way, and gives the sums.
    pub fn pause(&self) -> Sums {
        self.0.paused.store(true, Relaxed);
        let start = Instant::now();
        let settled = || {
            let sums = self.sums();
            self.0.rests.load(Relaxed) && sums.asked == sums.right + sums.wrong
        };
        while !settled() && start.elapsed() < PATIENCE {
            thread::sleep(TICK);
        }
        self.sums()
    }

    /// Asks again.
    pub fn go_on(&self) {
        self.0.rests.store(false, Relaxed);
        self.0.paused.store(false, Relaxed);
    }

    /// What there was until now.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums {
            by_node: self.0.by_node.load(Relaxed),
            ..Sums::default()
        };
        for flow in &self.0.flows {
            sums.asked += flow.asked.load(Relaxed);
            sums.refused += flow.refused.load(Relaxed);
            sums.right += flow.right.load(Relaxed);
            sums.wrong += flow.wrong.load(Relaxed);
        }
        sums
    }

    /// Asks no more.
    pub fn end(&self) {
        self.0.ended.store(true, Relaxed);
    }
}

impl Sums {
    /// What has come since.
    pub fn since(self, before: Self) -> Self {
        Self {
            asked: self.asked - before.asked,
            refused: self.refused - before.refused,
            right: self.right - before.right,
            wrong: self.wrong - before.wrong,
            by_node: self.by_node - before.by_node,
        }
    }

    /// Questions without an answer.
    pub fn lost(self) -> u64 {
        self.asked.saturating_sub(self.right + self.wrong)
    }
}

/// One socket for each policy, bound to its source. It outlives the interface that has the source.
fn sockets() -> io::Result<Vec<(UdpSocket, SocketAddr)>> {
    let mut sockets = Vec::new();
    for endpoint in &ENDPOINTS {
        for ((from, _), to) in endpoint.policies.iter().zip(EVERYWHERE) {
            let socket = UdpSocket::bind((address(from), 0))?;
            socket.set_nonblocking(true)?;
            sockets.push((socket, SocketAddr::new(to, PORT)));
        }
    }
    Ok(sockets)
}

/// Answers in a namespace, as long as the process lives.
fn answer(netns: &Netns, place: u8, shared: &Arc<Shared>) -> io::Result<()> {
    for everywhere in EVERYWHERE {
        let socket = netns.enter(|| UdpSocket::bind((everywhere, PORT)))??;
        let shared = Arc::clone(shared);
        let answer = move || {
            let mut question = [0; 32];
            // A refusal of an earlier answer is told here, and means nothing.
            loop {
                if let Ok((len, from)) = socket.recv_from(&mut question) {
                    if place == NODE {
                        shared.by_node.fetch_add(1, Relaxed);
                    }
                    question[0] = place;
                    socket.send_to(&question[..len], from).ok();
                }
            }
        };
        let name = thread::Builder::new().name(format!("answer-{place}"));
        name.spawn(answer)?;
    }
    Ok(())
}

impl Shared {
    fn ask(&self, sockets: &[(UdpSocket, SocketAddr)]) {
        while !self.ended.load(Relaxed) {
            let paused = self.paused.load(Relaxed);
            for (index, (socket, to)) in sockets.iter().enumerate() {
                let flow = &self.flows[index];
                if !paused {
                    flow.question(self.epoch.load(Relaxed), socket, *to);
                }
                flow.answers((index / EVERYWHERE.len()) as u8, socket);
            }
            self.rests.store(paused, Relaxed);
            thread::sleep(TICK);
        }
    }
}

impl Flow {
    fn question(&self, epoch: u64, socket: &UdpSocket, to: SocketAddr) {
        let mut question = [0; 9];
        question[1..].copy_from_slice(&epoch.to_be_bytes());
        let count = match socket.send_to(&question, to) {
            Ok(_) => &self.asked,
            Err(_) => &self.refused,
        };
        count.fetch_add(1, Relaxed);
    }

    fn answers(&self, right: u8, socket: &UdpSocket) {
        let mut answer = [0; 9];
        while let Ok(len) = socket.recv(&mut answer) {
            if len != answer.len() || answer[0] != right {
                self.wrong.fetch_add(1, Relaxed);
                continue;
            }
            let mut epoch = [0; 8];
            epoch.copy_from_slice(&answer[1..]);
            self.epoch.fetch_max(u64::from_be_bytes(epoch), Relaxed);
            self.right.fetch_add(1, Relaxed);
        }
    }
}
