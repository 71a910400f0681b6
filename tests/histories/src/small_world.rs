//! The world that histories happen in. It is small, so that steps meet.

use ipnet::IpNet;
use nsm_netlink::{Family, Owner, TableRange};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU8;
use std::time::Duration;

/// The links of the pod. Connections use the first two, the third is somebody else's.
pub const LINKS: [&str; 3] = ["nsm-0", "nsm-1", "eth0"];

/// The connections, each with the element that is asked for it.
pub const CONNECTIONS: [(&str, Who); 5] = [
    ("c1", Who::First),
    ("c2", Who::First),
    ("c3", Who::First),
    ("d1", Who::Second),
    ("d2", Who::Second),
];

/// How long a left-over is let stand.
pub const GRACE: Duration = Duration::from_secs(15 * 60);

/// How long a table of ours may be without a rule: another process of the same mark may be between
/// its routes and its rule.
pub const SETTLE: Duration = Duration::from_secs(10);

/// The lowest priority of the band that both elements use.
pub const BAND: u32 = 30_000;

/// `RTPROT_STATIC`: an administrator.
pub const STATIC: u8 = 4;

/// A table that no element hands out.
pub const ELSEWHERE: u32 = 100;

/// One of the two elements at work in the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The one that has most connections.
    First,
    /// The other one.
    Second,
}

impl Who {
    /// Both.
    pub const ALL: [Self; 2] = [Self::First, Self::Second];

    /// The mark of the element. The range is so short that tables run out at times.
    pub const fn owner(self) -> Owner {
        match self {
            Self::First => owner(78, 20_000),
            Self::Second => owner(79, 25_000),
        }
    }
}

const fn owner(protocol: u8, first: u32) -> Owner {
    const TABLES: u32 = 10;
    match (
        NonZeroU8::new(protocol),
        TableRange::new(first, first + TABLES - 1),
    ) {
        (Some(protocol), Ok(tables)) => Owner { protocol, tables },
        _ => panic!("no mark"),
    }
}

/// The address that a link has at first, in each family: as in a scenario file that gives none.
pub fn address(link: usize, family: Family) -> IpNet {
    let n = u8::try_from(link + 1).unwrap_or(u8::MAX);
    match family {
        Family::V4 => IpNet::new_assert(Ipv4Addr::new(172, 16, n, 1).into(), 24),
        Family::V6 => {
            IpNet::new_assert(Ipv6Addr::new(0xfd00, n.into(), 0, 0, 0, 0, 0, 1).into(), 64)
        }
    }
}
