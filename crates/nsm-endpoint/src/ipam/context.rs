//! Addresses in a connection's IP context: what a request brings, and what it gets.

use std::net::IpAddr;

use ipnet::IpNet;
use nsm_api::connectioncontext::{IpContext, Route};
use nsm_api::parse_net;
use thiserror::Error;

use super::pool::{Asked, Pair};
use super::prefixes::CidrGroups;
use super::{IpamPolicy, ranges::Ranges};
use crate::host::host_route;

/// A prefix to be excluded that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the request excludes {0:?}, which is neither an address nor a prefix")]
pub(super) struct NotAPrefix(String);

/// What a request brings.
pub(super) fn asked(ip: &IpContext) -> Result<Asked, NotAPrefix> {
    let mut excluded = Ranges::default();
    for text in &ip.excluded_prefixes {
        let prefix = parse_net(text).ok_or_else(|| NotAPrefix(text.clone()))?;
        excluded.insert_net(&prefix.trunc());
    }
    // An assigned address has a route towards it. One that a policy brought has none.
    let (assigned, other): (Vec<IpAddr>, Vec<IpAddr>) =
        addresses(&ip.src_ip_addrs).partition(|address| has_route(&ip.dst_routes, *address));
    let by_policy: Vec<IpAddr> = ip
        .policies
        .iter()
        .filter_map(|policy| parse_net(&policy.from))
        .map(|net| net.addr())
        .collect();
    let own = other
        .into_iter()
        .filter(|address| !by_policy.contains(address));
    Ok(Asked {
        src: assigned.into_iter().chain(own).collect(),
        dst: addresses(&ip.dst_ip_addrs).collect(),
        excluded,
    })
}

/// Makes the context that of the pairs.
///
/// An address of our prefixes that the connection was not given is somebody else's, or free to
/// become so: it goes in any case, as does the route to it. What is not of our prefixes stays or
/// goes as the policy says.
pub(super) fn assign(ip: &mut IpContext, pairs: &[Pair], ours: &CidrGroups, policy: IpamPolicy) {
    let judge = Judge { ours, policy };
    let src: Vec<IpAddr> = pairs.iter().map(|pair| pair.src).collect();
    let dst: Vec<IpAddr> = pairs.iter().map(|pair| pair.dst).collect();

    judge.addresses(&mut ip.src_ip_addrs, &src);
    judge.addresses(&mut ip.dst_ip_addrs, &dst);
    // The client's routes lead to the endpoint's addresses, and the other way round.
    judge.routes(&mut ip.src_routes, &dst);
    judge.routes(&mut ip.dst_routes, &src);
    if policy == IpamPolicy::Strict {
        let is_ours = |text: &str| parse_net(text).is_some_and(|net| ours.contains(net.addr()));
        ip.ip_neighbors.retain(|neighbour| is_ours(&neighbour.ip));
    }
}

struct Judge<'a> {
    ours: &'a CidrGroups,
    policy: IpamPolicy,
}

impl Judge<'_> {
    fn addresses(&self, list: &mut Vec<String>, given: &[IpAddr]) {
        let given: Vec<String> = given.iter().copied().map(host_route).collect();
        let mut seen = Vec::new();
        list.retain(|text| match parse_net(text) {
            Some(net) if self.ours.contains(net.addr()) => {
                let first = given.contains(text) && !seen.contains(text);
                seen.push(text.clone());
                first
            }
            Some(_) | None => self.policy == IpamPolicy::Polite,
        });
        for address in given {
            if !list.contains(&address) {
                list.push(address);
            }
        }
    }

    fn routes(&self, list: &mut Vec<Route>, given: &[IpAddr]) {
        let mut seen = Vec::new();
        list.retain(|route| match parse_net(&route.prefix) {
            Some(net) if is_host(&net) && self.ours.contains(net.addr()) => {
                let first = given.contains(&net.addr()) && !seen.contains(&net);
                seen.push(net);
                first
            }
            Some(net) if self.ours.contains_net(&net) => true,
            Some(_) | None => self.policy == IpamPolicy::Polite,
        });
        for address in given {
            if !has_route(list, *address) {
                list.push(Route {
                    prefix: host_route(*address),
                    ..Route::default()
                });
            }
        }
    }
}

fn addresses(list: &[String]) -> impl Iterator<Item = IpAddr> {
    list.iter()
        .filter_map(|text| parse_net(text))
        .map(|net| net.addr())
}

/// Whether one of the routes leads to exactly this address.
pub(crate) fn has_route(routes: &[Route], address: IpAddr) -> bool {
    routes
        .iter()
        .any(|route| parse_net(&route.prefix) == Some(IpNet::from(address)))
}

fn is_host(net: &IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
}

#[cfg(test)]
mod tests {
    use nsm_api::connectioncontext::{IpNeighbor, PolicyRoute};

    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    fn routes(list: &[&str]) -> Vec<Route> {
        let route = |text: &&str| Route {
            prefix: (*text).to_owned(),
            ..Route::default()
        };
        list.iter().map(route).collect()
    }

    fn prefixes(list: &[Route]) -> Vec<&str> {
        list.iter().map(|route| route.prefix.as_str()).collect()
    }

    fn ips(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// What a client brings that has been with another endpoint, with us, and has addresses of
    /// its own.
    fn travelled() -> IpContext {
        IpContext {
            src_ip_addrs: texts(&["192.168.7.1/24", "10.0.0.9/32", "10.0.0.1/24", "nonsense"]),
            dst_ip_addrs: texts(&["192.168.7.2/32", "10.0.0.8/32"]),
            src_routes: routes(&["192.168.7.2/32", "10.0.0.8/32", "10.0.0.0/25", "0.0.0.0/0"]),
            dst_routes: routes(&["192.168.7.1/32", "10.0.0.9/32"]),
            ip_neighbors: vec![
                IpNeighbor {
                    ip: "192.168.7.2".to_owned(),
                    ..IpNeighbor::default()
                },
                IpNeighbor {
                    ip: "10.0.0.0".to_owned(),
                    ..IpNeighbor::default()
                },
            ],
            ..IpContext::default()
        }
    }

    fn assigned(policy: IpamPolicy) -> IpContext {
        let pair = Pair {
            dst: "10.0.0.0".parse().unwrap(),
            src: "10.0.0.1".parse().unwrap(),
        };
        let mut ip = travelled();
        assign(&mut ip, &[pair], &"10.0.0.0/24".parse().unwrap(), policy);
        let once = ip.clone();
        assign(&mut ip, &[pair], &"10.0.0.0/24".parse().unwrap(), policy);
        assert_eq!(ip, once, "the second time changes nothing");
        ip
    }

    #[test]
    fn polite_keeps_what_is_foreign_and_drops_what_others_may_get() {
        let ip = assigned(IpamPolicy::Polite);

        assert_eq!(
            ip.src_ip_addrs,
            ["192.168.7.1/24", "nonsense", "10.0.0.1/32"]
        );
        assert_eq!(ip.dst_ip_addrs, ["192.168.7.2/32", "10.0.0.0/32"]);
        assert_eq!(
            prefixes(&ip.src_routes),
            ["192.168.7.2/32", "10.0.0.0/25", "0.0.0.0/0", "10.0.0.0/32"]
        );
        assert_eq!(prefixes(&ip.dst_routes), ["192.168.7.1/32", "10.0.0.1/32"]);
        assert_eq!(ip.ip_neighbors.len(), 2);
    }

    #[test]
    fn strict_drops_what_is_not_of_the_endpoints_prefixes() {
        let ip = assigned(IpamPolicy::Strict);

        assert_eq!(ip.src_ip_addrs, ["10.0.0.1/32"]);
        assert_eq!(ip.dst_ip_addrs, ["10.0.0.0/32"]);
        assert_eq!(prefixes(&ip.src_routes), ["10.0.0.0/25", "10.0.0.0/32"]);
        assert_eq!(prefixes(&ip.dst_routes), ["10.0.0.1/32"]);
        assert_eq!(ip.ip_neighbors.len(), 1);
    }

    #[test]
    fn an_address_that_was_assigned_comes_before_one_that_was_not() {
        let ip = IpContext {
            src_ip_addrs: texts(&["10.0.0.7/32", "10.0.0.1/32", "10.0.0.50/32"]),
            dst_routes: routes(&["10.0.0.1/32"]),
            policies: vec![PolicyRoute {
                from: "10.0.0.50".to_owned(),
                ..PolicyRoute::default()
            }],
            ..IpContext::default()
        };

        // The last one is there for a policy's sake.
        assert_eq!(asked(&ip).unwrap().src, ips(&["10.0.0.1", "10.0.0.7"]));
    }

    #[test]
    fn a_prefix_to_be_excluded_may_be_an_address_and_must_be_one_or_the_other() {
        let excluding = |list: &[&str]| IpContext {
            excluded_prefixes: texts(list),
            ..IpContext::default()
        };
        let excluded = asked(&excluding(&["10.0.0.5/30", "fd00::1"]))
            .unwrap()
            .excluded;
        assert!(excluded.contains("10.0.0.7".parse().unwrap()));
        assert!(!excluded.contains("10.0.0.8".parse().unwrap()));
        assert!(excluded.contains("fd00::1".parse().unwrap()));

        assert!(asked(&excluding(&["010.0.0.0/24"])).is_err());
        let refusal = asked(&excluding(&["10.0.0.0/24", "ten"])).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the request excludes \"ten\", which is neither an address nor a prefix"
        );
    }
}
