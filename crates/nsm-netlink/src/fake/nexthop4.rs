//! What the kernel checks of an IPv4 route before it looks for its place in the table
//! (`fib_create_info`, net/ipv4/fib_semantics.c).

use super::fib4::SCOPE_HOST;
use super::lookup::{Answer, Flow, Limits};
use super::refuse;
use super::request::{invalid, number, refuses, unmodelled};
use super::state::{LOCAL, MAIN, State};
use crate::{Errno, Hop, Refusal, Route, RouteKind, SCOPE_LINK};
use nix::libc;
use std::net::IpAddr;

impl State {
    /// Checks an IPv4 route; finds the interface of a next hop that names none.
    pub(super) fn check4(&self, route: &mut Route) -> Result<(), Refusal> {
        if route.scope < least_scope(route.kind) {
            return Err(invalid("Invalid scope"));
        }
        if refuses(route.kind) {
            return match route.hop {
                None => Ok(()),
                Some(_) => Err(invalid(
                    "Gateway, device and multipath can not be specified for this route type",
                )),
            };
        }
        if !(libc::RTN_UNICAST..=libc::RTN_MULTICAST).contains(&number(route.kind)) {
            return Err(invalid("Invalid route type"));
        }
        if route.scope > SCOPE_HOST {
            return Err(invalid("Invalid scope"));
        }
        let hop = route.hop.unwrap_or(Hop {
            dev: 0,
            via: None,
            weight: 1,
        });
        let dev = match hop.via {
            Some(IpAddr::V6(_)) => return Err(unmodelled()),
            Some(_) if route.scope == SCOPE_HOST => {
                return Err(invalid("Route with host scope can not have a gateway"));
            }
            None if route.scope == SCOPE_HOST => self.links.get(hop.dev).map(|_| hop.dev),
            Some(gateway) if route.onlink => Some(self.on_link4(route, gateway, hop.dev)?),
            Some(gateway) => Some(self.gateway4(route, gateway, hop.dev)?),
            None if route.onlink => {
                return Err(invalid(
                    "Invalid flags for nexthop - PERVASIVE and ONLINK can not be set",
                ));
            }
            None => Some(self.device4(hop.dev)?),
        };
        let dev = dev.ok_or(Errno::ENODEV)?;
        route.hop = Some(Hop { dev, ..hop });
        if let Some(source) = route.rest.get(libc::RTA_PREFSRC)
            && let Ok(source) = <[u8; 4]>::try_from(source)
            && !self.links.has_address(IpAddr::from(source))
        {
            return Err(invalid("Invalid prefsrc address"));
        }
        Ok(())
    }

    fn device4(&self, dev: u32) -> Result<u32, Refusal> {
        let device = self.links.get(dev).ok_or(Errno::ENODEV)?;
        if !device.link.up {
            return Err(refuse(Errno::ENETDOWN, "Device for nexthop is not up"));
        }
        Ok(dev)
    }

    /// `onlink`: nothing is asked but that the address is not the host's own.
    fn on_link4(&self, route: &Route, gateway: IpAddr, dev: u32) -> Result<u32, Refusal> {
        if route.scope >= SCOPE_LINK {
            return Err(invalid("Nexthop has invalid scope"));
        }
        let required = || refuse(Errno::ENODEV, "Nexthop device required for onlink");
        let device = self.links.get(dev).ok_or_else(required)?;
        if !device.link.up {
            return Err(refuse(Errno::ENETDOWN, "Nexthop device is not up"));
        }
        if !is_unicast4(gateway) || self.is_own4(gateway) {
            return Err(invalid("Nexthop has invalid gateway"));
        }
        Ok(dev)
    }

    /// Whether the local table has the address, of whatever interface (`inet_addr_type`).
    fn is_own4(&self, address: IpAddr) -> bool {
        match self.lookup_in(LOCAL, &Flow::to(address), Limits::default()) {
            Answer::Route(leg) => leg.route.kind != RouteKind::Unicast,
            Answer::Refused(_) | Answer::Nothing => false,
        }
    }

    /// A gateway must be on a link: by a route of the table itself, or by the rules.
    fn gateway4(&self, route: &Route, gateway: IpAddr, dev: u32) -> Result<u32, Refusal> {
        let no = |errno| refuse(errno, "Nexthop has invalid gateway");
        let mut flow = Flow::to(gateway);
        flow.oif = Some(dev).filter(|dev| *dev != 0);
        let scope = route.scope.saturating_add(1).max(SCOPE_LINK);
        let limits = Limits {
            scope,
            ..Limits::default()
        };
        let inside = match self.lookup_in(route.table, &flow, limits) {
            Answer::Route(leg) if route.table != MAIN => Some(leg),
            _ => None,
        };
        let leg = match inside {
            Some(leg) => leg,
            None => self.lookup_by_rules(&flow, limits).map_err(no)?.1,
        };
        if !matches!(number(leg.route.kind), libc::RTN_UNICAST | libc::RTN_LOCAL) {
            return Err(no(Errno::EINVAL));
        }
        let dev = leg.route.dev().ok_or_else(|| no(Errno::EINVAL))?;
        match self.links.get(dev) {
            Some(device) if device.link.up => Ok(dev),
            _ => Err(Errno::ENETDOWN.into()),
        }
    }
}

/// `fib_props` (net/ipv4/fib_semantics.c).
fn least_scope(kind: RouteKind) -> u8 {
    match number(kind) {
        libc::RTN_LOCAL => SCOPE_HOST,
        libc::RTN_BROADCAST | libc::RTN_ANYCAST => SCOPE_LINK,
        libc::RTN_UNSPEC | libc::RTN_NAT | libc::RTN_XRESOLVE => libc::RT_SCOPE_NOWHERE,
        _ => 0,
    }
}

fn is_unicast4(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.octets()[0] != 0 && !address.is_broadcast() && !address.is_multicast()
        }
        IpAddr::V6(_) => false,
    }
}
