use super::World;
use ipnet::IpNet;
use nsm_netlink::fake::{FakeNamespace, Flow, Way};
use nsm_netlink::{Errno, Event, Family, Route, Rule};

impl World for FakeNamespace {
    fn fresh() -> Self {
        Self::new()
    }

    fn add_link(&self, name: &str) -> u32 {
        self.add_link(name).unwrap()
    }

    fn delete_link(&self, index: u32) {
        self.delete_link(index).unwrap();
    }

    fn set_up(&self, index: u32) {
        self.set_up(index).unwrap();
    }

    fn set_down(&self, index: u32) {
        self.set_down(index).unwrap();
    }

    /// The fake kernel has no carriers: the real one routes on without.
    fn lose_carrier(&self, _: u32) {}

    fn rename(&self, index: u32, name: &str) {
        self.rename(index, name).unwrap();
    }

    fn set_ipv6(&self, index: u32, enabled: bool) {
        self.set_ipv6(index, enabled).unwrap();
    }

    fn add_address(&self, index: u32, address: IpNet) {
        self.add_address(index, address).unwrap();
    }

    fn remove_address(&self, index: u32, address: IpNet) {
        self.remove_address(index, address).unwrap();
    }

    fn add_rule_unnumbered(&self, rule: &Rule) -> bool {
        self.add_rule_unnumbered(rule.clone()).is_ok()
    }

    fn restore_rules(&self, family: Family) {
        for rule in self.rules(family) {
            match rule.priority {
                // It is saved as none.
                0 => drop(self.add_rule_unnumbered(rule).unwrap()),
                _ => self.add_rule_again(rule).unwrap(),
            }
        }
    }

    fn prepend(&self, route: &Route) -> bool {
        self.prepend_route(route.clone()).is_ok()
    }

    fn replace(&self, route: &Route) -> bool {
        self.replace_route(route.clone()).is_ok()
    }

    fn add_multipath(&self, legs: &[Route]) -> bool {
        self.add_multipath(legs.to_vec()).is_ok()
    }

    fn lookup(&self, flow: &Flow) -> Result<Way, Errno> {
        self.lookup(flow)
    }

    fn events(&self) -> Vec<Event> {
        self.drain_events()
    }
}
