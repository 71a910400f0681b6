//! What policies mean, read from the contract alone. Nothing here is shared with the element.

use crate::content::{Content, Pick, PolicyText, SELECTORS};
use crate::small_world::BAND;
use ipnet::IpNet;
use nsm_netlink::{Family, PortRange, Selector};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The next hop of each prefix, `None` on-link.
pub type Routes = BTreeMap<IpNet, Option<IpAddr>>;

/// A selector and what its traffic is to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The identity of the policy.
    pub selector: Selector,
    /// Its content.
    pub routes: Routes,
}

/// Two policies of one selector want one prefix by different next hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contradiction;

/// What the policies of a connection stand for, in list order.
///
/// # Errors
/// When the policies contradict each other.
pub fn wants(content: &Content) -> Result<Vec<Want>, Contradiction> {
    let sources: Vec<IpNet> = content
        .source_addresses()
        .iter()
        .map(|text| net(text))
        .collect();
    let mut wants: Vec<Want> = Vec::new();
    for policy in content.policies() {
        for (selector, routes) in meaning(&policy, &sources) {
            let at = wants.iter().position(|want| want.selector == selector);
            let at = at.unwrap_or_else(|| {
                wants.push(Want {
                    selector,
                    routes: Routes::new(),
                });
                wants.len() - 1
            });
            for (prefix, via) in routes {
                let known = wants[at].routes.insert(prefix, via);
                if known.is_some_and(|known| known != via) {
                    return Err(Contradiction);
                }
            }
        }
    }
    Ok(wants)
}

/// One policy: a rule in each of its families, or one for each source address in place of a rule
/// that would take the pod's whole traffic.
fn meaning(policy: &PolicyText, sources: &[IpNet]) -> Vec<(Selector, Routes)> {
    let from = (!policy.from.is_empty()).then(|| net(&policy.from));
    let routes: Routes = policy
        .routes
        .iter()
        .map(|(prefix, next_hop)| (net(prefix), next_hop.parse().ok()))
        .collect();
    let told = from
        .or(routes.keys().next().copied())
        .map(|net| Family::of_net(&net));
    let mut meaning = Vec::new();
    for family in Family::ALL {
        let has_source = || {
            sources
                .iter()
                .any(|source| Family::of_net(source) == family)
        };
        if told.map_or_else(|| !has_source(), |told| told != family) {
            continue;
        }
        let routes = match routes.is_empty() {
            true => Routes::from([(family.default_prefix(), None)]),
            false => routes.clone(),
        };
        let selector = Selector {
            family,
            from,
            proto: protocol(&policy.proto),
            sport: None,
            dport: ports(&policy.dstport),
        };
        if selector != Selector::any(family) {
            meaning.push((selector, routes));
            continue;
        }
        let hosts = sources
            .iter()
            .filter(|source| Family::of_net(source) == family);
        meaning.extend(hosts.map(|host| {
            let from = Some(IpNet::from(host.addr()));
            (
                Selector {
                    from,
                    ..selector.clone()
                },
                routes.clone(),
            )
        }));
    }
    meaning
}

/// Where a rule stands: narrower first. 30000 + 18 x (128 - length of from, 0 without) + 9 x (no
/// protocol) + 3 x s + d, with 0 for a single port, 1 for a range, 2 for none.
pub fn priority(selector: &Selector) -> u32 {
    let length = selector.from.map_or(0, |from| u32::from(from.prefix_len()));
    let class = |ports: Option<PortRange>| match ports {
        Some(ports) if ports.start() == ports.end() => 0,
        Some(_) => 1,
        None => 2,
    };
    BAND + 18 * (128 - length)
        + if selector.proto.is_none() { 9 } else { 0 }
        + 3 * class(selector.sport)
        + class(selector.dport)
}

/// The highest priority there is: a selector without any field.
pub fn last_priority() -> u32 {
    priority(&Selector::any(Family::V4))
}

/// The same policy in the other family, which shares its table id: only without a `from` is there
/// one.
pub fn in_other_family(selector: &Selector) -> Option<Selector> {
    let family = match selector.family {
        Family::V4 => Family::V6,
        Family::V6 => Family::V4,
    };
    selector.from.is_none().then(|| Selector {
        family,
        ..selector.clone()
    })
}

fn net(text: &str) -> IpNet {
    let net = text
        .parse()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    net.map(|net: IpNet| net.trunc())
        .unwrap_or_else(|_| Family::V4.default_prefix())
}

fn protocol(text: &str) -> Option<u8> {
    match text {
        "tcp" => Some(6),
        text => text.parse().ok(),
    }
}

fn ports(text: &str) -> Option<PortRange> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    PortRange::new(first.parse().ok()?, last.parse().ok()?).ok()
}

/// All selectors that policies of the small world may stand for.
pub fn possible() -> Vec<Selector> {
    let pick = |selector| Pick {
        selector,
        family: Family::V4,
        default: None,
        narrow: None,
    };
    let policies = (0..SELECTORS.len()).map(pick).collect();
    let content = Content {
        link: 0,
        sources: &Family::ALL,
        policies,
    };
    let wants = wants(&content).unwrap_or_default();
    wants.into_iter().map(|want| want.selector).collect()
}
