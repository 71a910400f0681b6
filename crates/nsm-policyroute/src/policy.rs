//! From the API's policies to what is wanted: parsed once, validated whole before any write.

use crate::field::{address, optional, ports, prefix, protocol};
use ipnet::IpNet;
use nsm_api::connectioncontext::PolicyRoute;
use nsm_netlink::{Family, PortRange, PortRangeError, Selector};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use thiserror::Error;

/// One selector and the routes that its traffic takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// What is selected: the identity of the policy.
    pub selector: Selector,
    /// The next hop of each prefix, `None` on-link: the content of its table. Never empty.
    pub routes: BTreeMap<IpNet, Option<IpAddr>>,
    /// The index of the policy in the connection, for messages.
    pub index: usize,
}

/// What [`parse`] holds the policies against.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most policies.
    pub policies: usize,
    /// The most routes of all policies in sum.
    pub routes: usize,
    /// Whether each `from` must lie within the connection's source addresses.
    pub strict: bool,
}

impl Limits {
    /// What holds where nothing else is configured.
    pub const DEFAULT: Self = Self {
        policies: 1024,
        routes: 4096,
        strict: false,
    };
}

/// A policy that is refused. The kernel has not been touched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("policy {index}: {field}")]
pub struct PolicyError {
    /// The index of the policy in the connection's list.
    pub index: usize,
    /// The field, spelled as in a policy file: `from`, `proto`, `dstport`, `routes[0].nexthop`.
    pub field: String,
    /// What is wrong with it.
    #[source]
    pub reason: Reason,
}

/// What is wrong with a field of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// Neither an address nor a prefix.
    #[error("{0:?} is neither an address nor a prefix")]
    NotAPrefix(String),
    /// Not an address.
    #[error("{0:?} is not an address")]
    NotAnAddress(String),
    /// An IPv4 address in IPv6 clothes never matches a packet.
    #[error("{0} is an IPv4 address written as an IPv6 one: write it as IPv4")]
    MappedAddress(IpAddr),
    /// The unspecified address as the only one of a prefix: no packet has it.
    #[error("{0} is the address of nobody: write {0}/0 for all")]
    Nobody(IpAddr),
    /// Neither a protocol number nor a name.
    #[error("{0:?} is no protocol: give a number from 1 to 255 or an IANA name such as tcp")]
    NotAProtocol(String),
    /// Not a port or a range of ports.
    #[error("{0:?} is neither a port nor a range such as 6667-6670")]
    NotAPort(String),
    /// Ports that the kernel refuses.
    #[error("{text:?}: {reason}")]
    Ports {
        /// As it was given.
        text: String,
        /// What is wrong.
        reason: PortRangeError,
    },
    /// A family other than the policy's.
    #[error("{found} is {}, the policy is {expected}", Family::of(.found))]
    OtherFamily {
        /// The address at fault.
        found: IpAddr,
        /// The family of the policy.
        expected: Family,
    },
    /// One prefix, two next hops.
    #[error("{prefix} has another next hop already (policy {other})")]
    TwoNextHops {
        /// The prefix.
        prefix: IpNet,
        /// The policy that gives the first next hop.
        other: usize,
    },
    /// Neither `from` nor routes nor source addresses tell the family.
    #[error("no family: the policy has no from and no routes, the connection no source address")]
    NoFamily,
    /// Nothing is selected, and there is no source address to select instead.
    #[error("nothing is selected, and the connection has no {0} source address to select")]
    NoSource(Family),
    /// Outside the connection's source addresses, which `strict` requires.
    #[error("{0} is no source address of the connection")]
    NotOurSource(IpNet),
    /// More than the limit.
    #[error("{count} are more than the limit of {limit}")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
}

/// Reads a connection's policies. `sources` are the addresses that NSM put on the interface; those
/// that do not parse count as absent. Policies of one selector become one want with the union of
/// their routes. The order of the list is kept.
///
/// # Errors
/// The first policy and field that is wrong.
pub fn parse(
    policies: &[PolicyRoute],
    sources: &[String],
    limits: &Limits,
) -> Result<Vec<Want>, PolicyError> {
    if policies.len() > limits.policies {
        return Err(PolicyError {
            index: limits.policies,
            field: "policies".to_owned(),
            reason: too_many(policies.len(), limits.policies),
        });
    }
    let mut reader = Reader::new(sources, limits);
    let mut wants = Wants::default();
    for (index, policy) in policies.iter().enumerate() {
        let at = |(field, reason)| PolicyError {
            index,
            field,
            reason,
        };
        for (selector, routes) in reader.read(policy).map_err(at)? {
            wants.add(index, selector, routes).map_err(at)?;
        }
    }
    Ok(wants.list)
}

/// Reads what of a connection's policies can be read and lies within the limits, each for itself.
pub fn readable(policies: &[PolicyRoute], sources: &[String], limits: &Limits) -> Vec<Want> {
    let mut reader = Reader::new(sources, limits);
    let policies = policies.iter().take(limits.policies).enumerate();
    let read = policies.flat_map(|(index, policy)| {
        let selected = reader.read(policy).unwrap_or_default().into_iter();
        selected.map(move |(selector, routes)| Want {
            selector,
            routes: routes.iter().map(|(_, to, via)| (*to, *via)).collect(),
            index,
        })
    });
    read.collect()
}

/// Reads the policies of one connection, one after the other.
struct Reader<'a> {
    sources: Vec<IpNet>,
    limits: &'a Limits,
    /// How many routes there are so far.
    routes: usize,
}

impl<'a> Reader<'a> {
    fn new(sources: &[String], limits: &'a Limits) -> Self {
        let sources = sources.iter().filter_map(|text| prefix(text).ok());
        Self {
            sources: sources.collect(),
            limits,
            routes: 0,
        }
    }

    /// The selectors that a policy stands for, each with its routes.
    fn read(&mut self, policy: &PolicyRoute) -> Result<Vec<(Selector, Routes)>, FieldError> {
        let policy = Policy::read(policy)?;
        if let (Some(from), true) = (policy.from, self.limits.strict)
            && !self.sources.iter().any(|it| it.trunc().contains(&from))
        {
            return Err(("from".to_owned(), Reason::NotOurSource(from)));
        }
        let selectors = policy.selectors(&self.sources)?;
        for family in Family::ALL {
            let of_family = selectors.iter().filter(|it| it.family == family);
            let (count, limit) = (of_family.count(), self.limits.policies);
            if count > limit {
                return Err(("from".to_owned(), too_many(count, limit)));
            }
        }
        // Counted before they are copied for each selector.
        let routes = self.routes + policy.routes.len() * selectors.len();
        if routes > self.limits.routes {
            return Err(("routes".to_owned(), too_many(routes, self.limits.routes)));
        }
        self.routes = routes;
        let selected = selectors.into_iter().map(|selector| {
            let routes = policy.routes_of(selector.family);
            (selector, routes)
        });
        Ok(selected.collect())
    }
}

fn too_many(count: usize, limit: usize) -> Reason {
    Reason::TooMany { count, limit }
}

type FieldError = (String, Reason);

/// A policy as it is written, each field for itself.
struct Policy {
    /// The family that `from` tells, even if its length is 0.
    from_family: Option<Family>,
    from: Option<IpNet>,
    proto: Option<u8>,
    sport: Option<PortRange>,
    dport: Option<PortRange>,
    routes: Vec<(IpNet, Option<IpAddr>)>,
}

impl Policy {
    fn read(policy: &PolicyRoute) -> Result<Self, FieldError> {
        let field = |name: &str| {
            let name = name.to_owned();
            move |reason| (name, reason)
        };
        let from = optional(&policy.from, prefix).map_err(field("from"))?;
        let mut routes = Vec::with_capacity(policy.routes.len());
        for (i, route) in policy.routes.iter().enumerate() {
            let to = prefix(&route.prefix)
                .map_err(field(&format!("routes[{i}].prefix")))?
                .trunc();
            let nexthop = format!("routes[{i}].nexthop");
            let via = optional(&route.next_hop, address).map_err(field(&nexthop))?;
            if let Some(found) = via
                && Family::of(&found) != Family::of_net(&to)
            {
                let expected = Family::of_net(&to);
                return Err((nexthop, Reason::OtherFamily { found, expected }));
            }
            routes.push((to, via.filter(|address| !address.is_unspecified())));
        }
        Ok(Self {
            from_family: from.map(|net| Family::of_net(&net)),
            from: from
                .map(|net| net.trunc())
                .filter(|net| net.prefix_len() > 0),
            proto: optional(&policy.proto, protocol).map_err(field("proto"))?,
            sport: optional(&policy.src_port, ports).map_err(field("srcport"))?,
            dport: optional(&policy.dst_port, ports).map_err(field("dstport"))?,
            routes,
        })
    }

    /// The selectors that the policy stands for.
    fn selectors(&self, sources: &[IpNet]) -> Result<Vec<Selector>, FieldError> {
        let families = self.families(sources)?;
        let mut selectors = Vec::new();
        for &family in &families {
            let selector = Selector {
                family,
                from: self.from,
                proto: self.proto,
                sport: self.sport,
                dport: self.dport,
            };
            if selector != Selector::any(family) {
                selectors.push(selector);
                continue;
            }
            // A rule without any selector would take the whole traffic of the pod, other
            // interfaces' included. The API means the addresses that NSM put on this one.
            let hosts: BTreeSet<IpAddr> = sources
                .iter()
                .map(IpNet::addr)
                .filter(|address| Family::of(address) == family)
                .collect();
            if hosts.is_empty() && families.len() == 1 {
                return Err(("from".to_owned(), Reason::NoSource(family)));
            }
            selectors.extend(hosts.into_iter().map(|host| Selector {
                from: Some(IpNet::from(host)),
                ..selector.clone()
            }));
        }
        Ok(selectors)
    }

    /// The routes that its traffic of a family takes.
    fn routes_of(&self, family: Family) -> Routes {
        if self.routes.is_empty() {
            return vec![(0, family.default_prefix(), None)];
        }
        let routes = self.routes.iter().enumerate();
        routes.map(|(i, (to, via))| (i, *to, *via)).collect()
    }

    /// The family of `from`, else of the routes, else each family of the source addresses.
    fn families(&self, sources: &[IpNet]) -> Result<Vec<Family>, FieldError> {
        let first_route = self.routes.first().map(|(to, _)| Family::of_net(to));
        if let Some(expected) = self.from_family.or(first_route) {
            for (i, (to, _)) in self.routes.iter().enumerate() {
                if Family::of_net(to) != expected {
                    let reason = Reason::OtherFamily {
                        found: to.addr(),
                        expected,
                    };
                    return Err((format!("routes[{i}].prefix"), reason));
                }
            }
            return Ok(vec![expected]);
        }
        let families: Vec<Family> = Family::ALL
            .into_iter()
            .filter(|family| {
                sources
                    .iter()
                    .any(|source| Family::of_net(source) == *family)
            })
            .collect();
        if families.is_empty() {
            return Err(("from".to_owned(), Reason::NoFamily));
        }
        Ok(families)
    }
}

/// The routes of one policy: index in its list, prefix, next hop.
type Routes = Vec<(usize, IpNet, Option<IpAddr>)>;

/// The wants so far, and which policy gave each prefix its next hop.
#[derive(Default)]
struct Wants {
    list: Vec<Want>,
    by_selector: BTreeMap<Selector, usize>,
    given_by: BTreeMap<(usize, IpNet), usize>,
}

impl Wants {
    fn add(&mut self, index: usize, selector: Selector, routes: Routes) -> Result<(), FieldError> {
        let at = *self.by_selector.entry(selector.clone()).or_insert_with(|| {
            self.list.push(Want {
                selector,
                routes: BTreeMap::new(),
                index,
            });
            self.list.len() - 1
        });
        for (i, prefix, via) in routes {
            let known = self.list[at].routes.insert(prefix, via);
            let other = *self.given_by.entry((at, prefix)).or_insert(index);
            if known.is_some_and(|known| known != via) {
                let reason = Reason::TwoNextHops { prefix, other };
                return Err((format!("routes[{i}].nexthop"), reason));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
