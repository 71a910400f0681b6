use super::{Kind, Net, Protocol, RTPROT_BOOT, Table, prefix};
use crate::rtnl::wire;
use crate::{Family, Part, Route, RouteKind, SCOPE_LINK};
use nix::libc;
use std::fmt;

const MAIN: u32 = libc::RT_TABLE_MAIN as u32;

impl Route {
    /// The route as a line of `ip route show table all`, or of one leg what such a line says of it.
    /// `names` knows the interfaces' names; one that it does not know is called `if` and its index.
    pub fn display<N>(&self, names: N) -> RouteText<'_, N>
    where
        N: Fn(u32) -> Option<String>,
    {
        RouteText { route: self, names }
    }
}

/// A route that can be printed. [`Route::display`] makes it.
#[derive(Debug)]
pub struct RouteText<'a, N> {
    route: &'a Route,
    names: N,
}

impl<N: Fn(u32) -> Option<String>> fmt::Display for RouteText<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let route = self.route;
        let rest = |kind| route.rest.get(kind);
        match route.kind {
            RouteKind::Unicast => {}
            RouteKind::Unreachable => f.write_str("unreachable ")?,
            RouteKind::Other(kind) => write!(f, "{} ", Kind(kind))?,
        }
        match route.prefix.prefix_len() {
            0 => f.write_str("default")?,
            _ => write!(f, "{}", Net(&route.prefix))?,
        }
        if let Some(net) = rest(libc::RTA_SRC).and_then(prefix) {
            write!(f, " from {}", Net(&net))?;
        }
        if route.tos != 0 {
            write!(f, " tos {:#04x}", route.tos)?;
        }
        if let Some(hop) = &route.hop {
            if let Some(via) = hop.via {
                let other = Family::of(&via) != route.family();
                write!(f, " via {}{via}", if other { "inet6 " } else { "" })?;
            }
            match (self.names)(hop.dev) {
                Some(name) => write!(f, " dev {name}")?,
                None => write!(f, " dev if{}", hop.dev)?,
            }
        }
        if route.table != MAIN {
            write!(f, " table {}", Table(route.table))?;
        }
        if route.protocol != RTPROT_BOOT {
            write!(f, " proto {}", Protocol(route.protocol))?;
        }
        match route.scope {
            0 => {}
            SCOPE_LINK => f.write_str(" scope link")?,
            libc::RT_SCOPE_HOST => f.write_str(" scope host")?,
            other => write!(f, " scope {other}")?,
        }
        if let Some(Ok(source)) = rest(libc::RTA_PREFSRC).map(wire::read_address) {
            write!(f, " src {source}")?;
        }
        // In IPv6 every route has one.
        if route.metric != 0 || route.family() == Family::V6 {
            write!(f, " metric {}", route.metric)?;
        }
        if route.onlink {
            f.write_str(" onlink")?;
        }
        match route.hop {
            Some(hop) if route.part != Part::Whole => write!(f, " weight {}", hop.weight)?,
            _ => {}
        }
        let in_words = [libc::RTA_SRC, libc::RTA_PREFSRC];
        for (kind, _) in route
            .rest
            .iter()
            .filter(|(kind, _)| !in_words.contains(kind))
        {
            write!(f, " attr {kind}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hop;
    use ipnet::IpNet;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn text(route: &Route) -> String {
        route
            .display(|index| (index == 3).then(|| "nsm-0".to_owned()))
            .to_string()
    }

    #[test]
    fn a_route_of_a_policy_prints_as_ip_route_does() {
        let via = Some("172.16.1.254".parse().unwrap());

        let route = Route::unicast(20_000, net("0.0.0.0/0"), 3, via, 78);

        assert_eq!(
            text(&route),
            "default via 172.16.1.254 dev nsm-0 table 20000 proto 78 onlink"
        );
    }

    #[test]
    fn an_interface_without_a_name_is_called_by_its_index() {
        let route = Route::unicast(254, net("10.0.0.1/32"), 7, None, 4);

        assert_eq!(text(&route), "10.0.0.1 dev if7 proto static scope link");
    }

    #[test]
    fn a_route_that_refuses_says_so() {
        assert_eq!(
            text(&Route::unreachable(20_000, net("::/0"), 78)),
            "unreachable default table 20000 proto 78 metric 4294967295"
        );
    }

    #[test]
    fn a_leg_tells_its_share() {
        let via = Some("fd00::1".parse().unwrap());
        let mut leg = Route::unicast(20_000, net("fd09::/48"), 3, via, 78);
        leg.part = Part::Further;
        leg.hop = Some(Hop {
            dev: 3,
            via,
            weight: 2,
        });

        assert_eq!(
            text(&leg),
            "fd09::/48 via fd00::1 dev nsm-0 table 20000 proto 78 metric 1024 onlink weight 2"
        );
    }
}
