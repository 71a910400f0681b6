//! How often each class of state that matters occurs.

use super::super::*;
use super::case::Case;
use super::world::{FOREIGN, are_siblings, owner};

/// How often each class of state that matters has occurred.
#[derive(Debug, Default)]
pub(super) struct Classes(pub(super) BTreeMap<&'static str, u32>);

impl Classes {
    pub(super) fn count(&mut self, case: &Case) {
        let desired = case.desired();
        let world = &case.world;
        let wanted = |rule: &Rule| desired.iter().find(|d| d.selector == rule.selector);
        let shares = |a: &Rule, b: &Rule| {
            (a.family(), a.table) == (b.family(), b.table) && a.selector != b.selector
        };
        let families: BTreeSet<Family> = desired.iter().map(Desired::family).collect();
        let claimants = |d: &Desired| -> usize {
            let claims = (0..4).filter(|i| {
                let id = format!("c{i}").try_into().unwrap();
                let claim = case.claims.get(&id);
                claim.is_some_and(|c| c.wants.iter().any(|w| w.selector == d.selector))
            });
            claims.count()
        };
        let found = [
            (
                "shared table",
                world
                    .ours()
                    .any(|a| wanted(a).is_some() && world.ours().any(|b| shares(a, b))),
            ),
            (
                "empty table",
                world
                    .ours()
                    .any(|rule| wanted(rule).is_some() && world.unicast(rule).next().is_none()),
            ),
            (
                "foreign leg",
                world.routes.iter().any(|route| {
                    route.protocol == FOREIGN
                        && world
                            .routes
                            .iter()
                            .any(|o| o != route && are_siblings(o, route))
                }),
            ),
            (
                "look-alike",
                world
                    .rules
                    .iter()
                    .any(|rule| !owner().owns_rule(rule) && wanted(rule).is_some()),
            ),
            ("two claimants", desired.iter().any(|d| claimants(d) > 1)),
            ("both families", families.len() == 2),
            (
                "wrong priority",
                world
                    .ours()
                    .any(|rule| wanted(rule).is_some_and(|d| d.priority != rule.priority)),
            ),
        ];
        for (class, found) in found {
            *self.0.entry(class).or_default() += u32::from(found);
        }
    }
}
