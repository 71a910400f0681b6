//! The rest of the world: links, addresses, and whoever else writes rules and routes.
//!
//! What is done is also said as shell commands, so that it can be told in a scenario file.

mod links;
mod others;

use crate::picture::{Leg, Picture, leg};
use crate::small_world::Who;
use nsm_netlink::{Family, KernelError, Namespace, Op, Placement, Route, Rule, Selector};
use policyroute_suite::Machine;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The pod.
#[derive(Debug)]
pub struct World<M> {
    machine: M,
    /// The families of which each link has its address.
    addresses: [BTreeSet<Family>; 3],
    foreign_legs: Rc<BTreeSet<Leg>>,
}

/// What was done, as shell commands; nothing, where there was nothing to do it to.
pub type Done = Option<String>;

impl<M: Machine> World<M> {
    /// A pod with all its links up.
    pub fn boot() -> Self {
        let mut world = Self {
            machine: M::boot(),
            addresses: Default::default(),
            foreign_legs: Rc::default(),
        };
        for link in 0..3 {
            world.make_link(link);
        }
        world
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// What stands.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn picture(&self) -> Result<Picture, KernelError> {
        Picture::take(&mut self.machine.namespace().open()?, &self.foreign_legs)
    }

    /// Forgets legs that have gone, so that one of ours in their place is taken for ours.
    fn look_after_legs(&mut self) -> Result<(), KernelError> {
        let picture = self.picture()?;
        let stand: BTreeSet<Leg> = picture.routes.iter().filter_map(leg).collect();
        if !self.foreign_legs.is_subset(&stand) {
            Rc::make_mut(&mut self.foreign_legs).retain(|leg| stand.contains(leg));
        }
        Ok(())
    }

    fn write(&self, op: Op) -> Result<bool, KernelError> {
        let outcomes = self.machine.namespace().open()?.execute_one(op)?;
        Ok(outcomes)
    }

    fn add_rule(&self, rule: &Rule) -> Result<Done, KernelError> {
        let added = self.write(Op::AddRule(rule.clone()))?;
        Ok(added.then(|| format!("{} add {}", ip_rule(rule), rule_words(rule))))
    }

    fn delete_rule(&self, rule: &Rule) -> Result<Done, KernelError> {
        let deleted = self.write(Op::DelRule(rule.clone()))?;
        Ok(deleted.then(|| format!("{} del {}", ip_rule(rule), rule_words(rule))))
    }

    fn append_route(&self, route: &Route, picture: &Picture) -> Result<Done, KernelError> {
        let added = self.write(Op::AddRoute(route.clone(), Placement::Append))?;
        Ok(added.then(|| format!("{} append {}", ip_route(route), picture.print(route))))
    }

    /// Deletes a route, whoever made it: the mark of an IPv6 leg that a dump shows may not be its
    /// own.
    fn delete_route(&self, route: &Route, picture: &Picture) -> Result<Done, KernelError> {
        /// `RTPROT_BOOT`, which goes without saying.
        const UNSAID: u8 = 3;
        let any = Route {
            protocol: 0,
            ..route.clone()
        };
        let deleted = self.write(Op::DelRoute(any))?;
        let unsaid = Route {
            protocol: UNSAID,
            ..route.clone()
        };
        Ok(deleted.then(|| format!("{} del {}", ip_route(route), picture.print(&unsaid))))
    }
}

trait ExecuteOne {
    fn execute_one(self, op: Op) -> Result<bool, KernelError>;
}

impl<K: nsm_netlink::Kernel> ExecuteOne for K {
    fn execute_one(mut self, op: Op) -> Result<bool, KernelError> {
        Ok(self.execute(&[op])?.iter().all(Result::is_ok))
    }
}

/// The elements' owners.
fn owners() -> impl Iterator<Item = nsm_netlink::Owner> {
    Who::ALL.into_iter().map(Who::owner)
}

fn family_flag(family: Family) -> &'static str {
    match family {
        Family::V4 => "-4",
        Family::V6 => "-6",
    }
}

fn ip_rule(rule: &Rule) -> String {
    format!("ip {} rule", family_flag(rule.family()))
}

fn ip_route(route: &Route) -> String {
    format!("ip {} route", family_flag(route.family()))
}

/// A rule as `ip rule add` takes it.
fn rule_words(rule: &Rule) -> String {
    let text = rule.to_string();
    let words = text
        .split_once('\t')
        .map_or(text.as_str(), |(_, words)| words);
    format!("{words} priority {}", rule.priority)
}

/// Picks one of several, counted round.
fn pick<T: Clone>(all: &[T], which: usize) -> Option<T> {
    let at = which.checked_rem(all.len())?;
    all.get(at).cloned()
}

/// The tables of rules of ours, and some of the first element's that may be free.
fn tables(picture: &Picture) -> Vec<u32> {
    const SOME: usize = 4;
    let rules = owners().flat_map(|owner| picture.own_rules(owner).collect::<Vec<_>>());
    let mut tables: Vec<u32> = rules.map(|rule| rule.table).collect();
    tables.sort_unstable();
    tables.dedup();
    tables.extend(
        Who::First
            .owner()
            .tables
            .ids()
            .map(|id| id.get())
            .take(SOME),
    );
    tables
}

/// The selectors of rules of ours, and those that policies may have.
fn selectors(picture: &Picture) -> Vec<Selector> {
    let rules = owners().flat_map(|owner| picture.own_rules(owner).collect::<Vec<_>>());
    let mut selectors: Vec<Selector> = rules.map(|rule| rule.selector.clone()).collect();
    selectors.sort();
    selectors.dedup();
    selectors.extend(crate::wants::possible());
    selectors
}
