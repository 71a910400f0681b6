use crate::{Errno, Link};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The index of `lo`, which every namespace is born with.
pub(super) const LOOPBACK: u32 = 1;

/// An interface and its addresses.
#[derive(Debug, Clone)]
pub(super) struct Device {
    pub(super) link: Link,
    pub(super) v4: Vec<Ipv4Net>,
    pub(super) v6: Vec<Ipv6Net>,
    pub(super) ipv6_enabled: bool,
}

/// The interfaces of a namespace.
#[derive(Debug)]
pub(super) struct Links {
    devices: BTreeMap<u32, Device>,
    next: u32,
}

impl Links {
    /// What a new namespace has: `lo`, down.
    pub(super) fn fresh() -> Self {
        let mut links = Self {
            devices: BTreeMap::new(),
            next: LOOPBACK,
        };
        links.insert("lo");
        links
    }

    fn insert(&mut self, name: &str) -> u32 {
        let index = self.next;
        self.next += 1;
        let link = Link {
            index,
            name: name.to_owned(),
            up: false,
        };
        let device = Device {
            link,
            v4: Vec::new(),
            v6: Vec::new(),
            ipv6_enabled: true,
        };
        self.devices.insert(index, device);
        index
    }

    /// Adds an interface that is down. An index is never given twice.
    pub(super) fn add(&mut self, name: &str) -> Result<u32, Errno> {
        if self.named(name).is_some() {
            return Err(Errno::EEXIST);
        }
        Ok(self.insert(name))
    }

    pub(super) fn remove(&mut self, index: u32) {
        self.devices.remove(&index);
    }

    pub(super) fn get(&self, index: u32) -> Option<&Device> {
        self.devices.get(&index)
    }

    pub(super) fn get_opt(&self, index: Option<u32>) -> Option<&Device> {
        index.and_then(|index| self.get(index))
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Result<&mut Device, Errno> {
        self.devices.get_mut(&index).ok_or(Errno::ENODEV)
    }

    pub(super) fn named(&self, name: &str) -> Option<&Device> {
        self.devices
            .values()
            .find(|device| device.link.name == name)
    }

    pub(super) fn rename(&mut self, index: u32, name: &str) -> Result<(), Errno> {
        if self
            .named(name)
            .is_some_and(|other| other.link.index != index)
        {
            return Err(Errno::EEXIST);
        }
        name.clone_into(&mut self.get_mut(index)?.link.name);
        Ok(())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Link> {
        self.devices.values().map(|device| &device.link)
    }

    /// Whether any interface has the address.
    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        self.devices
            .values()
            .any(|device| device.has_address(address))
    }
}

impl Device {
    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.iter().any(|net| net.addr() == address),
            IpAddr::V6(address) => self.v6.iter().any(|net| net.addr() == address),
        }
    }

    /// The first address of a network, after which the others of it are secondary.
    pub(super) fn primary(&self, net: Ipv4Net) -> Ipv4Net {
        let found = self.v4.iter().find(|other| other.trunc() == net.trunc());
        found.copied().unwrap_or(net)
    }

    pub(super) fn networks(&self) -> impl Iterator<Item = IpNet> {
        let v4 = self.v4.iter().copied().map(IpNet::V4);
        v4.chain(self.v6.iter().copied().map(IpNet::V6))
    }
}
