//! The pods of a scenario, and what others do in them.

use super::{Engine, Played, trouble};
use crate::model::Links;
use crate::picture::Picture;
use crate::problem::Problem;
use crate::world::{Asker, Listener, Pod};
use nsm_netlink::Rule;
use nsm_netlink::fault::Faulty;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// The pods by name; the first has the empty one.
pub(super) struct Pods<P: Pod>(RefCell<BTreeMap<String, Rc<PodState<P>>>>);

/// A pod.
pub(super) struct PodState<P: Pod> {
    name: String,
    pod: P,
    namespace: P::Namespace,
    /// What S1 compares with: as it was before the calls that are going on, or after what others
    /// did meanwhile.
    pub(super) before: RefCell<Picture>,
    /// Rules of ours that may stand although nobody wants them.
    pub(super) left_over: RefCell<BTreeSet<Rule>>,
}

impl<P: Pod> Default for Pods<P> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<P: Pod> Pods<P> {
    /// A pod by its name, the first where there is none.
    pub(super) fn get(&self, name: Option<&str>) -> Result<Rc<PodState<P>>, Vec<Problem>> {
        let name = name.unwrap_or_default();
        let pod = self.0.borrow().get(name).cloned();
        pod.ok_or_else(|| vec![Problem::new(format!("there is no pod {name:?} any more"))])
    }

    /// All pods.
    pub(super) fn all(&self) -> Vec<Rc<PodState<P>>> {
        self.0.borrow().values().cloned().collect()
    }
}

impl<P: Pod> PodState<P> {
    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What stands in it now.
    pub(super) fn picture(&self) -> Result<Picture, Vec<Problem>> {
        Picture::take(&self.namespace).map_err(trouble)
    }

    /// Something that asks its kernel.
    pub(super) fn asker(&self) -> Result<Asker, Vec<Problem>> {
        self.pod.asker().map_err(trouble)
    }

    /// Begins to listen.
    pub(super) fn listen(&self) -> Result<Box<dyn Listener>, Vec<Problem>> {
        self.pod.listen().map_err(trouble)
    }
}

impl<P: Pod> Engine<'_, P> {
    /// A further pod, which elements find from now on.
    pub(super) fn add_pod(&self, name: &str, links: &Links) -> Played {
        let pod = P::create(links).map_err(trouble)?;
        let namespace = pod.namespace().map_err(trouble)?;
        let for_elements = Faulty::new(pod.namespace().map_err(trouble)?, self.faults.clone());
        let state = PodState {
            name: name.to_owned(),
            pod,
            namespace,
            before: RefCell::default(),
            left_over: RefCell::default(),
        };
        *state.before.borrow_mut() = state.picture()?;
        let mut pods = self.pods.0.borrow_mut();
        if pods.contains_key(name) {
            return Err(vec![Problem::new(format!(
                "there is a pod {name:?} already"
            ))]);
        }
        pods.insert(name.to_owned(), Rc::new(state));
        self.directory.add(name, Arc::new(for_elements));
        Ok(())
    }

    /// Ends a pod: nobody finds its namespace any more, and only what elements hold of it is left.
    pub(super) fn destroy(&self, name: &str) -> Played {
        self.pods.get(Some(name))?;
        self.directory.remove(name);
        self.pods.0.borrow_mut().remove(name);
        Ok(())
    }

    /// Lets somebody else do something in a pod. Rules of ours that are made so may stay.
    pub(super) fn run(&self, pod: Option<&str>, script: &str, fails: bool) -> Played {
        let pod = self.pods.get(pod)?;
        let before = pod.picture()?;
        let ran = pod.pod.run(script).map_err(trouble)?;
        let after = pod.picture()?;
        let ours = self.ours_of_all();
        let stood = before.own_rules(&ours);
        let made = after
            .own_rules(&ours)
            .into_iter()
            .filter(|rule| !stood.contains(rule));
        pod.left_over.borrow_mut().extend(made.cloned());
        *pod.before.borrow_mut() = after;
        if ran.success == fails {
            let what = if fails {
                "the commands succeeded"
            } else {
                "the commands failed"
            };
            return Err(vec![Problem::with_lines(what, ran.output)]);
        }
        Ok(())
    }
}
