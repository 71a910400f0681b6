//! What must hold after each call that was to succeed.

use super::calls::Outcome;
use super::pods::PodState;
use super::{Engine, Played};
use crate::picture::{Ours, Picture};
use crate::problem::Problem;
use crate::standing::{Claim, Standing};
use crate::world::Pod;
use nsm_netlink::{OpKind, Rule};
use std::collections::BTreeSet;

/// Calls that overlap in time. What must hold is looked at when none of them is going on.
#[derive(Debug, Default)]
pub(super) struct Window {
    in_flight: usize,
    calls: usize,
    /// Faults of rule removals that were waiting when it began.
    del_rule_faults: usize,
    /// The elements that did what they were to do in it.
    succeeded: BTreeSet<String>,
    /// The elements that were called in it.
    called: BTreeSet<String>,
}

impl<P: Pod> Engine<'_, P> {
    /// A call begins.
    pub(super) fn enter_window(&self, element: &str) -> Played {
        let mut window = self.window.borrow_mut();
        if window.in_flight == 0 {
            for pod in self.pods.all() {
                *pod.before.borrow_mut() = pod.picture()?;
            }
            let del_rule_faults = self.del_rule_faults();
            *window = Window {
                del_rule_faults,
                ..Window::default()
            };
        }
        window.in_flight += 1;
        window.calls += 1;
        window.called.insert(element.to_owned());
        Ok(())
    }

    /// A call ends; the last of a window sees to what must hold.
    pub(super) fn leave_window(&self, element: &str, outcome: &Outcome) -> Played {
        let window = {
            let mut window = self.window.borrow_mut();
            window.in_flight -= 1;
            if matches!(outcome, Outcome::Succeeded(_)) {
                window.succeeded.insert(element.to_owned());
            }
            if window.in_flight > 0 {
                return Ok(());
            }
            std::mem::take(&mut *window)
        };
        if self.faults.is_killed() {
            return self.restart();
        }
        let refused_removals = self.del_rule_faults() < window.del_rule_faults;
        let mut problems = Vec::new();
        for pod in self.pods.all() {
            let after = pod.picture()?;
            if refused_removals {
                self.excuse_unremoved(&pod, &after);
            }
            for element in &window.succeeded {
                for mut problem in self.check_standing(&pod, &after, element, &window) {
                    if window.calls > 1 {
                        let calls = window.calls;
                        problem
                            .what
                            .push_str(&format!(" (after {calls} calls at the same time)"));
                    }
                    // Elements of one owner see the same.
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        }
    }

    /// What must hold in a pod after calls of an element.
    fn check_standing(
        &self,
        pod: &PodState<P>,
        after: &Picture,
        element: &str,
        window: &Window,
    ) -> Vec<Problem> {
        let elements = self.elements.borrow();
        let Some(element) = elements.iter().find(|other| other.name == element) else {
            return Vec::new();
        };
        let asked = self.asked.borrow().clone();
        let called = elements
            .iter()
            .filter(|element| window.called.contains(&element.name));
        let own_of_all = Ours {
            owners: called.map(|element| element.config.owner).collect(),
            asked: asked.clone(),
        };
        let ours = Ours {
            owners: vec![element.config.owner],
            asked,
        };
        // Elements of one owner are one for everybody who looks at the rules.
        let same_owner: Vec<&str> = elements
            .iter()
            .filter(|other| other.config.owner == element.config.owner)
            .map(|other| other.name.as_str())
            .collect();
        let claims = self.claims(pod.name(), &same_owner);
        let before = pod.before.borrow();
        let ever_asked = self.ever_asked.borrow();
        let mut left_over = pod.left_over.borrow_mut();
        let standing = Standing {
            before: &before,
            after,
            config: &element.config,
            ours: &ours,
            own_of_all: &own_of_all,
            claims: &claims,
            ever_asked: &ever_asked,
            left_over: &left_over,
            concurrent: window.calls > 1,
        };
        let problems = standing.check();
        // A rule that somebody has claimed is left over no more.
        let claimed = |claim: &Claim, rule: &Rule| {
            claim.counts && rule.is_plain() && claim.wants.contains_key(&rule.selector)
        };
        left_over
            .retain(|rule| !ours.rule(rule) || !claims.iter().any(|claim| claimed(claim, rule)));
        problems
    }

    /// What open connections want in a pod.
    fn claims(&self, pod: &str, elements: &[&str]) -> Vec<Claim> {
        let clients = self.clients.borrow();
        let open = clients.iter().filter(|(_, client)| client.open);
        open.filter_map(|(id, client)| {
            let content = client.content.as_ref()?;
            let here = content.pod == pod && elements.contains(&content.element.as_str());
            here.then(|| Claim {
                connection: id.clone(),
                interface: content.interface.clone(),
                wants: content.wants().unwrap_or_default(),
                counts: client.counts,
            })
        })
        .collect()
    }

    /// Rules that should have gone and that the kernel was made to keep are left-overs.
    pub(super) fn excuse_unremoved(&self, pod: &PodState<P>, after: &Picture) {
        let ours = self.ours_of_all();
        let stands = after.own_rules(&ours).into_iter().cloned();
        pod.left_over.borrow_mut().extend(stands);
    }

    fn del_rule_faults(&self) -> usize {
        let waiting = self.faults.unconsumed();
        waiting
            .iter()
            .filter(|fault| fault.op == OpKind::DelRule)
            .count()
    }
}
