//! A namespace of one kernel or the other, and what the rest of the world does to it.

mod fake;
mod real;

pub(crate) use real::Real;

use crate::objects::net;
use ipnet::IpNet;
use nsm_netlink::fake::{Flow, Way};
use nsm_netlink::{Errno, Event, Family, Kernel, Namespace, Op, Refusal, Route, Rule};

/// All tables.
pub(crate) const ALL: std::ops::RangeInclusive<u32> = 0..=u32::MAX;
/// `RTPROT_KERNEL`.
pub(crate) const KERNEL: u8 = 2;
/// The index of `lo`.
pub(crate) const LO: u32 = 1;
/// The index of the pod's first interface.
pub(crate) const V0: u32 = 2;
/// The index of the pod's second interface.
pub(crate) const V1: u32 = 3;

/// A namespace under test. What can't fail in a test panics.
pub(crate) trait World: Namespace + Sized {
    /// A new namespace with `lo` up, and nothing else.
    fn fresh() -> Self;

    /// Adds an interface that is down, and gives its index.
    fn add_link(&self, name: &str) -> u32;
    fn delete_link(&self, index: u32);
    fn set_up(&self, index: u32);
    fn set_down(&self, index: u32);
    /// The other end of the cable goes down.
    fn lose_carrier(&self, index: u32);
    fn rename(&self, index: u32, name: &str);
    fn set_ipv6(&self, index: u32, enabled: bool);
    fn add_address(&self, index: u32, address: IpNet);
    fn remove_address(&self, index: u32, address: IpNet);

    /// Adds a rule without a number. Says whether it could.
    fn add_rule_unnumbered(&self, rule: &Rule) -> bool;
    /// Adds all rules of a family once more, without `NLM_F_EXCL`.
    fn restore_rules(&self, family: Family);
    /// Adds a route in front of its equals. Says whether it could.
    fn prepend(&self, route: &Route) -> bool;
    /// Replaces the first of its equals by a route. Says whether it could.
    fn replace(&self, route: &Route) -> bool;
    /// Adds one route of several legs. Says whether it could.
    fn add_multipath(&self, legs: &[Route]) -> bool;

    /// Which way a packet goes.
    fn lookup(&self, flow: &Flow) -> Result<Way, Errno>;
    /// The notifications since the last call.
    fn events(&self) -> Vec<Event>;

    /// A namespace with the interfaces `v0` and `v1`, up, each with a network of its own.
    fn pod() -> Self {
        let pod = Self::fresh();
        for (n, name) in [(1, "v0"), (2, "v1")] {
            let index = pod.add_link(name);
            assert_eq!(index, LO + n, "indexes are counted");
            pod.set_up(index);
            for family in Family::ALL {
                pod.add_address(index, own(family, n));
            }
        }
        pod.events();
        pod
    }

    fn kernel(&self) -> Self::Kernel {
        self.open()
            .unwrap_or_else(|error| panic!("the namespace opens: {error}"))
    }

    /// Does one operation.
    fn try_do(&self, op: Op) -> Result<(), Refusal> {
        let outcomes = self.kernel().execute(&[op]);
        outcomes
            .unwrap_or_else(|error| panic!("the kernel answers: {error}"))
            .remove(0)
    }

    /// Does operations one by one, and they succeed.
    #[track_caller]
    fn must(&self, ops: impl IntoIterator<Item = Op>) {
        for op in ops {
            let shown = op.to_string();
            if let Err(refusal) = self.try_do(op) {
                panic!("{shown}: {refusal}");
            }
        }
    }

    /// The number of the kernel's no to one operation.
    #[track_caller]
    fn errno(&self, op: Op) -> Errno {
        let shown = op.to_string();
        match self.try_do(op) {
            Ok(()) => panic!("{shown}: succeeds"),
            Err(refusal) => refusal.errno,
        }
    }

    fn all_rules(&self, family: Family) -> Vec<Rule> {
        let dump = self.kernel().rules(family);
        dump.unwrap_or_else(|error| panic!("rules are dumped: {error}"))
            .items
    }

    /// The rules that the kernel did not make itself.
    fn made_rules(&self, family: Family) -> Vec<Rule> {
        self.all_rules(family)
            .into_iter()
            .filter(|rule| rule.protocol != KERNEL)
            .collect()
    }

    fn all_routes(&self, family: Family) -> Vec<Route> {
        let dump = self.kernel().routes(family, ALL);
        dump.unwrap_or_else(|error| panic!("routes are dumped: {error}"))
            .items
    }

    /// The routes that the kernel did not make itself.
    fn made_routes(&self, family: Family) -> Vec<Route> {
        self.all_routes(family)
            .into_iter()
            .filter(|route| route.protocol != KERNEL)
            .collect()
    }
}

/// The address of the pod's `n`th interface.
pub(crate) fn own(family: Family, n: u32) -> IpNet {
    match family {
        Family::V4 => net(&format!("172.16.{n}.1/24")),
        Family::V6 => net(&format!("fd00:{n}::1/64")),
    }
}
