//! What policies want, read from the contract alone: the yardstick that the element is held to. It
//! shares no code with the element, so that a misreading there is not repeated here.

use crate::model::{NamedSelector, PolicyText, prefix};
use ipnet::IpNet;
use nsm_netlink::{Family, Selector};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The routes that a policy's traffic takes: prefix and next hop, `None` on-link.
pub type Routes = BTreeSet<(IpNet, Option<IpAddr>)>;

/// The distinct selectors that a connection's policies stand for, each with its routes.
///
/// # Errors
/// When a policy makes no sense, so that nothing can be said about what must stand.
pub fn wanted(
    policies: &[PolicyText],
    sources: &[String],
) -> Result<BTreeMap<Selector, Routes>, String> {
    let sources: Vec<IpNet> = sources
        .iter()
        .filter_map(|text| prefix(text).ok())
        .collect();
    let mut wanted: BTreeMap<Selector, Routes> = BTreeMap::new();
    for (index, policy) in policies.iter().enumerate() {
        let selected =
            selected(policy, &sources).map_err(|error| format!("policy {index}: {error}"))?;
        for (selector, routes) in selected {
            wanted.entry(selector).or_default().extend(routes);
        }
    }
    Ok(wanted)
}

/// What one policy stands for: a rule in each of its families, or one for each source address in
/// place of a rule that would take the whole traffic of the pod.
fn selected(policy: &PolicyText, sources: &[IpNet]) -> Result<Vec<(Selector, Routes)>, String> {
    let named = NamedSelector::read(
        &policy.from,
        &policy.proto,
        &policy.dstport,
        &policy.srcport,
    )?;
    let routes = policy
        .routes
        .iter()
        .map(|route| Ok((prefix(&route.prefix)?.trunc(), next_hop(&route.nexthop)?)))
        .collect::<Result<Routes, String>>()?;
    let family = named
        .family
        .or(routes.first().map(|(to, _)| Family::of_net(to)));
    let has_family = |family: &Family| {
        sources
            .iter()
            .any(|source| Family::of_net(source) == *family)
    };
    let families: Vec<Family> = match family {
        Some(family) => vec![family],
        None => Family::ALL.into_iter().filter(has_family).collect(),
    };
    let mut selected = Vec::new();
    for family in families {
        let routes = if routes.is_empty() {
            Routes::from([(family.default_prefix(), None)])
        } else {
            routes.clone()
        };
        if named.is_any() {
            let hosts = sources
                .iter()
                .map(IpNet::addr)
                .filter(|host| Family::of(host) == family);
            selected.extend(hosts.map(|host| {
                (
                    named.clone().with_source(host).in_family(family),
                    routes.clone(),
                )
            }));
        } else {
            selected.push((named.in_family(family), routes));
        }
    }
    Ok(selected)
}

fn next_hop(text: &str) -> Result<Option<IpAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let address: IpAddr = text
        .parse()
        .map_err(|_| format!("{text:?} is no address"))?;
    Ok((!address.is_unspecified()).then_some(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(yaml: &str) -> PolicyText {
        serde_saphyr::from_str(yaml).unwrap()
    }

    fn lines(policies: &[&str], sources: &[&str]) -> Vec<String> {
        let policies: Vec<PolicyText> = policies.iter().map(|yaml| policy(yaml)).collect();
        let sources: Vec<String> = sources.iter().map(|&text| text.to_owned()).collect();
        let line = |(selector, routes): (Selector, Routes)| {
            let routes: Vec<String> = routes
                .into_iter()
                .map(|(to, via)| format!("{to} via {}", via.map_or("-".into(), |v| v.to_string())))
                .collect();
            format!("{}: {selector}: {}", selector.family, routes.join(", "))
        };
        wanted(&policies, &sources)
            .unwrap()
            .into_iter()
            .map(line)
            .collect()
    }

    #[test]
    fn a_policy_without_routes_wants_the_default_route_of_its_family() {
        assert_eq!(
            lines(&["from: 10.1.0.1/32", "from: '2001:db8::1'"], &[]),
            [
                "IPv4: from 10.1.0.1: 0.0.0.0/0 via -",
                "IPv6: from 2001:db8::1: ::/0 via -",
            ]
        );
    }

    #[test]
    fn a_policy_without_source_and_routes_is_one_rule_in_each_family_of_the_connection() {
        let udp = "{ proto: udp, dstport: 6666 }";
        assert_eq!(
            lines(&[udp], &["172.16.1.101/32", "2004::3/120"]),
            [
                "IPv4: from all ipproto udp dport 6666: 0.0.0.0/0 via -",
                "IPv6: from all ipproto udp dport 6666: ::/0 via -",
            ]
        );
        assert_eq!(lines(&[udp], &["2004::3/120"]).len(), 1);
    }

    #[test]
    fn a_policy_without_any_selector_is_one_rule_per_source_address() {
        assert_eq!(
            lines(
                &["{}", "from: 0.0.0.0/0"],
                &["172.16.1.101/24", "2004::3/120"]
            ),
            [
                "IPv4: from 172.16.1.101: 0.0.0.0/0 via -",
                "IPv6: from 2004::3: ::/0 via -",
            ]
        );
    }

    #[test]
    fn policies_of_one_selector_are_one_with_the_union_of_their_routes() {
        let a = "{ from: 10.1.0.7/24, routes: [ { prefix: 10.9.0.1/16, nexthop: 0.0.0.0 } ] }";
        let b = "{ from: 10.1.0.0/24, routes: [ { prefix: 0.0.0.0/0, nexthop: 172.16.1.1 } ] }";
        assert_eq!(
            lines(&[a, b], &[]),
            ["IPv4: from 10.1.0.0/24: 0.0.0.0/0 via 172.16.1.1, 10.9.0.0/16 via -"]
        );
    }
}
