use ipnet::IpNet;
use std::net::IpAddr;

/// A network interface with what tells whose it is and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its number; one that has gone is not given again at once.
    pub index: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Whether it is set up (`IFF_UP`).
    pub up: bool,
    /// What it is to the kernel, such as `veth`; a physical one has no kind.
    pub kind: Option<String>,
    /// A text that somebody put on it (`IFLA_IFALIAS`).
    pub alias: Option<String>,
    /// Its hardware address, where it has one of Ethernet's length.
    pub mac: Option<[u8; 6]>,
    /// The largest packet that it takes, in bytes.
    pub mtu: u32,
    /// The number of a group that somebody put it into (`IFLA_GROUP`); 0 is none in particular.
    pub group: u32,
    /// The other end of a pair.
    pub peer: Option<Peer>,
}

/// The other end of a pair of interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its number in its namespace.
    pub index: u32,
    /// Its namespace, by the number that this one has for that: see
    /// [`Rtnl::number_of`](crate::Rtnl::number_of). Without one it is in the same namespace.
    pub netns: Option<i32>,
}

/// What is to be changed of an interface, in one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InterfaceChange<'a> {
    /// Another alias, at most 255 bytes.
    pub alias: Option<&'a str>,
    /// Another MTU.
    pub mtu: Option<u32>,
    /// Another group.
    pub group: Option<u32>,
    /// Up or down.
    pub state: Option<crate::LinkState>,
}

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The number of the interface.
    pub index: u32,
    /// The address and the length of the network that it is in.
    pub net: IpNet,
    /// Who gave it (`IFA_PROTO`, since Linux 5.18); 0 is nobody in particular.
    pub protocol: u8,
    /// Whether it is used beyond the link (`RT_SCOPE_UNIVERSE`).
    pub global: bool,
    /// Whether it stays until it is taken away (`IFA_F_PERMANENT`).
    pub permanent: bool,
}

/// What an interface's namespace knows of a neighbour of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// The number of the interface.
    pub index: u32,
    /// The neighbour's address.
    pub address: IpAddr,
    /// Its hardware address, where it is known and of Ethernet's length.
    pub mac: Option<[u8; 6]>,
    /// Whether it was told for good (`NUD_PERMANENT`), and not found out.
    pub permanent: bool,
    /// Who told it (`NDA_PROTOCOL`, since Linux 5.0); 0 is nobody in particular.
    pub protocol: u8,
}
