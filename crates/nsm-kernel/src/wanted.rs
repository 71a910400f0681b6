//! What a connection wants of the kernel, parsed and checked before anything is touched.

use crate::mark::{Mark, Side, check_address};
use crate::route::{self, Routes};
use ipnet::IpNet;
use nsm_api::connection::Connection;
use nsm_api::connectioncontext::{IpContext, IpNeighbor};
use nsm_api::{InterfaceName, InterfaceNameError};
use std::collections::BTreeMap;
use std::net::IpAddr;
use thiserror::Error;

/// The most addresses, routes or neighbours that one connection may have.
const MOST: usize = 4096;
/// What a pair of interfaces takes (`ETH_MIN_MTU`, `ETH_MAX_MTU`).
const MTU: std::ops::RangeInclusive<u32> = 68..=65535;
/// What IPv6 needs (RFC 8200, section 5); with less the kernel switches it off.
const IPV6_MTU: u32 = 1280;
/// The payload of a connection that carries packets, and no frames.
const IP: &str = "IP";

/// What a connection wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The mark on both ends.
    pub mark: Mark,
    /// The MTU of both ends, if it is not to stay as it is.
    pub mtu: Option<u32>,
    /// The client's end.
    pub client: End,
    /// The endpoint's end.
    pub endpoint: End,
}

/// What a connection wants of one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Whose it is.
    pub side: Side,
    /// The names that it may have, the better first.
    pub names: Vec<String>,
    /// Whether the first of them was asked for.
    pub asked: bool,
    /// Its hardware address, if it matters.
    pub mac: Option<[u8; 6]>,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
    /// Where packets leave by it.
    pub routes: Routes,
    /// Neighbours that it is told.
    pub neighbours: BTreeMap<IpAddr, [u8; 6]>,
    /// Neighbours that are the other end.
    pub opposite: Vec<IpAddr>,
}

/// What makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A name.
    #[error("{side}'s interface name {name:?}: {reason}")]
    Name {
        /// Whose interface.
        side: Side,
        /// The name.
        name: String,
        /// What is wrong.
        reason: InterfaceNameError,
    },
    /// An entry of a list.
    #[error("{list} {index} {value:?}: {reason}")]
    Entry {
        /// Which list.
        list: &'static str,
        /// Where in the list.
        index: usize,
        /// The entry.
        value: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A hardware address.
    #[error("{field} {value:?} is no unicast hardware address")]
    Mac {
        /// Where it stands.
        field: &'static str,
        /// The text.
        value: String,
    },
    /// The MTU.
    #[error("MTU {0} is none that an interface and its addresses can have")]
    Mtu(u32),
    /// A list is too long.
    #[error("{list}: {len} are more than {MOST}")]
    TooMany {
        /// Which list.
        list: &'static str,
        /// How long it is.
        len: usize,
    },
}

impl Invalid {
    /// Whether it makes sense, and is too much of it.
    pub fn is_too_much(&self) -> bool {
        matches!(self, Self::TooMany { .. })
    }
}

impl Wanted {
    /// What an answered connection wants, with the name that the endpoint asks for.
    ///
    /// # Errors
    /// The first thing that makes no sense.
    pub fn parse(
        connection: &Connection,
        mark: Mark,
        endpoint_name: Option<&str>,
    ) -> Result<Self, Invalid> {
        let none = IpContext::default();
        let ip = connection.ip_context().unwrap_or(&none);
        let context = connection.context.as_ref();
        let ethernet = context.and_then(|context| context.ethernet_context.as_ref());
        let macs = [
            ("src_mac", ethernet.map(|it| it.src_mac.as_str())),
            ("dst_mac", ethernet.map(|it| it.dst_mac.as_str())),
        ];
        let [src_mac, dst_mac] = macs.map(|(field, text)| optional_mac(field, text));
        let src = addresses("src_ip_addrs", &ip.src_ip_addrs)?;
        let dst = addresses("dst_ip_addrs", &ip.dst_ip_addrs)?;
        let opposite = |nets: &[IpNet]| match connection.payload.as_str() {
            IP => nets.iter().map(IpNet::addr).collect(),
            _ => Vec::new(),
        };
        let client_name = connection
            .kernel_mechanism()
            .and_then(|kernel| kernel.interface_name());
        // One that was proposed to it is no wish of the endpoint's.
        let is_wish = |name: &&str| mark.names(Side::Endpoint).all(|own| own != *name);
        let endpoint_name = endpoint_name.filter(is_wish);
        let mtu = context.map_or(0, |context| context.mtu);
        let has_ipv6 = src.iter().chain(&dst).any(|net| net.addr().is_ipv6());
        if mtu != 0 && (!MTU.contains(&mtu) || (has_ipv6 && mtu < IPV6_MTU)) {
            return Err(Invalid::Mtu(mtu));
        }
        Ok(Self {
            mtu: (mtu != 0).then_some(mtu),
            client: End {
                side: Side::Client,
                names: client_names(client_name, &mark)?,
                asked: client_name.is_some(),
                mac: src_mac?,
                routes: route::derive("src_routes", &ip.src_routes, &src, &dst)?,
                neighbours: neighbours(&ip.ip_neighbors)?,
                opposite: opposite(&dst),
                addresses: src.clone(),
            },
            endpoint: End {
                side: Side::Endpoint,
                names: endpoint_names(endpoint_name, &mark)?,
                asked: endpoint_name.is_some(),
                mac: dst_mac?,
                routes: route::derive("dst_routes", &ip.dst_routes, &dst, &src)?,
                neighbours: BTreeMap::new(),
                opposite: opposite(&src),
                addresses: dst,
            },
            mark,
        })
    }
}

impl End {
    /// The neighbours with the hardware address of the other end.
    pub fn neighbours(&self, other: Option<[u8; 6]>) -> BTreeMap<IpAddr, [u8; 6]> {
        let opposite = self.opposite.iter().filter_map(|to| Some((*to, other?)));
        let told = self.neighbours.iter().map(|(to, mac)| (*to, *mac));
        opposite.chain(told).collect()
    }
}

/// The name that the client asks for, and no other: what it does with the interface goes by that.
pub fn client_names(asked: Option<&str>, mark: &Mark) -> Result<Vec<String>, Invalid> {
    match asked {
        Some(name) => Ok(vec![checked(Side::Client, name)?]),
        None => Ok(mark.names(Side::Client).take(1).collect()),
    }
}

/// The hardware address of the client's end, if one makes sense that is asked for.
pub fn client_mac(connection: &Connection) -> Option<[u8; 6]> {
    let ethernet = connection.context.as_ref()?.ethernet_context.as_ref()?;
    optional_mac("src_mac", Some(&ethernet.src_mac)).ok()?
}

/// The name that the endpoint asks for, and others: many clients come to one endpoint, and one that
/// asks for one name for all would keep all but one away.
fn endpoint_names(asked: Option<&str>, mark: &Mark) -> Result<Vec<String>, Invalid> {
    let asked = asked
        .map(|name| checked(Side::Endpoint, name))
        .transpose()?;
    Ok(asked
        .into_iter()
        .chain(mark.names(Side::Endpoint))
        .collect())
}

fn checked(side: Side, name: &str) -> Result<String, Invalid> {
    match InterfaceName::check(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(reason) => Err(Invalid::Name {
            side,
            name: name.to_owned(),
            reason,
        }),
    }
}

/// Addresses with their prefix lengths; one without stands for itself. Of one that is listed twice
/// the first counts.
fn addresses(list: &'static str, texts: &[String]) -> Result<Vec<IpNet>, Invalid> {
    limit(list, texts.len())?;
    let mut nets: Vec<IpNet> = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let net = parse_net(text).ok_or("it is no address with a prefix length");
        let checked = net.and_then(|net| check_address(&net).map(|()| net));
        let net = checked.map_err(|reason| entry(list, index, text, reason))?;
        if nets.iter().all(|other| other.addr() != net.addr()) {
            nets.push(net);
        }
    }
    Ok(nets)
}

fn neighbours(list: &[IpNeighbor]) -> Result<BTreeMap<IpAddr, [u8; 6]>, Invalid> {
    limit("ip_neighbors", list.len())?;
    let mut neighbours = BTreeMap::new();
    for (index, neighbour) in list.iter().enumerate() {
        let wrong = |value: &str, reason| entry("ip_neighbors", index, value, reason);
        let ip = neighbour.ip.parse();
        let ip: IpAddr = ip.map_err(|_| wrong(&neighbour.ip, "it is no address"))?;
        let mac = parse_mac(&neighbour.hardware_address)
            .ok_or_else(|| wrong(&neighbour.hardware_address, "it is no hardware address"))?;
        if check_address(&IpNet::from(ip)).is_err() {
            return Err(wrong(&neighbour.ip, "no neighbour can have it"));
        }
        neighbours.insert(ip, mac);
    }
    Ok(neighbours)
}

/// Refuses a list that is too long.
pub fn limit(list: &'static str, len: usize) -> Result<(), Invalid> {
    if len > MOST {
        return Err(Invalid::TooMany { list, len });
    }
    Ok(())
}

/// What is wrong with an entry.
pub fn entry(list: &'static str, index: usize, value: &str, reason: &'static str) -> Invalid {
    Invalid::Entry {
        list,
        index,
        value: value.to_owned(),
        reason,
    }
}

/// A prefix, or an address that stands for itself.
pub fn parse_net(text: &str) -> Option<IpNet> {
    match nsm_api::parse_net(text)? {
        // The kernel would take it for IPv4 at some places and for IPv6 at others.
        IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some() => None,
        net => Some(net),
    }
}

fn optional_mac(field: &'static str, text: Option<&str>) -> Result<Option<[u8; 6]>, Invalid> {
    match text.filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => match parse_mac(text) {
            Some(mac) if mac[0] & 1 == 0 && mac != [0; 6] => Ok(Some(mac)),
            _ => Err(Invalid::Mac {
                field,
                value: text.to_owned(),
            }),
        },
    }
}

/// Six bytes in hexadecimal, with colons or dashes between them.
fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        if !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
#[path = "wanted_tests.rs"]
mod tests;
