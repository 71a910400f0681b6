//! A steady stream of datagrams from the source of every policy, and a packet socket that sees where
//! they come out.
//!
//! One thread sends and looks. Its sockets stay in the namespaces in which they were opened, those
//! that send in the pod and the one that looks on the node. It sends no more than the one that looks
//! can hold before it looks, however slow the machine is: what is not seen has not come out.

use super::datagram::Datagram;
use super::tally::Tally;
use super::topology::{Policy, Topology};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, socket,
};
use nsm_netlink::Netns;
use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often each policy sends.
const TICK: Duration = Duration::from_millis(1);
/// How long a datagram may take to the other end. It takes some microseconds.
const PATIENCE: Duration = Duration::from_millis(200);
/// How many datagrams are under way at most: the receive buffer of an ordinary user holds more.
const UNDER_WAY: u64 = 64;
/// How long it is waited for them: what has not come out then went with a link.
const LAG: Duration = Duration::from_millis(10);
/// Where the datagrams go. Nobody is there (RFC 2544, RFC 5180), and the port is `discard`.
const DESTINATIONS: (Ipv4Addr, Ipv6Addr, u16) = (
    Ipv4Addr::new(198, 18, 0, 1),
    Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1),
    9,
);

/// The stream of all policies.
#[derive(Debug)]
pub struct Traffic {
    orders: Sender<Order>,
    thread: JoinHandle<io::Result<Tally>>,
}

#[derive(Debug)]
enum Order {
    /// The connection's interface is there and its request has been answered.
    Serve(usize),
    /// No connection is served any more. The answer comes when all has come out that was sent.
    Pause(Sender<()>),
}

impl Traffic {
    /// Begins to send, with no connection served.
    pub fn start(pod: &Netns, topology: &Topology) -> io::Result<Self> {
        raise_limit_of_descriptors()?;
        let tap = socket(
            AddressFamily::Packet,
            SockType::Datagram,
            SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
            SockProtocol::EthAll,
        )
        .map_err(|errno| {
            let reason = "this kernel has no packet sockets: load its module af_packet";
            io::Error::other(format!("{reason} ({errno})"))
        })?;
        let open = || {
            topology
                .policies
                .iter()
                .map(Flow::open)
                .collect::<io::Result<_>>()
        };
        let flows = pod.enter(open)??;
        let (orders, inbox) = channel();
        let mut stream = Stream {
            orders: inbox,
            tap,
            flows,
            rounds: 0,
            under_way: 0,
            served_under_way: 0,
            sighted: HashSet::new(),
            tally: Tally::default(),
        };
        let thread = thread::Builder::new().name("traffic".to_owned());
        let thread = thread.spawn(move || stream.run().map(|()| stream.tally))?;
        Ok(Self { orders, thread })
    }

    /// From now on the connection is served.
    pub fn serve(&self, connection: usize) {
        // A stream that ended in an error says so in the end.
        self.orders.send(Order::Serve(connection)).ok();
    }

    /// From now on no connection is served. Returns when all that was sent before has come out.
    pub fn pause(&self) {
        let (done, settled) = channel();
        self.orders.send(Order::Pause(done)).ok();
        settled.recv().ok();
    }

    /// Ends the stream and says what it was.
    pub fn finish(self) -> io::Result<Tally> {
        drop(self.orders);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

struct Stream {
    orders: Receiver<Order>,
    tap: OwnedFd,
    flows: Vec<Flow>,
    /// How often all have sent since one was last served.
    rounds: u32,
    /// Datagrams that have not come out yet.
    under_way: u64,
    /// Of these, those of served policies.
    served_under_way: u64,
    /// Policies and numbers of what has come out, so that nothing counts twice.
    sighted: HashSet<(u32, u32)>,
    tally: Tally,
}

impl Stream {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let began = Instant::now();
            match self.orders.try_recv() {
                Ok(Order::Serve(connection)) => {
                    self.rounds = 0;
                    self.mark(|flow| flow.connection == connection, true);
                    continue;
                }
                Ok(Order::Pause(done)) => {
                    // Each socket of each policy sends at least once in each life.
                    while self.rounds < 2 {
                        self.send()?;
                    }
                    self.mark(|_| true, false);
                    self.settle()?;
                    done.send(()).ok();
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return self.settle(),
            }
            self.send()?;
            let busy = began.elapsed();
            // Half of a processor is left to others, however many policies there are.
            thread::sleep(TICK.saturating_sub(busy).max(busy));
        }
    }

    fn mark(&mut self, which: impl Fn(&Flow) -> bool, served: bool) {
        self.flows
            .iter_mut()
            .filter(|flow| which(flow))
            .for_each(|flow| flow.served = served);
    }

    /// Sends one datagram of each policy, and looks.
    fn send(&mut self) -> io::Result<()> {
        for policy in 0..self.flows.len() {
            let flow = &mut self.flows[policy];
            let sent = flow.send(policy as u32);
            let count = if sent {
                &mut self.tally.sent
            } else {
                &mut self.tally.refused
            };
            *count.entry((policy, flow.served)).or_default() += 1;
            self.under_way += u64::from(sent);
            self.served_under_way += u64::from(sent && flow.served);
            if self.under_way >= UNDER_WAY {
                self.look_until(LAG, |stream| stream.under_way < UNDER_WAY)?;
                // Those that are missed went with a link.
                self.under_way = 0;
            }
        }
        self.rounds = self.rounds.wrapping_add(1);
        self.look()
    }

    /// Looks until all has come out that was served. What does not come is lost.
    fn settle(&mut self) -> io::Result<()> {
        self.look_until(PATIENCE, |stream| stream.served_under_way == 0)?;
        self.served_under_way = 0;
        Ok(())
    }

    /// Looks until it is enough, or nothing more has come out for so long.
    fn look_until(&mut self, patience: Duration, enough: fn(&Self) -> bool) -> io::Result<()> {
        let mut latest = Instant::now() + patience;
        loop {
            let before = self.under_way;
            self.look()?;
            if enough(self) || Instant::now() > latest {
                return Ok(());
            }
            if self.under_way < before {
                latest = Instant::now() + patience;
            }
            thread::sleep(TICK / 20);
        }
    }

    /// Counts what has come out.
    fn look(&mut self) -> io::Result<()> {
        let mut packet = [0; 256];
        loop {
            let (len, from) = match recvfrom::<LinkAddr>(self.tap.as_raw_fd(), &mut packet) {
                Ok(received) => received,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let datagram = packet.get(..len).and_then(Datagram::at_end_of);
            let (Some(datagram), Some(from)) = (datagram, from) else {
                continue;
            };
            if self.sighted.insert((datagram.policy, datagram.number)) {
                let place = (
                    datagram.policy as usize,
                    from.ifindex() as u32,
                    datagram.served,
                );
                *self.tally.seen.entry(place).or_default() += 1;
                let served = u64::from(datagram.served);
                self.under_way = self.under_way.saturating_sub(1);
                self.served_under_way = self.served_under_way.saturating_sub(served);
            }
        }
    }
}

/// The sockets of one policy.
struct Flow {
    connection: usize,
    served: bool,
    /// One that is connected, so that the kernel keeps its route, and one that is not.
    sockets: [UdpSocket; 2],
    destination: SocketAddr,
    number: u32,
}

impl Flow {
    fn open(policy: &Policy) -> io::Result<Self> {
        let (v4, v6, port) = DESTINATIONS;
        let destination: IpAddr = if policy.source.is_ipv4() {
            v4.into()
        } else {
            v6.into()
        };
        let destination = SocketAddr::new(destination, port);
        let sockets = [
            UdpSocket::bind((policy.source, 0))?,
            UdpSocket::bind((policy.source, 0))?,
        ];
        sockets[0].connect(destination)?;
        Ok(Self {
            connection: policy.connection,
            served: false,
            sockets,
            destination,
            number: 0,
        })
    }

    /// Sends one datagram by one socket, the next by the other. Tells whether the kernel took it.
    fn send(&mut self, policy: u32) -> bool {
        let datagram = Datagram {
            policy,
            number: self.number,
            served: self.served,
        }
        .to_bytes();
        self.number = self.number.wrapping_add(1);
        let [connected, free] = &self.sockets;
        let sent = if self.number.is_multiple_of(2) {
            connected.send(&datagram)
        } else {
            free.send_to(&datagram, self.destination)
        };
        sent.is_ok()
    }
}

/// Two sockets for each policy may be more than a process has by default.
fn raise_limit_of_descriptors() -> nix::Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)
}
