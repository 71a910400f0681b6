//! Whether a connection carries packets.
//!
//! Each address of the client's interface pings each of the endpoint's, of the same family. All of
//! them have to answer: a path that carries one family and not the other is broken.
//!
//! Pings go over sockets of the kernel's own echo protocol (icmp(7), `SOCK_DGRAM`), which need no
//! privilege where `net.ipv4.ping_group_range` allows them, as a forwarder sees to. The kernel gives
//! each socket its echo identifier, fills in checksums, and delivers no answer but its own.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Once;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use nsm_api::connection::Connection;
use nsm_chain::heal::Liveness;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, ipproto};
use tokio::time::timeout;
use tracing::{debug, warn};

/// How many pings are under way at once. A connection has a handful.
const AT_ONCE: usize = 32;

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
    warned: Once,
}

/// What became of a ping.
#[derive(Debug)]
enum Failure {
    /// There is no socket for it.
    NoSocket(io::Error),
    /// It was not sent, or not answered.
    Dead(io::Error),
}

impl IcmpLiveness {
    /// Waits so long for all answers.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            warned: Once::new(),
        }
    }

    /// Whether each address of the connection's interface reaches each of the endpoint's.
    ///
    /// # Cancellation
    ///
    /// Dropping the future closes its sockets.
    pub async fn is_alive(&self, connection: &Connection) -> bool {
        let pings = pairs(connection);
        let mut pings = stream::iter(pings)
            .map(|(from, to)| async move { (from, to, ping(from, to).await) })
            .buffer_unordered(AT_ONCE);
        let all = async {
            while let Some((from, to, answer)) = pings.next().await {
                match answer {
                    Ok(()) => {}
                    Err(Failure::NoSocket(error)) => self.warn(&error),
                    Err(Failure::Dead(error)) => {
                        debug!(connection.id, %from, %to, %error, "no answer to a ping");
                        return false;
                    }
                }
            }
            true
        };
        timeout(self.timeout, all).await.unwrap_or(false)
    }

    fn warn(&self, error: &io::Error) {
        self.warned.call_once(|| {
            warn!(
                %error,
                "connections cannot be pinged, and count as alive: does net.ipv4.ping_group_range \
                 allow it here?"
            );
        });
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

/// Sends one echo, and waits for its answer.
async fn ping(from: IpAddr, to: IpAddr) -> Result<(), Failure> {
    let socket = socket(from).map_err(Failure::NoSocket)?;
    let dead = Failure::Dead;
    net::bind(&socket, &SocketAddr::new(from, 0)).map_err(|errno| dead(errno.into()))?;
    // From now on it hears of nobody else, and of errors on the way.
    net::connect(&socket, &SocketAddr::new(to, 0)).map_err(|errno| dead(errno.into()))?;
    let socket = tokio::net::UdpSocket::from_std(socket).map_err(Failure::NoSocket)?;
    socket.send(&request(to)).await.map_err(dead)?;
    let mut buffer = [0; HEADER + PAYLOAD.len() + 1];
    loop {
        let length = socket.recv(&mut buffer).await.map_err(dead)?;
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
