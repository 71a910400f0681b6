//! What stands in a pod at one moment.

use super::Error;
use nsm_netlink::{
    Change, Event, Family, Kernel, Link, Namespace, Netns, Object, Route, Rule, Selector,
};

/// `RTPROT_KERNEL`: routes that come and go with addresses, by the kernel's own doing.
pub(crate) const KERNEL: u8 = 2;
/// `RT_TABLE_LOCAL`, with `default` and `main` before it: the kernel's own tables.
const LOCAL: u32 = 255;
const DEFAULT: u32 = 253;

/// Rules and routes of both families, without the kernel's own routes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Picture {
    pub(crate) rules: Vec<Rule>,
    pub(crate) routes: Vec<Route>,
    links: Vec<Link>,
}

impl Picture {
    pub(crate) fn take(netns: &Netns) -> Result<Self, Error> {
        let mut kernel = netns.open()?;
        let mut picture = Self {
            links: kernel.links()?,
            ..Self::default()
        };
        for family in Family::ALL {
            picture.rules.extend(kernel.rules(family)?.items);
            let routes = kernel.routes(family, 0..=u32::MAX)?.items;
            let routes = routes.into_iter().filter(|route| route.protocol != KERNEL);
            picture.routes.extend(routes);
        }
        Ok(picture)
    }

    /// What stands here and not there.
    pub(crate) fn without(&self, there: &Self) -> Self {
        fn rest<T: PartialEq + Clone>(here: &[T], there: &[T]) -> Vec<T> {
            let mut there: Vec<&T> = there.iter().collect();
            let missing = |item: &&T| match there.iter().position(|other| other == item) {
                Some(place) => {
                    there.swap_remove(place);
                    false
                }
                None => true,
            };
            here.iter().filter(missing).cloned().collect()
        }
        Self {
            rules: rest(&self.rules, &there.rules),
            routes: rest(&self.routes, &there.routes),
            links: self.links.clone(),
        }
    }

    /// Adds and takes away what came and went between two moments.
    pub(crate) fn learn(&mut self, before: &Self, after: &Self) {
        let come = after.without(before);
        *self = self.without(&before.without(after));
        self.rules.extend(come.rules);
        self.routes.extend(come.routes);
    }

    /// How many rules look up a table that holds nothing.
    pub(crate) fn on_empty_tables(&self) -> usize {
        let empty = |rule: &&Rule| !self.leads(rule);
        self.rules.iter().filter(empty).count()
    }

    /// How many rules do not say who made them.
    pub(crate) fn unmarked(&self) -> usize {
        self.rules.iter().filter(|rule| rule.protocol == 0).count()
    }

    /// How many routes are in the kernel's own tables.
    pub(crate) fn in_kernel_tables(&self) -> usize {
        let own = |route: &&Route| (DEFAULT..=LOCAL).contains(&route.table);
        self.routes.iter().filter(own).count()
    }

    fn leads(&self, rule: &Rule) -> bool {
        let holds = |route: &Route| route.table == rule.table && route.family() == rule.family();
        self.routes.iter().any(holds)
    }

    /// Whether some rule of these takes the traffic, and its table holds something.
    fn takes(&self, traffic: &Selector) -> bool {
        let takes = |rule: &&Rule| rule.selector.covers(traffic) && self.leads(rule);
        self.rules.iter().find(takes).is_some()
    }

    /// After how many of these events the traffic had no rule, or one that led nowhere.
    pub(crate) fn gaps(mut self, events: &[Event], traffic: &Selector) -> usize {
        let mut gaps = 0;
        for event in events {
            match (&event.object, event.change) {
                (Object::Rule(rule), Change::Added) => self.rules.push(rule.clone()),
                (Object::Route(route), Change::Added) => self.routes.push(route.clone()),
                (Object::Rule(rule), Change::Removed) => drop_one(&mut self.rules, rule),
                (Object::Route(route), Change::Removed) => drop_one(&mut self.routes, route),
            }
            gaps += usize::from(!self.takes(traffic));
        }
        gaps
    }

    /// As people read it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let name = |index| {
            let link = self.links.iter().find(|link| link.index == index);
            link.map(|link| link.name.clone())
        };
        let rules = self.rules.iter().map(|rule| format!("rule {rule}"));
        let routes = self.routes.iter();
        let routes = routes.map(|route| format!("route {}", route.display(name)));
        rules.chain(routes).collect()
    }
}

fn drop_one<T: PartialEq>(items: &mut Vec<T>, item: &T) {
    if let Some(place) = items.iter().position(|other| other == item) {
        items.remove(place);
    }
}
