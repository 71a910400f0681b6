//! What stands in the pod: the rules of the policies, and where they lead.

use nsm_netlink::{Family, Kernel, KernelError, Namespace, Netns, Rule};
use std::collections::BTreeMap;

/// The number that marks the forwarder's rules and routes: its default.
pub const PROTOCOL: u8 = 78;

/// A rule of a policy, and the default route of its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The rule.
    pub rule: Rule,
    /// Where it leads.
    pub route: String,
}

/// Reads the rules of the policies.
pub fn read(pod: &Netns) -> Result<Vec<Row>, KernelError> {
    let mut kernel = pod.open()?;
    let names: BTreeMap<_, _> = kernel
        .links()?
        .into_iter()
        .map(|link| (link.index, link.name))
        .collect();
    let mut rows = Vec::new();
    for family in Family::ALL {
        let rules = kernel.rules(family)?.items;
        let routes = kernel.routes(family, 0..=u32::MAX)?.items;
        for rule in rules.into_iter().filter(|rule| rule.protocol == PROTOCOL) {
            let route = routes.iter().find(|route| route.table == rule.table);
            let route = route.and_then(|route| {
                let hop = route.hop?;
                let name = names.get(&hop.dev).map_or("?", String::as_str);
                let via = hop.via.map(|via| format!(" via {via}")).unwrap_or_default();
                Some(format!("default{via} dev {name}"))
            });
            let route = route.unwrap_or_else(|| "(empty)".to_owned());
            rows.push(Row { rule, route });
        }
    }
    Ok(rows)
}

/// The interfaces of the pod, besides its own network.
pub fn interfaces(pod: &Netns) -> Result<Vec<String>, KernelError> {
    let names = pod.open()?.links()?.into_iter().map(|link| link.name);
    Ok(names
        .filter(|name| !["lo", "eth0"].contains(&name.as_str()))
        .collect())
}
