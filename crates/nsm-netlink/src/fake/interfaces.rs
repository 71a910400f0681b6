//! What interfaces and addresses do to routes (`net/ipv4/fib_frontend.c`, `net/ipv6/addrconf.c`).
//! Rules stay, whatever happens.

use super::Place;
use super::fib4::{SCOPE_HOST, of_address};
use super::links::{Device, LOOPBACK};
use super::state::{LOCAL, MAIN, State};
use crate::{
    Attributes, Change, Errno, Hop, Part, Route, RouteKind, SCOPE_LINK, SCOPE_UNIVERSE, Subject,
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use nix::libc;
use std::net::{Ipv4Addr, Ipv6Addr};

const LOCAL_KIND: RouteKind = RouteKind::Other(libc::RTN_LOCAL);
const BROADCAST_KIND: RouteKind = RouteKind::Other(libc::RTN_BROADCAST);
const MULTICAST_KIND: RouteKind = RouteKind::Other(libc::RTN_MULTICAST);
const CONNECTED_METRIC: u32 = 256;

impl State {
    /// Adds an interface that is down.
    pub(super) fn add_link(&mut self, name: &str) -> Result<u32, Errno> {
        let index = self.links.add(name)?;
        self.tell_link(Change::Added, index);
        Ok(index)
    }

    pub(super) fn rename(&mut self, index: u32, name: &str) -> Result<(), Errno> {
        self.links.rename(index, name)?;
        self.tell_link(Change::Added, index);
        Ok(())
    }

    fn tell_link(&mut self, change: Change, index: u32) {
        if let Some(device) = self.links.get(index) {
            let link = device.link.clone();
            self.notify(change, Subject::Link(link));
        }
    }

    /// Sets an interface up. Nothing of what went when it was set down comes back, but the routes of
    /// its addresses.
    pub(super) fn set_up(&mut self, index: u32) -> Result<(), Errno> {
        let device = self.links.get_mut(index)?;
        if std::mem::replace(&mut device.link.up, true) {
            return Ok(());
        }
        if index == LOOPBACK && device.v4.is_empty() {
            device.v4.push(Ipv4Net::new_assert(Ipv4Addr::LOCALHOST, 8));
        }
        if index == LOOPBACK && device.v6.is_empty() {
            device
                .v6
                .push(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128));
        }
        self.tell_link(Change::Added, index);
        self.fib4.device_up(index);
        self.fib6.device_up(index);
        self.enable_addresses(index);
        Ok(())
    }

    /// Sets an interface down: the routes via it go in every table, and its IPv6 addresses too.
    pub(super) fn set_down(&mut self, index: u32) -> Result<(), Errno> {
        let device = self.links.get_mut(index)?;
        if !std::mem::replace(&mut device.link.up, false) {
            return Ok(());
        }
        device.v6.clear();
        self.tell_link(Change::Added, index);
        self.fib4.device_down(index, false);
        let gone = self.fib6.device_down(index);
        self.tell_routes(Change::Removed, gone);
        Ok(())
    }

    pub(super) fn delete_link(&mut self, index: u32) -> Result<(), Errno> {
        if index == LOOPBACK {
            return Err(Errno::EOPNOTSUPP);
        }
        self.set_down(index)?;
        let device = self.links.get_mut(index)?;
        // Secondary addresses outlive their primary one here, and their routes go in silence.
        let primary = device
            .v4
            .iter()
            .filter(|net| device.primary(**net) == **net);
        let own: Vec<_> = primary.flat_map(|net| routes4(device, *net)).collect();
        for route in own {
            self.remove_own(&route);
        }
        self.fib4.device_gone(index);
        let gone = self.fib6.device_gone(index);
        self.tell_routes(Change::Removed, gone);
        self.tell_link(Change::Removed, index);
        self.links.remove(index);
        Ok(())
    }

    /// `net.ipv6.conf.DEV.disable_ipv6`.
    pub(super) fn set_ipv6(&mut self, index: u32, enabled: bool) -> Result<(), Errno> {
        let device = self.links.get_mut(index)?;
        device.ipv6_enabled = enabled;
        if enabled {
            self.fib6.device_up(index);
            self.enable_addresses(index);
        } else {
            device.v6.clear();
            let gone = self.fib6.device_down(index);
            self.tell_routes(Change::Removed, gone);
        }
        Ok(())
    }

    pub(super) fn add_address(&mut self, index: u32, address: IpNet) -> Result<(), Errno> {
        let device = self.links.get_mut(index)?;
        if device.networks().any(|net| net.addr() == address.addr()) {
            return Err(Errno::EEXIST);
        }
        match address {
            IpNet::V4(net) => {
                device.v4.push(net);
                self.fib4.device_up(index);
            }
            IpNet::V6(_) if !device.ipv6_enabled => return Err(Errno::EACCES),
            IpNet::V6(net) => device.v6.push(net),
        }
        self.notify(Change::Added, Subject::Address(index));
        self.enable_addresses(index);
        Ok(())
    }

    pub(super) fn remove_address(&mut self, index: u32, address: IpNet) -> Result<(), Errno> {
        let device = self.links.get_mut(index)?;
        if !device.networks().any(|net| net == address) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        self.notify(Change::Removed, Subject::Address(index));
        let device = self.links.get_mut(index)?;
        match address {
            IpNet::V4(net) => self.remove_address4(index, net)?,
            IpNet::V6(net) => {
                device.v6.retain(|other| *other != net);
                let shared = device.v6.iter().any(|other| other.trunc() == net.trunc());
                self.remove_own(&local6(index, net));
                if let Some(connected) = connected6(index, net).filter(|_| !shared) {
                    self.remove_own(&connected);
                }
                if !self.links.has_address(net.addr().into()) {
                    self.fib6.source_gone(net.addr());
                }
            }
        }
        Ok(())
    }

    fn remove_address4(&mut self, index: u32, net: Ipv4Net) -> Result<(), Errno> {
        let device = self.links.get_mut(index)?;
        let mut routes = routes4(device, net);
        if device.primary(net) == net {
            // Its secondary ones go first (`__inet_del_ifa` without `promote_secondaries`).
            let secondary = |other: &&Ipv4Net| **other != net && other.trunc() == net.trunc();
            let secondary: Vec<_> = device.v4.iter().filter(secondary).copied().collect();
            for other in secondary {
                self.remove_address4(index, other)?;
            }
        }
        let device = self.links.get_mut(index)?;
        device.v4.retain(|other| *other != net);
        let left: Vec<_> = device
            .v4
            .iter()
            .flat_map(|net| routes4(device, *net))
            .collect();
        // The address itself goes last (`fib_del_ifaddr`).
        routes.rotate_left(1);
        for route in routes {
            if !left.iter().any(|other| other.prefix == route.prefix) {
                self.remove_own(&route);
            }
        }
        if !self.links.has_address(net.addr().into()) {
            let gone = self.fib4.source_gone(MAIN, net.addr());
            self.tell_routes(Change::Removed, gone);
        }
        if left.is_empty() {
            self.fib4.device_down(index, true);
        }
        Ok(())
    }

    fn remove_own(&mut self, route: &Route) {
        // The route is gone already where the interface was set down.
        let _ = self.del_route(route);
    }

    /// Makes the routes of an interface's addresses, as far as they don't stand.
    fn enable_addresses(&mut self, index: u32) {
        let Some(device) = self.links.get(index) else {
            return;
        };
        let (up, ipv6) = (device.link.up, device.ipv6_enabled);
        let v4: Vec<_> = device
            .v4
            .iter()
            .flat_map(|net| routes4(device, *net))
            .collect();
        let routes6 = |net: &Ipv6Net| [Some(local6(index, *net)), connected6(index, *net)];
        let v6: Vec<_> = device.v6.iter().flat_map(routes6).flatten().collect();
        for route in v4
            .into_iter()
            .filter(|route| up || route.scope == SCOPE_HOST)
        {
            self.add_own4(route);
        }
        for route in v6
            .into_iter()
            .filter(|route| ipv6 && (up || route.table == LOCAL))
        {
            self.add_own6(route);
        }
        if ipv6 && up && index != LOOPBACK {
            self.add_own6(multicast6(index));
        }
    }

    fn add_own4(&mut self, route: Route) {
        if self.fib4.insert(vec![route.clone()], Place::Append) == Ok(true) {
            self.tell_routes(Change::Added, vec![route]);
        }
    }

    fn add_own6(&mut self, route: Route) {
        if self.fib6.insert(route.clone(), Place::Append).is_ok() {
            self.tell_routes(Change::Added, vec![route]);
        }
    }
}

/// The address, its network and its broadcast address; of a secondary one the address alone, and
/// that with the source of the primary one (`fib_add_ifaddr`).
fn routes4(device: &Device, net: Ipv4Net) -> Vec<Route> {
    let dev = device.link.index;
    let primary = device.primary(net);
    let source = primary.addr();
    let host = |address: Ipv4Addr| IpNet::V4(Ipv4Net::new_assert(address, 32));
    let local = |prefix| of_address(LOCAL, LOCAL_KIND, SCOPE_HOST, prefix, dev, source);
    let mut routes = vec![local(host(net.addr()))];
    if primary == net && net.prefix_len() < 32 {
        let network = IpNet::V4(net.trunc());
        routes.push(match dev {
            LOOPBACK => local(network),
            _ => of_address(MAIN, RouteKind::Unicast, SCOPE_LINK, network, dev, source),
        });
    }
    if primary == net && net.prefix_len() < 31 {
        let all = host(net.broadcast());
        routes.push(of_address(
            LOCAL,
            BROADCAST_KIND,
            SCOPE_LINK,
            all,
            dev,
            source,
        ));
    }
    routes
}

/// The address (`addrconf_f6i_alloc`).
fn local6(dev: u32, net: Ipv6Net) -> Route {
    let host = IpNet::V6(Ipv6Net::new_assert(net.addr(), 128));
    own6(LOCAL, LOCAL_KIND, host, 0, dev)
}

/// Its network (`addrconf_prefix_route`), which `lo` has none of (`init_loopback`).
fn connected6(dev: u32, net: Ipv6Net) -> Option<Route> {
    let network = IpNet::V6(net.trunc());
    (dev != LOOPBACK).then(|| own6(MAIN, RouteKind::Unicast, network, CONNECTED_METRIC, dev))
}

fn multicast6(dev: u32) -> Route {
    let all = Ipv6Net::new_assert(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8);
    own6(LOCAL, MULTICAST_KIND, IpNet::V6(all), CONNECTED_METRIC, dev)
}

fn own6(table: u32, kind: RouteKind, prefix: IpNet, metric: u32, dev: u32) -> Route {
    Route {
        table,
        prefix,
        tos: 0,
        metric,
        kind,
        scope: SCOPE_UNIVERSE,
        protocol: libc::RTPROT_KERNEL,
        hop: Some(Hop {
            dev,
            via: None,
            weight: 1,
        }),
        onlink: false,
        part: Part::Whole,
        rest: Attributes::NONE,
    }
}
