//! What the kernel of a pod has, in words that are the same whoever made it.

use nsm_netlink::{Family, Kernel, Namespace, Netns, Route};
use std::collections::{BTreeMap, BTreeSet};

/// The kernel's own rules and routes (`RTPROT_KERNEL`, rtnetlink(7)).
const KERNEL: u8 = 2;
/// The table that everything is looked up in.
const MAIN: u32 = 254;

/// All that was made in a namespace. Which tables, priorities and marks it has is the matter of who
/// made it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stands {
    /// The names of all interfaces but `lo`.
    pub(super) interfaces: BTreeSet<String>,
    /// The addresses on them that are no link-local ones.
    pub(super) addresses: BTreeSet<String>,
    /// The routes that everybody takes.
    pub(super) routes: BTreeSet<String>,
    /// Each rule with the routes of its table, and how often it is there.
    pub(super) policies: BTreeMap<String, usize>,
}

impl Stands {
    /// Reads it.
    pub(super) fn of(netns: &Netns) -> Self {
        let mut kernel = netns.open().unwrap();
        let links = kernel.links().unwrap().into_iter();
        let names: BTreeMap<_, _> = links.map(|link| (link.index, link.name)).collect();
        let name = |index: u32| names.get(&index).cloned().unwrap_or_default();
        let mut stands = Self {
            interfaces: names.values().filter(|it| *it != "lo").cloned().collect(),
            ..Self::default()
        };
        for (index, net) in kernel.addresses().unwrap() {
            let on = name(index);
            if on != "lo" && !net.to_string().starts_with("fe80:") {
                stands.addresses.insert(format!("{net} on {on}"));
            }
        }
        for family in Family::ALL {
            let routes = kernel.routes(family, 0..=u32::MAX).unwrap().items;
            let made = routes.iter().filter(|it| it.protocol != KERNEL);
            let made: Vec<_> = made.map(|it| (it.table, text(it, name))).collect();
            let of = |table: u32| {
                let routes = made.iter().filter(move |(it, _)| *it == table);
                routes.map(|(_, text)| text.clone()).collect::<Vec<_>>()
            };
            stands.routes.extend(of(MAIN));
            for rule in kernel.rules(family).unwrap().items {
                if rule.protocol != KERNEL {
                    let way = of(rule.table).join(" and ");
                    let policy = format!("{}: {way}", rule.selector);
                    *stands.policies.entry(policy).or_default() += 1;
                }
            }
        }
        stands
    }

    /// Whether nothing stands.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn text(route: &Route, name: impl Fn(u32) -> String) -> String {
    let mut text = route.prefix.to_string();
    if let Some(hop) = &route.hop {
        if let Some(via) = hop.via {
            text += &format!(" via {via}");
        }
        text += &format!(" dev {}", name(hop.dev));
    }
    text
}
