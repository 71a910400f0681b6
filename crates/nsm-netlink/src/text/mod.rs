//! Rules and routes as iproute2 prints them: `ip rule show`, `ip route show table all`.

mod route;
mod rule;

use crate::Op;
use crate::rtnl::wire;
use ipnet::IpNet;
use nix::libc;
pub use route::RouteText;
use std::fmt;

const RTPROT_KERNEL: u8 = 2;
const RTPROT_BOOT: u8 = 3;

impl Op {
    /// What it is done to, as iproute2 prints it, interfaces by their index.
    pub fn subject(&self) -> impl fmt::Display + use<'_> {
        Subject(self)
    }
}

struct Subject<'a>(&'a Op);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // On one line with other words, where a tab would tear it.
            Op::AddRule(rule) | Op::DelRule(rule) => {
                f.write_str(&rule.to_string().replace('\t', " "))
            }
            Op::AddRoute(route, _) | Op::DelRoute(route) => route.display(|_| None).fmt(f),
        }
    }
}

/// What is done, and to what.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.subject())
    }
}

/// A prefix, without its length where it is one address.
struct Net<'a>(&'a IpNet);

impl fmt::Display for Net<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            self.0.addr().fmt(f)
        } else {
            self.0.fmt(f)
        }
    }
}

struct Table(u32);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            253 => f.write_str("default"),
            254 => f.write_str("main"),
            255 => f.write_str("local"),
            other => other.fmt(f),
        }
    }
}

/// The writers that iproute2 knows by name (etc/iproute2/rt_protos), as far as one meets them.
struct Protocol(u8);

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "unspec",
            1 => "redirect",
            RTPROT_KERNEL => "kernel",
            RTPROT_BOOT => "boot",
            4 => "static",
            9 => "ra",
            11 => "zebra",
            12 => "bird",
            16 => "dhcp",
            186 => "bgp",
            188 => "ospf",
            other => return other.fmt(f),
        })
    }
}

/// The types of routes, which are the numbers of what rules do, too.
struct Kind(u8);

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            libc::RTN_UNSPEC => "none",
            libc::RTN_LOCAL => "local",
            libc::RTN_BROADCAST => "broadcast",
            libc::RTN_ANYCAST => "anycast",
            libc::RTN_MULTICAST => "multicast",
            libc::RTN_BLACKHOLE => "blackhole",
            libc::RTN_UNREACHABLE => "unreachable",
            libc::RTN_PROHIBIT => "prohibit",
            libc::RTN_THROW => "throw",
            other => return other.fmt(f),
        })
    }
}

/// As `%#x` of C: 0 stays 0.
struct Hex(u32);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            f.write_str("0")
        } else {
            write!(f, "{:#x}", self.0)
        }
    }
}

/// An address with its length behind it, as `rest` holds destinations of rules and sources of
/// routes.
fn prefix(payload: &[u8]) -> Option<IpNet> {
    let (len, address) = payload.split_last()?;
    IpNet::new(wire::read_address(address).ok()?, *len).ok()
}
