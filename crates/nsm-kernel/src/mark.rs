//! What tells whose an interface is: pure, and the same in every process and release.

use ipnet::IpNet;
use nsm_api::InterfaceName;
use nsm_netlink::{Interface, InterfaceAddress, Neighbour, NetnsId};
use std::fmt;
use std::num::NonZeroU8;

/// What the kernel takes as an alias (`IFALIASZ` less one, linux/if.h).
const LONGEST_ALIAS: usize = 255;
/// How many names are tried for an end that nobody gave one, when others have them.
const NAMES: u8 = 4;

/// The first Linux that keeps the mark of an address and of a neighbour (`IFA_PROTO`,
/// `NDA_PROTOCOL`).
const MARKS_SINCE: (u32, u32) = (5, 18);

/// The mark on both ends of a connection's pair: `nsm:NUMBER:NAMESPACE:ID`.
///
/// The number is the forwarder's rtnetlink protocol number, so that a second forwarder on the node
/// with a number of its own is a stranger. The namespace is the client's, by inode, because clients
/// of two pods may choose one id. The id is the client's own, that of the path's first segment: it
/// stays when a forwarder returns under another name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark(String);

/// Which end of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client's.
    Client,
    /// The endpoint's.
    Endpoint,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Endpoint => "endpoint",
        })
    }
}

impl Mark {
    /// The mark of a connection of that id from a client in that namespace.
    pub fn new(protocol: NonZeroU8, client: NetnsId, id: &str) -> Self {
        let start = format!("{}{}:", prefix(protocol), client.ino);
        let fits = start.len() + id.len() <= LONGEST_ALIAS;
        if fits && id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Self(start + id);
        }
        // What a peer may choose, and a terminal should not have to show.
        Self(format!("{start}#{:016x}", hash(id.as_bytes())))
    }

    /// As the alias of an interface.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name for an end that nobody gave one, and others in case somebody else has it.
    pub fn names(&self, side: Side) -> impl Iterator<Item = String> + use<> {
        let seed = hash(format!("{side} of {}", self.0).as_bytes());
        (0..NAMES).map(move |turn| {
            let mut rest = seed.wrapping_add(u64::from(turn).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut name = String::from("nsm-");
            while name.len() < InterfaceName::LONGEST {
                name.push(char::from(
                    b"0123456789abcdefghijklmnopqrstuv"[(rest % 32) as usize],
                ));
                rest /= 32;
            }
            name
        })
    }

    /// The hardware address of an end that nobody gave one: locally administered, and the same
    /// each time the pair is made, so that what others know of it stays true.
    pub fn mac(&self, side: Side) -> [u8; 6] {
        let [a, b, c, d, e, ..] = hash(format!("{side} at {}", self.0).as_bytes()).to_be_bytes();
        [0x02, a, b, c, d, e]
    }
}

/// How every mark of a forwarder of that number begins.
fn prefix(protocol: NonZeroU8) -> String {
    format!("nsm:{protocol}:")
}

/// What is ours in a namespace.
#[derive(Debug, Clone, Copy)]
pub struct Ours {
    protocol: NonZeroU8,
    /// Whether the kernel keeps the marks of addresses and neighbours.
    kept: bool,
}

impl Ours {
    /// What carries that number, on a kernel of that release (`uname -r`).
    pub fn new(protocol: NonZeroU8, release: &str) -> Self {
        Self {
            protocol,
            kept: keeps_marks(release),
        }
    }

    /// The number.
    pub fn protocol(self) -> u8 {
        self.protocol.get()
    }

    /// Whether an interface is that of any connection of ours, or was to become one.
    pub fn has_made(self, interface: &Interface) -> bool {
        match interface.alias.as_deref() {
            Some(alias) => alias.starts_with(&prefix(self.protocol)),
            None => interface.group == self.unmarked(),
        }
    }

    /// The group of interfaces that are not marked yet. The kernel takes no alias for an interface
    /// that is made, and whoever is killed right then must not leave a stranger.
    pub fn unmarked(self) -> u32 {
        u32::from_be_bytes([b'n', b's', b'm', self.protocol()])
    }

    /// Whether we gave an address of an interface of ours. Where the kernel does not keep the
    /// mark, all that stays and is used beyond the link is ours: nobody else has business there.
    pub fn gave(self, address: &InterfaceAddress) -> bool {
        if self.kept {
            address.protocol == self.protocol()
        } else {
            address.global && address.permanent
        }
    }

    /// Whether we told a neighbour of an interface of ours.
    pub fn told(self, neighbour: &Neighbour) -> bool {
        neighbour.permanent && (!self.kept || neighbour.protocol == self.protocol())
    }
}

fn keeps_marks(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|number| number.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) >= MARKS_SINCE,
        // What cannot be read is something newer.
        _ => true,
    }
}

/// FNV-1a with a finish that mixes (MurmurHash3's): small, and the same for ever. The standard
/// library's hashes may change.
fn hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

/// An address as the kernel keeps it, unless it is one that no interface has.
///
/// # Errors
/// What is wrong with it.
pub fn check_address(net: &IpNet) -> Result<(), &'static str> {
    let address = net.addr();
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err("no interface can have it");
    }
    if net.prefix_len() == 0 {
        return Err("its network is everything");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn mark(ino: u64, id: &str) -> Mark {
        Mark::new(78.try_into().unwrap(), NetnsId { dev: 4, ino }, id)
    }

    #[test]
    fn a_mark_says_number_namespace_and_id() {
        assert_eq!(
            mark(4026532581, "nsc-0").as_str(),
            "nsm:78:4026532581:nsc-0"
        );
    }

    #[test]
    fn an_id_that_is_too_long_or_cannot_be_shown_is_told_by_its_hash() {
        let long = "x".repeat(500);
        for id in [long.as_str(), "a b", "a\u{1b}[31m", "ö"] {
            let mark = mark(1, id);
            assert!(mark.as_str().starts_with("nsm:78:1:#"), "{mark:?}");
            assert!(mark.as_str().len() <= LONGEST_ALIAS);
        }
        assert_ne!(mark(1, "a b"), mark(1, "a c"));
    }

    #[test]
    fn names_and_hardware_addresses_never_change_between_releases() {
        let mark = mark(4026532581, "nsc-0");
        let names: Vec<_> = mark.names(Side::Endpoint).collect();

        assert_eq!(names, PINNED_NAMES);
        assert_eq!(mark.mac(Side::Endpoint), PINNED_MAC);
    }

    const PINNED_NAMES: [&str; 4] = [
        "nsm-5nu9d3bhig7",
        "nsm-qntu13h8ccl",
        "nsm-fosjm2nv583",
        "nsm-4pr8b2tmv3h",
    ];
    const PINNED_MAC: [u8; 6] = [2, 202, 123, 99, 58, 72];

    #[test]
    fn every_end_has_a_name_and_a_hardware_address_of_its_own() {
        let mut names = BTreeSet::new();
        let mut macs = BTreeSet::new();
        for id in 0..1000 {
            let mark = mark(1, &format!("nsc-{id}"));
            for side in [Side::Client, Side::Endpoint] {
                for name in mark.names(side) {
                    assert_eq!(InterfaceName::check(&name), Ok(()), "{name}");
                    assert!(names.insert(name));
                }
                let mac = mark.mac(side);
                assert_eq!(mac[0] & 3, 2, "unicast, locally administered");
                assert!(macs.insert(mac));
            }
        }
    }

    #[test]
    fn a_kernel_keeps_marks_since_5_18() {
        for release in ["5.18.0", "6.1.0-13-amd64", "6.18.44", "10.0", "next"] {
            assert!(keeps_marks(release), "{release}");
        }
        for release in ["4.19.0-25", "5.17.15", "5.4"] {
            assert!(!keeps_marks(release), "{release}");
        }
    }
}
