//! Whether a connection carries packets.
//!
//! Each address of the client's interface pings each of the endpoint's, of the same family. All of
//! them have to answer: a path that carries one family and not the other is broken. Where there are
//! many, a few of them ping each time, the next ones when all of these were answered.
//!
//! Pings go over sockets of the kernel's own echo protocol (icmp(7), `SOCK_DGRAM`), which need no
//! privilege where `net.ipv4.ping_group_range` allows them, as a forwarder sees to. The kernel gives
//! each socket its echo identifier, fills in checksums, and delivers no answer but its own.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use nsm_api::connection::Connection;
use nsm_chain::heal::Liveness;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, ipproto};
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, warn};

/// How many pings there are each time. A connection has a handful.
const AT_ONCE: usize = 8;

/// What an echo carries, to be told from any other.
const PAYLOAD: &[u8; 8] = b"nsm echo";
/// Type, code, checksum, identifier and sequence number (RFC 792, RFC 4443).
const HEADER: usize = 8;

/// Pings through a connection, in the network namespace of this process.
///
/// A connection counts as alive if nothing can be said of it: if it has no addresses, or is of
/// another mechanism than kernel interfaces, or if sockets for pings cannot be had. That last is
/// warned about once.
#[derive(Debug)]
pub struct IcmpLiveness {
    timeout: Duration,
    turns: Turns,
    warned: Once,
}

/// Whose turn it is in connections of more pings than there are at once, but for those whose first
/// ones it is. There are no more of them than a client is told to have.
#[derive(Debug, Default)]
struct Turns(Mutex<HashMap<String, usize>>);

/// What became of a ping.
#[derive(Debug)]
enum Failure {
    /// There is no socket for it.
    NoSocket(io::Error),
    /// It was not sent.
    NotSent(io::Error),
    /// It was not answered.
    Dead(io::Error),
}

impl IcmpLiveness {
    /// Waits so long for an answer.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            turns: Turns::default(),
            warned: Once::new(),
        }
    }

    /// Whether each address of the connection's interface reaches each of the endpoint's, of up to
    /// eight pairs whose turn it is. It stays theirs until all of them do.
    ///
    /// What cannot be sent here, as the interface is down or without the address, may be so for a
    /// moment: it counts when the time for an answer is over.
    ///
    /// # Cancellation
    ///
    /// Dropping the future closes its sockets.
    pub async fn is_alive(&self, connection: &Connection) -> bool {
        let pairs = pairs(connection);
        let mut pings: FuturesUnordered<_> = self
            .turns
            .of(&connection.id, &pairs)
            .iter()
            .map(|&(from, to)| async move { (from, to, ping_for(self.timeout, from, to).await) })
            .collect();
        while let Some((from, to, answer)) = pings.next().await {
            match answer {
                Ok(()) => {}
                Err(Failure::NoSocket(error)) => self.warn(&error),
                Err(Failure::NotSent(error) | Failure::Dead(error)) => {
                    debug!(connection.id, %from, %to, %error, "no answer to a ping");
                    return false;
                }
            }
        }
        self.turns.next(&connection.id, &pairs);
        true
    }

    fn warn(&self, error: &io::Error) {
        self.warned.call_once(|| {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    ": does net.ipv4.ping_group_range allow it here?"
                }
                _ => "",
            };
            warn!(%error, "connections cannot be pinged, and count as alive{hint}");
        });
    }
}

impl Turns {
    /// Whose turn it is.
    fn of<'a, T>(&self, connection: &str, all: &'a [T]) -> &'a [T] {
        let turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = turns.get(connection).copied().unwrap_or_default();
        // There may be fewer of them now.
        let mut groups = all.chunks(AT_ONCE);
        groups
            .nth(turn)
            .or(all.chunks(AT_ONCE).next())
            .unwrap_or_default()
    }

    /// The next ones take their turn.
    fn next<T>(&self, connection: &str, all: &[T]) {
        let groups = all.len().div_ceil(AT_ONCE);
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = turns.get(connection).copied().unwrap_or_default() + 1;
        if next < groups {
            turns.insert(connection.to_owned(), next);
        } else {
            turns.remove(connection);
        }
    }
}

impl Liveness for IcmpLiveness {
    fn is_alive<'a>(
        &'a self,
        connection: &'a Connection,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(self.is_alive(connection))
    }
}

/// Who pings whom.
fn pairs(connection: &Connection) -> Vec<(IpAddr, IpAddr)> {
    if connection.kernel_mechanism().is_none() {
        return Vec::new();
    }
    let destinations: Vec<_> = hosts(connection.dst_ip_addrs()).collect();
    let from = |source: IpAddr| {
        let same = |to: &&IpAddr| to.is_ipv4() == source.is_ipv4();
        let to = destinations.iter().filter(same);
        to.map(move |to| (source, *to)).collect::<Vec<_>>()
    };
    hosts(connection.src_ip_addrs()).flat_map(from).collect()
}

/// Addresses, without the length of their networks. What is none was refused by whoever sets them.
fn hosts(texts: &[String]) -> impl Iterator<Item = IpAddr> {
    let address = |text: &String| text.split('/').next()?.parse().ok();
    texts.iter().filter_map(address)
}

/// Sends one echo, and waits so long for its answer.
async fn ping_for(time: Duration, from: IpAddr, to: IpAddr) -> Result<(), Failure> {
    let deadline = Instant::now() + time;
    let answer = timeout_at(deadline, ping(from, to)).await;
    let answer = answer.unwrap_or_else(|late| Err(Failure::Dead(late.into())));
    if let Err(Failure::NotSent(_)) = answer {
        sleep_until(deadline).await;
    }
    answer
}

/// Sends one echo, and waits for its answer.
async fn ping(from: IpAddr, to: IpAddr) -> Result<(), Failure> {
    let socket = socket(from).map_err(Failure::NoSocket)?;
    let not_sent = Failure::NotSent;
    net::bind(&socket, &SocketAddr::new(from, 0)).map_err(|errno| not_sent(errno.into()))?;
    // From now on it hears of nobody else, and of errors on the way.
    net::connect(&socket, &SocketAddr::new(to, 0)).map_err(|errno| not_sent(errno.into()))?;
    let socket = tokio::net::UdpSocket::from_std(socket).map_err(Failure::NoSocket)?;
    socket.send(&request(to)).await.map_err(not_sent)?;
    let mut buffer = [0; HEADER + PAYLOAD.len() + 1];
    loop {
        let length = socket.recv(&mut buffer).await.map_err(Failure::Dead)?;
        if is_reply(to, &buffer[..length]) {
            return Ok(());
        }
    }
}

fn socket(of: IpAddr) -> io::Result<UdpSocket> {
    let (family, protocol) = match of {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::DGRAM, flags, Some(protocol))?;
    // It is none, but sends and receives datagrams as one does, and the runtime asks for no more.
    Ok(socket.into())
}

/// Echo request and reply of a family.
fn types(of: IpAddr) -> (u8, u8) {
    match of {
        IpAddr::V4(_) => (8, 0),
        IpAddr::V6(_) => (128, 129),
    }
}

fn request(to: IpAddr) -> [u8; HEADER + PAYLOAD.len()] {
    let mut message = [0; HEADER + PAYLOAD.len()];
    message[0] = types(to).0;
    message[HEADER..].copy_from_slice(PAYLOAD);
    message
}

fn is_reply(from: IpAddr, message: &[u8]) -> bool {
    message.first() == Some(&types(from).1) && message.get(HEADER..) == Some(&PAYLOAD[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::connection::Mechanism;
    use nsm_api::connectioncontext::{ConnectionContext, IpContext};

    pub(super) fn connection(sources: &[&str], destinations: &[&str]) -> Connection {
        let texts = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect();
        Connection {
            mechanism: Some(Mechanism::kernel()),
            context: Some(ConnectionContext {
                ip_context: Some(IpContext {
                    src_ip_addrs: texts(sources),
                    dst_ip_addrs: texts(destinations),
                    ..IpContext::default()
                }),
                ..ConnectionContext::default()
            }),
            ..Connection::default()
        }
    }

    #[test]
    fn each_source_pings_each_destination_of_its_family() {
        let sources = ["172.16.1.1/32", "10.9.0.9/32", "fd00:1::1/128", "junk"];
        let connection = connection(&sources, &["172.16.1.0/32", "fd00:1::/128"]);

        let pairs: Vec<_> = pairs(&connection)
            .into_iter()
            .map(|(from, to)| format!("{from} {to}"))
            .collect();

        let expected = [
            "172.16.1.1 172.16.1.0",
            "10.9.0.9 172.16.1.0",
            "fd00:1::1 fd00:1::",
        ];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn each_pair_has_its_turn_and_keeps_it_until_it_is_answered() {
        let (turns, all) = (Turns::default(), Vec::from_iter(0..2 * AT_ONCE + 1));
        let first = &all[..AT_ONCE];
        assert_eq!(turns.of("a", &all), first);
        assert_eq!(turns.of("a", &all), first, "nobody has answered");

        turns.next("a", &all);
        assert_eq!(turns.of("a", &all), &all[AT_ONCE..2 * AT_ONCE]);
        assert_eq!(turns.of("b", &all), first, "it is another connection");
        turns.next("a", &all);
        assert_eq!(turns.of("a", &all), &all[2 * AT_ONCE..]);
        assert_eq!(turns.of("a", first), first, "there are fewer now");
        turns.next("a", &all);
        assert_eq!(turns.of("a", &all), first);
        assert!(turns.0.lock().unwrap().is_empty());

        turns.next("a", first);
        assert_eq!(turns.of("a", first), first);
        assert_eq!(turns.of("a", &all[..0]), &all[..0]);
    }

    #[test]
    fn only_kernel_interfaces_are_pinged() {
        let mut connection = connection(&["172.16.1.1/32"], &["172.16.1.0/32"]);
        connection.mechanism = Some(Mechanism {
            r#type: "MEMIF".to_owned(),
            ..Mechanism::default()
        });

        assert_eq!(pairs(&connection), []);
    }

    #[test]
    fn a_reply_is_of_its_family_and_carries_what_was_sent() {
        for to in ["172.16.1.0", "fd00:1::"].map(|it| it.parse::<IpAddr>().unwrap()) {
            let mut message = request(to);
            assert!(!is_reply(to, &message));
            message[0] = types(to).1;
            assert!(is_reply(to, &message));
            assert!(!is_reply(to, &message[..HEADER]));
            message[HEADER] += 1;
            assert!(!is_reply(to, &message));
        }
    }
}
