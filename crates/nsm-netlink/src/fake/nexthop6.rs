//! What the kernel checks of an IPv6 route before it looks for its place in the table
//! (`fib6_nh_init`, net/ipv6/route.c).

use super::links::LOOPBACK;
use super::lookup::{Answer, Flow, Limits};
use super::request::{invalid, refuses};
use super::state::{MAIN, State};
use super::{Leg, refuse};
use crate::{Errno, Hop, Refusal, Route, RouteKind};
use nix::libc;
use std::net::{IpAddr, Ipv6Addr};

impl State {
    /// Checks an IPv6 route; finds the interface of a next hop that names none.
    pub(super) fn check6(&self, route: &mut Route) -> Result<(), Refusal> {
        let hop = route.hop.unwrap_or(Hop {
            dev: 0,
            via: None,
            weight: 1,
        });
        if hop.dev != 0 && self.links.get(hop.dev).is_none() {
            return Err(Errno::ENODEV.into());
        }
        if route.onlink {
            let required = || refuse(Errno::ENODEV, "Nexthop device required for onlink");
            let device = self.links.get(hop.dev).ok_or_else(required)?;
            if !device.link.up {
                return Err(refuse(Errno::ENETDOWN, "Nexthop device is not up"));
            }
        }
        if refuses(route.kind) {
            route.hop = None;
            route.onlink = false;
            return self.check_source6(route, LOOPBACK);
        }
        let dev = match hop.via {
            Some(gateway) => self.gateway6(route, gateway, hop.dev)?,
            None => hop.dev,
        };
        let device = self.links.get(dev).ok_or(Errno::ENODEV)?;
        if !device.ipv6_enabled {
            return Err(refuse(Errno::EACCES, "IPv6 is disabled on nexthop device"));
        }
        if !device.link.up {
            return Err(refuse(Errno::ENETDOWN, "Nexthop device is not up"));
        }
        self.check_source6(route, dev)?;
        route.hop = Some(Hop { dev, ..hop });
        Ok(())
    }

    /// Whether the host has the address: one of a link on that link, any other on whatever link
    /// (`ipv6_chk_addr`).
    fn has_address6(&self, address: Ipv6Addr, dev: u32) -> bool {
        let on_dev = || {
            self.links
                .get(dev)
                .is_some_and(|it| it.has_address(address.into()))
        };
        if address.is_unicast_link_local() {
            on_dev()
        } else {
            self.links.has_address(address.into())
        }
    }

    fn check_source6(&self, route: &Route, dev: u32) -> Result<(), Refusal> {
        let source = route
            .rest
            .get(libc::RTA_PREFSRC)
            .and_then(|it| <[u8; 16]>::try_from(it).ok());
        match source {
            Some(source) if !self.has_address6(Ipv6Addr::from(source), dev) => {
                Err(invalid("Invalid source address"))
            }
            _ => Ok(()),
        }
    }

    /// `ip6_validate_gw`.
    fn gateway6(&self, route: &Route, gateway: IpAddr, dev: u32) -> Result<u32, Refusal> {
        let IpAddr::V6(address) = gateway else {
            return Err(invalid("Invalid gateway address"));
        };
        let own = || invalid("Gateway can not be a local address");
        let is_own = |dev| self.has_address6(address, dev);
        if dev != 0 && is_own(dev) {
            return Err(own());
        }
        if address.is_multicast() || address.is_loopback() || address.is_unspecified() {
            return Err(invalid("Invalid gateway address"));
        }
        let found = if address.is_unicast_link_local() {
            dev
        } else if route.onlink {
            self.on_link6(gateway, dev)?;
            dev
        } else {
            self.on_some_link6(route, gateway, dev)?
        };
        match found {
            0 => Err(invalid("Egress device not specified")),
            LOOPBACK => Err(invalid(
                "Egress device can not be loopback device for this route",
            )),
            _ if dev == 0 && is_own(found) => Err(own()),
            _ => Ok(found),
        }
    }

    /// `onlink`, and yet the main table must not lead to the address by another interface, its
    /// default route aside (`ip6_route_check_nh_onlink`).
    fn on_link6(&self, gateway: IpAddr, dev: u32) -> Result<(), Refusal> {
        let limits = Limits {
            prefers: Some(dev),
            ..Limits::default()
        };
        if let Answer::Route(leg) = self.lookup_in(MAIN, &Flow::to(gateway), limits)
            && leg.route.prefix.prefix_len() > 0
            && (leg.route.dev() != Some(dev) || leg.route.kind != RouteKind::Unicast)
        {
            return Err(invalid("Nexthop has invalid gateway or device mismatch"));
        }
        Ok(())
    }

    /// A gateway must be on a link: by a route of the table itself, or by the rules
    /// (`ip6_route_check_nh`).
    fn on_some_link6(&self, route: &Route, gateway: IpAddr, dev: u32) -> Result<u32, Refusal> {
        let mut flow = Flow::to(gateway);
        flow.oif = Some(dev).filter(|dev| *dev != 0);
        let direct = |leg: &Leg| {
            let found = leg.route.dev().filter(|found| dev == 0 || dev == *found);
            found.filter(|_| leg.route.hop.is_some_and(|hop| hop.via.is_none()))
        };
        let limits = Limits::default();
        let inside = match self.lookup_in(route.table, &flow, limits) {
            Answer::Route(leg) => direct(leg),
            Answer::Refused(_) | Answer::Nothing => None,
        };
        let by_rules = || {
            self.lookup_by_rules(&flow, limits)
                .ok()
                .and_then(|(_, leg)| direct(leg))
        };
        inside.or_else(by_rules).ok_or(Errno::EHOSTUNREACH.into())
    }
}
