use super::{Done, World, owners, pick, selectors, tables};
use crate::content::next_hops;
use crate::picture::{Picture, leg};
use crate::small_world::{ELSEWHERE, LINKS, STATIC, Who};
use crate::step::{Deleted, Foreign, ForeignHop, LeftBehind, LookAlike};
use crate::wants::priority;
use ipnet::IpNet;
use nsm_netlink::{Family, KernelError, Route, Rule, Selector};
use policyroute_suite::Machine;
use std::net::IpAddr;
use std::rc::Rc;

/// A rule that is asked long before ours.
const EARLY: u32 = 75;
/// `FRA_IIFNAME`: a condition that no policy knows.
const IIF: u16 = 3;
/// `RTPROT_KERNEL`: what a namespace is born with.
const KERNEL: u8 = 2;

impl<M: Machine> World<M> {
    /// Somebody deletes something of ours.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn delete(&mut self, deleted: Deleted) -> Result<Done, KernelError> {
        let picture = self.picture()?;
        let rules: Vec<Rule> = owners()
            .flat_map(|owner| picture.own_rules(owner).cloned().collect::<Vec<_>>())
            .collect();
        let done = match deleted {
            Deleted::Rule { which } => match pick(&rules, which) {
                Some(rule) => self.delete_rule(&rule)?,
                None => None,
            },
            Deleted::RulesFlushed => {
                let done = rules.iter().map(|rule| self.delete_rule(rule));
                lines(done.collect::<Result<_, _>>()?)
            }
            Deleted::Route { which } => {
                let ours = |route: &&Route| owners().any(|owner| picture.is_own(owner, route));
                let routes: Vec<&Route> = picture.routes.iter().filter(ours).collect();
                match pick(&routes, which) {
                    Some(route) => self.delete_route(route, &picture)?,
                    None => None,
                }
            }
            Deleted::TableFlushed { which } => {
                let table = pick(&rules, which).map(|rule| rule.table);
                let routes = picture
                    .routes
                    .iter()
                    .filter(|route| Some(route.table) == table);
                let done = routes.map(|route| self.delete_route(route, &picture));
                lines(done.collect::<Result<_, _>>()?)
            }
        };
        self.look_after_legs()?;
        Ok(done)
    }

    /// Somebody makes something.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn make(&mut self, foreign: Foreign) -> Result<Done, KernelError> {
        let picture = self.picture()?;
        match foreign {
            Foreign::LookAlike { which, how } => {
                let Some(selector) = pick(&selectors(&picture), which) else {
                    return Ok(None);
                };
                self.add_rule(&look_alike(selector, how, &picture))
            }
            Foreign::RuleOnTable { family, table } => {
                let Some(table) = pick(&tables(&picture), table) else {
                    return Ok(None);
                };
                let from = Some(IpNet::new_assert(documentation(family), family.host_len()));
                let selector = Selector {
                    from,
                    ..Selector::any(family)
                };
                self.add_rule(&Rule::lookup(EARLY, selector, table, STATIC))
            }
            Foreign::Route {
                family,
                table,
                default,
                link,
                hop,
            } => {
                let table = pick(&tables(&picture), table);
                let route = table
                    .zip(picture.dev(LINKS[link]))
                    .map(|(table, dev)| foreign_route(family, table, default, dev, hop));
                let Some(route) = route else { return Ok(None) };
                let done = self.append_route(&route, &picture)?;
                if let (Family::V6, Some(leg), true) = (family, leg(&route), done.is_some()) {
                    Rc::make_mut(&mut self.foreign_legs).insert(leg);
                }
                Ok(done)
            }
            Foreign::MarkedElsewhere { family } => {
                let Some(dev) = picture.dev(LINKS[2]) else {
                    return Ok(None);
                };
                let protocol = Who::First.owner().protocol.get();
                let to = family.default_prefix();
                self.append_route(
                    &Route::unicast(ELSEWHERE, to, dev, None, protocol),
                    &picture,
                )
            }
        }
    }

    /// What somebody has made goes.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn unmake(&mut self, which: usize) -> Result<Done, KernelError> {
        let picture = self.picture()?;
        let rules: Vec<&Rule> = picture
            .rules
            .iter()
            .filter(|rule| rule.protocol != KERNEL && !owners().any(|owner| owner.owns_rule(rule)))
            .collect();
        let routes: Vec<&Route> = picture
            .routes
            .iter()
            .filter(|route| !owners().any(|owner| picture.is_own(owner, route)))
            .collect();
        let Some(at) = which.checked_rem(rules.len() + routes.len()) else {
            return Ok(None);
        };
        let done = match rules.get(at) {
            Some(rule) => self.delete_rule(rule)?,
            None => self.delete_route(routes[at - rules.len()], &picture)?,
        };
        self.look_after_legs()?;
        Ok(done)
    }

    /// A former process of the first element has left a rule, and perhaps a route behind it.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn leave_behind(&mut self, left: LeftBehind) -> Result<Done, KernelError> {
        let picture = self.picture()?;
        let owner = Who::First.owner();
        let tables = tables(&picture)
            .into_iter()
            .filter(|id| owner.tables.contains(*id));
        let tables: Vec<u32> = tables.collect();
        let found = pick(&selectors(&picture), left.which).zip(pick(&tables, left.table));
        let Some((selector, table)) = found else {
            return Ok(None);
        };
        let protocol = owner.protocol.get();
        let mut done = Vec::new();
        if let Some((link, hop)) = left.route
            && let Some(dev) = picture.usable(LINKS[link])
        {
            let via = next_hops(selector.family)[hop].parse().ok();
            let to = selector.family.default_prefix();
            let route = Route::unicast(table, to, dev, via, protocol);
            done.push(self.append_route(&route, &picture)?);
        }
        // One with a condition never stands beside its like without: the kernel would take it for
        // that in a delete (`rule_find` in net/core/fib_rules.c).
        let at = priority(&selector)
            + match (left.conditional, left.in_place) {
                (true, _) => 2,
                (false, false) => 1,
                (false, true) => 0,
            };
        let mut rule = Rule::lookup(at, selector, table, protocol);
        if left.conditional {
            rule.rest.insert(IIF, b"eth0\0");
        }
        done.push(self.add_rule(&rule)?);
        Ok(lines(done))
    }
}

fn lines(done: Vec<Done>) -> Done {
    let lines: Vec<String> = done.into_iter().flatten().collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn look_alike(selector: Selector, how: LookAlike, picture: &Picture) -> Rule {
    let at = priority(&selector);
    let owner = Who::First.owner();
    match how {
        LookAlike::Before => Rule::lookup(EARLY, selector, ELSEWHERE, STATIC),
        LookAlike::OutOfRange => Rule::lookup(at, selector, ELSEWHERE, owner.protocol.get()),
        LookAlike::Unmarked => {
            let ours = picture
                .rules_of(owner, &selector)
                .first()
                .map(|rule| rule.table);
            let table = ours
                .or_else(|| pick(&tables(picture), 0))
                .unwrap_or(ELSEWHERE);
            Rule::lookup(at, selector, table, STATIC)
        }
    }
}

fn foreign_route(family: Family, table: u32, default: bool, dev: u32, hop: ForeignHop) -> Route {
    let [wide, narrow] = crate::content::prefixes(family);
    let to = if default { wide } else { narrow };
    let to = to.parse().unwrap_or_else(|_| family.default_prefix());
    let via: Option<IpAddr> = match hop {
        ForeignHop::None => None,
        ForeignHop::Ours(which) => {
            pick(&next_hops(family)[1..], which).and_then(|it| it.parse().ok())
        }
        ForeignHop::Own => Some(documentation(family)),
    };
    let mut route = Route::unicast(table, to, dev, via, STATIC);
    if via.is_none() {
        // Of its own metric: between legs of an IPv6 route a dump does not show it.
        route.metric = 50;
    }
    route
}

/// An address that nobody has.
fn documentation(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([192, 0, 2, 9]),
        Family::V6 => IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 9]),
    }
}
