//! What stands in the pod at one moment, and what it means for each policy.

use super::topology::{Interface, Policy, Topology};
use nsm_netlink::{Family, Kernel, KernelError, Namespace, Netns, Route, RouteKind, Rule};
use std::collections::BTreeMap;

/// All rules, routes and interfaces.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The rules, in the order in which they are asked.
    pub rules: Vec<Rule>,
    /// The routes of all tables.
    pub routes: Vec<Route>,
    /// The names of the interfaces.
    pub names: BTreeMap<u32, String>,
}

/// A rule of a policy, and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The rule.
    pub rule: Rule,
    /// The table's default routes, without the one that refuses what no other takes.
    pub route: String,
    /// Whether there is one that refuses what no other takes.
    pub guarded: bool,
    /// The interface that it should lead to, if it does not.
    pub astray: Option<String>,
}

impl State {
    /// Reads the namespace.
    pub fn read(netns: &Netns) -> Result<Self, KernelError> {
        let mut kernel = netns.open()?;
        let mut state = Self::default();
        for family in Family::ALL {
            state.rules.append(&mut kernel.rules(family)?.items);
            state
                .routes
                .append(&mut kernel.routes(family, 0..=u32::MAX)?.items);
        }
        state.names = kernel
            .links()?
            .into_iter()
            .map(|link| (link.index, link.name))
            .collect();
        Ok(state)
    }

    /// The rules of the policies and where they lead. `others` is what stood before the first of
    /// them.
    pub fn rows(&self, topology: &Topology, others: &State) -> Vec<Row> {
        let rules = self
            .rules
            .iter()
            .filter(|rule| !others.rules.contains(rule));
        rules
            .filter_map(|rule| {
                let mut policies = topology.policies.iter();
                let policy = policies.find(|policy| policy.selector() == rule.selector)?;
                Some(self.row(rule, policy, &topology.connections[policy.connection]))
            })
            .collect()
    }

    fn row(&self, rule: &Rule, policy: &Policy, interface: &Interface) -> Row {
        let defaults = self.routes.iter().filter(|route| {
            route.table == rule.table && route.prefix == policy.family().default_prefix()
        });
        let mut texts = Vec::new();
        let (mut first, mut guarded) = (None, false);
        for route in defaults {
            match (route.kind, route.hop) {
                (RouteKind::Unicast, Some(hop)) => {
                    let name = self.names.get(&hop.dev).map_or("?", String::as_str);
                    let via = hop.via.map(|via| format!(" via {via}")).unwrap_or_default();
                    texts.push(format!("default{via} dev {name}"));
                    first.get_or_insert((hop.via, name));
                }
                (RouteKind::Unreachable, _) => guarded = true,
                _ => {}
            }
        }
        if texts.is_empty() {
            texts.push(
                if guarded {
                    "unreachable default"
                } else {
                    "(empty)"
                }
                .to_owned(),
            );
        }
        let right = first == Some((Some(policy.gateway), interface.name.as_str()));
        Row {
            rule: rule.clone(),
            route: texts.join(", "),
            guarded,
            astray: (!right).then(|| interface.name.clone()),
        }
    }
}
