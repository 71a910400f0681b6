//! What becomes of our rules and routes without us: what somebody deletes, and what a process that
//! was ended, or an older one, has left.

use nsm_netlink::{Route, Rule};
use policyroute_suite::{Machine, Pod};

/// A priority that no rule of ours has.
const WRONG: u32 = 300;
/// A table of ours that is free.
const FREE: u32 = 20900;

pub(crate) fn lose_rule<M: Machine>(pod: &Pod<M>, from: &str) {
    pod.delete_rule(&rule_of(pod, from));
}

pub(crate) fn lose_routes<M: Machine>(pod: &Pod<M>, from: &str) {
    for route in routes_of(pod, &rule_of(pod, from)) {
        pod.delete_route(&route);
    }
}

pub(crate) fn misplace<M: Machine>(pod: &Pod<M>, from: &str) {
    let rule = rule_of(pod, from);
    pod.add_rule(&Rule {
        priority: WRONG,
        ..rule.clone()
    });
    pod.delete_rule(&rule);
}

pub(crate) fn double<M: Machine>(pod: &Pod<M>, from: &str) {
    let rule = rule_of(pod, from);
    for route in routes_of(pod, &rule) {
        pod.add_route(&Route {
            table: FREE,
            ..route
        });
    }
    pod.add_rule(&Rule {
        table: FREE,
        ..rule
    });
}

pub(crate) fn share<M: Machine>(pod: &Pod<M>, from: &str, with: &str) {
    let (rule, with) = (rule_of(pod, from), rule_of(pod, with));
    pod.add_rule(&Rule {
        table: with.table,
        ..rule.clone()
    });
    pod.delete_rule(&rule);
    for route in routes_of(pod, &rule) {
        pod.delete_route(&route);
    }
}

pub(crate) fn foreign_leg<M: Machine>(pod: &Pod<M>, from: &str, via: &str) {
    let table = rule_of(pod, from).table;
    pod.append_route(&pod.foreign_default(table, "eth0", via));
}

fn rule_of<M: Machine>(pod: &Pod<M>, from: &str) -> Rule {
    let selector = format!("from {from}");
    let rules = pod.our_rules().into_iter();
    let mut rules = rules.filter(|rule| rule.selector.to_string() == selector);
    rules.next().unwrap()
}

fn routes_of<M: Machine>(pod: &Pod<M>, rule: &Rule) -> Vec<Route> {
    let routes = pod.our_routes().into_iter();
    routes
        .filter(|route| (route.family(), route.table) == (rule.family(), rule.table))
        .collect()
}
