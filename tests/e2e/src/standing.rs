//! What stands in a namespace.

use nsm_netlink::{Family, Kernel, Namespace, Netns, Rule};
use std::collections::BTreeMap;

/// The numbers of the programs begin here; below are the kernel's, the administrators' and those of
/// the routing daemons (rtnetlink(7), `RTPROT_*`, and the programs' defaults).
const OURS: u8 = 78;

/// All that programs of ours make in a namespace, as texts that are the same for an interface that
/// was made anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// The names of all interfaces but `lo`.
    pub interfaces: Vec<String>,
    /// The addresses on them that are no link-local ones.
    pub addresses: Vec<String>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// The routes.
    pub routes: Vec<String>,
}

impl Standing {
    /// Reads it.
    pub fn of(netns: &Netns) -> Self {
        let mut kernel = netns.open().unwrap();
        let links = kernel.links().unwrap().into_iter();
        let names: BTreeMap<_, _> = links.map(|link| (link.index, link.name)).collect();
        let name = |index: u32| names.get(&index).cloned();
        let mut standing = Self {
            interfaces: names.values().filter(|it| *it != "lo").cloned().collect(),
            ..Self::default()
        };
        for (index, net) in kernel.addresses().unwrap() {
            let on = name(index).unwrap_or_default();
            if on != "lo" && !net.to_string().starts_with("fe80:") {
                standing.addresses.push(format!("{net} on {on}"));
            }
        }
        for family in Family::ALL {
            let rules = kernel.rules(family).unwrap().items.into_iter();
            standing
                .rules
                .extend(rules.filter(|it| it.protocol >= OURS));
            let routes = kernel.routes(family, 0..=u32::MAX).unwrap().items;
            let routes = routes.iter().filter(|it| it.protocol >= OURS);
            let texts = routes.map(|route| route.display(name).to_string());
            standing.routes.extend(texts);
        }
        standing.interfaces.sort();
        standing.addresses.sort();
        standing.routes.sort();
        standing
    }

    /// Whether nothing stands.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The addresses on an interface.
    pub fn addresses_on(&self, interface: &str) -> Vec<&str> {
        let suffix = format!(" on {interface}");
        let on = |it: &'_ &String| it.ends_with(&suffix);
        let addresses = self.addresses.iter().filter(on);
        addresses
            .filter_map(|it| it.strip_suffix(&suffix))
            .collect()
    }
}
