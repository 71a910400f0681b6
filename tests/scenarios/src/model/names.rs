//! That every name in a file has been given before it is used.

use super::{Action, Ask, Place, Scenario, Step, each_step};
use std::collections::BTreeSet;

/// Checks the names of pods, elements and snapshots, and the settings.
///
/// # Errors
/// The place and the reason of the first that is wrong.
pub fn check(scenario: &Scenario) -> Result<(), (Place, String)> {
    let first = Place { line: 1, column: 1 };
    scenario
        .config
        .to_config()
        .map_err(|message| (first, message))?;
    let mut names = Names::default();
    let mut result = Ok(());
    each_step(&scenario.steps, &mut |step| {
        if result.is_ok() {
            result = names.check(step).map_err(|message| (step.place, message));
        }
    });
    result
}

/// The names that are known so far. Branches that run at the same time are taken in their order.
#[derive(Default)]
struct Names<'a> {
    pods: BTreeSet<&'a str>,
    elements: BTreeSet<&'a str>,
    snapshots: BTreeSet<&'a str>,
    connections: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn check(&mut self, step: &'a Step) -> Result<(), String> {
        if let Some(pod) = &step.pod {
            known(&self.pods, "pod", pod)?;
        }
        match &step.action {
            Action::Snapshot(name) => {
                self.snapshots.insert(name);
            }
            Action::Request(ask) => {
                self.element(ask)?;
                self.connections.insert(&ask.id);
            }
            Action::Refresh(ask) => {
                self.element(ask)?;
                known(&self.connections, "connection", &ask.id)?;
            }
            // A close may be for a connection that nobody knows.
            Action::Close(ask) => self.element(ask)?,
            Action::Pod(pod) => {
                if !self.pods.insert(&pod.name) {
                    return Err(format!("there is a pod {:?} already", pod.name));
                }
            }
            Action::Destroy(name) => {
                known(&self.pods, "pod", name)?;
                self.pods.remove(name.as_str());
            }
            Action::Element(element) => {
                element.config.to_config()?;
                if !self.elements.insert(&element.name) {
                    return Err(format!("there is an element {:?} already", element.name));
                }
            }
            Action::Expect(expectation) => {
                for name in expectation.snapshots() {
                    known(&self.snapshots, "snapshot", name)?;
                }
            }
            Action::Run { .. }
            | Action::Restart
            | Action::Wait(_)
            | Action::Parallel(_)
            | Action::Repeat(_)
            | Action::Fault(_)
            | Action::Watch(_) => {}
        }
        Ok(())
    }

    fn element(&self, ask: &Ask) -> Result<(), String> {
        ask.element
            .as_ref()
            .map_or(Ok(()), |name| known(&self.elements, "element", name))
    }
}

fn known(names: &BTreeSet<&str>, what: &str, name: &str) -> Result<(), String> {
    if names.contains(name) {
        Ok(())
    } else {
        Err(format!("there is no {what} {name:?} yet"))
    }
}
