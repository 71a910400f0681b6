use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address family. The kernel keeps rules, tables and routes of the two apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both families, IPv4 first.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// The family of an address.
    pub fn of(address: &IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }

    /// The family of a prefix.
    pub fn of_net(prefix: &IpNet) -> Self {
        Self::of(&prefix.addr())
    }

    /// The prefix that holds every address of the family: `0.0.0.0/0` or `::/0`.
    pub fn default_prefix(self) -> IpNet {
        let zero = match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        IpNet::new_assert(zero, 0)
    }

    /// The length of a host's prefix in bits: 32 or 128.
    pub const fn host_len(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The metric that the kernel stores when a route names none: 0 in IPv4, 1024 in IPv6.
    pub const fn default_metric(self) -> u32 {
        match self {
            Self::V4 => 0,
            Self::V6 => 1024,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
