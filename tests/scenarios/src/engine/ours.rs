//! What is ours, and what has been asked for.

use super::Engine;
use crate::content::Content;
use crate::picture::Ours;
use crate::wanted::Routes;
use crate::world::Pod;
use nsm_netlink::Selector;
use std::collections::BTreeMap;

impl<P: Pod> Engine<'_, P> {
    /// What is of the first element.
    pub(super) fn ours_of_first(&self) -> Ours {
        let elements = self.elements.borrow();
        let owners = elements
            .iter()
            .take(1)
            .map(|element| element.config.owner)
            .collect();
        Ours {
            owners,
            asked: self.asked.borrow().clone(),
        }
    }

    /// What is of any element.
    pub(super) fn ours_of_all(&self) -> Ours {
        let elements = self.elements.borrow();
        let owners = elements
            .iter()
            .map(|element| element.config.owner)
            .collect();
        Ours {
            owners,
            asked: self.asked.borrow().clone(),
        }
    }

    /// Notes what a connection asks for, so that it is known as ours later.
    pub(super) fn note_asked(&self, content: &Content, wants: &BTreeMap<Selector, Routes>) {
        let mut asked = self.asked.borrow_mut();
        let mut ever = self.ever_asked.borrow_mut();
        for (selector, routes) in wants {
            ever.entry(selector.clone())
                .or_default()
                .extend(routes.iter().copied());
            for (to, via) in routes {
                asked.insert((*to, *via, content.interface.clone()));
            }
        }
    }
}
