//! What the rest of the world does to a namespace, and how a test looks at it.

use super::lookup::{Flow, Way};
use super::rules::Want;
use super::state::State;
use super::{FakeNamespace, OTHERS, Place};
use crate::{Errno, Event, Family, Link, Refusal, Route, Rule};
use ipnet::IpNet;

/// Interfaces and addresses, by an interface's index. The world's doing: not in the journal.
impl FakeNamespace {
    /// Adds an interface that is down, and gives its index.
    ///
    /// # Errors
    /// EEXIST when one has the name.
    pub fn add_link(&self, name: &str) -> Result<u32, Errno> {
        self.shared.lock().add_link(name)
    }

    /// Deletes an interface. Routes via it go, in IPv4 unnotified; rules stay.
    ///
    /// # Errors
    /// ENODEV when there is none, EOPNOTSUPP for `lo`.
    pub fn delete_link(&self, index: u32) -> Result<(), Errno> {
        self.shared.lock().delete_link(index)
    }

    /// Sets an interface up. Routes that went when it was set down don't come back.
    ///
    /// # Errors
    /// ENODEV when there is none.
    pub fn set_up(&self, index: u32) -> Result<(), Errno> {
        self.shared.lock().set_up(index)
    }

    /// Sets an interface down. Routes via it go, in IPv4 unnotified, and so do its IPv6 addresses.
    ///
    /// # Errors
    /// ENODEV when there is none.
    pub fn set_down(&self, index: u32) -> Result<(), Errno> {
        self.shared.lock().set_down(index)
    }

    /// Renames an interface. Its routes stay.
    ///
    /// # Errors
    /// ENODEV when there is none, EEXIST when another has the name.
    pub fn rename(&self, index: u32, name: &str) -> Result<(), Errno> {
        self.shared.lock().rename(index, name)
    }

    /// Allows or forbids IPv6 on an interface (`net.ipv6.conf.DEV.disable_ipv6`). Where it is
    /// forbidden, addresses and routes go.
    ///
    /// # Errors
    /// ENODEV when there is none.
    pub fn set_ipv6(&self, index: u32, enabled: bool) -> Result<(), Errno> {
        self.shared.lock().set_ipv6(index, enabled)
    }

    /// Gives an interface an address; where it is up, the kernel makes the routes of it.
    ///
    /// # Errors
    /// ENODEV when there is none, EEXIST when it has the address.
    pub fn add_address(&self, index: u32, address: IpNet) -> Result<(), Errno> {
        self.shared.lock().add_address(index, address)
    }

    /// Takes an address from an interface. With its last IPv4 address all IPv4 routes via the
    /// interface go, unnotified.
    ///
    /// # Errors
    /// ENODEV when there is none, EADDRNOTAVAIL when it has no such address.
    pub fn remove_address(&self, index: u32, address: IpNet) -> Result<(), Errno> {
        self.shared.lock().remove_address(index, address)
    }

    /// All interfaces.
    pub fn links(&self) -> Vec<Link> {
        self.shared.lock().links.all().cloned().collect()
    }

    /// The addresses of an interface, each with the length of its network.
    pub fn addresses(&self, index: u32) -> Vec<IpNet> {
        let state = self.shared.lock();
        state
            .links
            .get(index)
            .map(|device| device.networks().collect())
            .unwrap_or_default()
    }

    /// The index of the interface of a name.
    pub fn link(&self, name: &str) -> Option<u32> {
        self.shared
            .lock()
            .links
            .named(name)
            .map(|device| device.link.index)
    }
}

/// Rules and routes of others. The world's doing: not in the journal.
impl FakeNamespace {
    /// Adds a rule as `ip rule add ... priority N` does.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add_rule(&self, rule: Rule) -> Result<(), Refusal> {
        self.as_others(|state| state.add_rule(rule, Want::Exclusive))
            .map(|_| ())
    }

    /// Adds a rule even where an equal one stands (without `NLM_F_EXCL`).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add_rule_again(&self, rule: Rule) -> Result<(), Refusal> {
        self.as_others(|state| state.add_rule(rule, Want::Duplicate))
            .map(|_| ())
    }

    /// Adds a rule as `ip rule add` without a priority does: the kernel puts it in front of all
    /// but the first. Gives its number.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add_rule_unnumbered(&self, rule: Rule) -> Result<u32, Refusal> {
        self.as_others(|state| state.add_rule(rule, Want::Unnumbered))
            .map(|rule| rule.priority)
    }

    /// Deletes the first rule that agrees with `like` in its number and in every other field that
    /// is neither absent nor 0.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn delete_rule(&self, like: &Rule) -> Result<(), Refusal> {
        self.as_others(|state| state.del_rule(like))
    }

    /// Adds a route as `ip route add` does.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add_route(&self, route: Route) -> Result<(), Refusal> {
        self.as_others(|state| state.add_route(vec![route], Place::Exclusive))
    }

    /// Adds a route as `ip route append` does: behind its equals.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn append_route(&self, route: Route) -> Result<(), Refusal> {
        self.as_others(|state| state.add_route(vec![route], Place::Append))
    }

    /// Adds a route as `ip route prepend` does: in IPv4 before its equals.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn prepend_route(&self, route: Route) -> Result<(), Refusal> {
        self.as_others(|state| state.add_route(vec![route], Place::Prepend))
    }

    /// Replaces the first route of equal prefix and metric, whoever made it, as
    /// `ip route replace` does.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn replace_route(&self, route: Route) -> Result<(), Refusal> {
        self.as_others(|state| state.add_route(vec![route], Place::Replace))
    }

    /// Adds one route of several legs, as `ip route add ... nexthop ... nexthop ...` does.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add_multipath(&self, legs: Vec<Route>) -> Result<(), Refusal> {
        self.as_others(|state| state.add_route(legs, Place::Exclusive))
    }

    /// Deletes the first route that agrees with `like`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn delete_route(&self, like: &Route) -> Result<(), Refusal> {
        self.as_others(|state| state.del_route(like))
    }

    fn as_others<T>(&self, write: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.lock();
        state.port = OTHERS;
        let done = write(&mut state);
        state.port = 0;
        done
    }

    /// The namespace ends: it can't be opened any more.
    pub fn destroy(&self) {
        self.shared.lock().destroyed = true;
    }
}

/// How it looks from outside.
impl FakeNamespace {
    /// All rules of a family, in the order in which they are asked.
    pub fn rules(&self, family: Family) -> Vec<Rule> {
        self.shared.lock().rules(family).list().to_vec()
    }

    /// All routes of a family, in the order of a dump.
    pub fn routes(&self, family: Family) -> Vec<Route> {
        self.shared.lock().routes(family)
    }

    /// Which way a packet goes.
    ///
    /// # Errors
    /// What the sender gets, ENETUNREACH where no route leads.
    pub fn lookup(&self, flow: &Flow) -> Result<Way, Errno> {
        self.shared.lock().lookup(flow)
    }

    /// Takes the notifications since the last call.
    pub fn drain_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.shared.lock().events)
    }

    /// Limits how many objects one read of a dump gives (at first, all), so that a dump takes
    /// several.
    pub fn limit_reads(&self, objects: usize) {
        self.shared.lock().chunk = objects.max(1);
    }

    /// Does something between two reads of a dump of rules, once. Each call queues one more, for
    /// the next gap.
    pub fn between_reads(&self, meanwhile: impl FnOnce() + Send + 'static) {
        self.shared.lock().between_reads.push(Box::new(meanwhile));
    }
}
