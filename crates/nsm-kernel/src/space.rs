//! The clients' namespaces in which connections have interfaces: one piece of work at a time in
//! each, and one holder for each name.

use crate::error::Error;
use crate::mark::Mark;
use nsm_netlink::{Namespace, Netns, NetnsId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The namespaces that some connection is in. One is held as long as a connection remembers it.
#[derive(Debug, Default)]
pub struct Spaces(Mutex<HashMap<NetnsId, Weak<Space>>>);

impl Spaces {
    /// The namespace, as all connections in it share it.
    pub fn of(&self, netns: &Arc<Netns>) -> Arc<Space> {
        let mut spaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Exact: the number of a namespace is not given again while a descriptor of it is held.
        if let Some(space) = spaces.get(&netns.id()).and_then(Weak::upgrade) {
            return space;
        }
        spaces.retain(|_, space| space.strong_count() > 0);
        let space = Arc::new(Space {
            netns: Arc::clone(netns),
            turn: Arc::default(),
        });
        spaces.insert(netns.id(), Arc::downgrade(&space));
        space
    }

    /// How many namespaces are held.
    pub fn held(&self) -> usize {
        let spaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spaces
            .values()
            .filter(|space| space.strong_count() > 0)
            .count()
    }
}

/// One client's namespace.
#[derive(Debug)]
pub struct Space {
    /// The namespace, held.
    pub netns: Arc<Netns>,
    /// Whoever works in it has this.
    pub turn: Arc<tokio::sync::Mutex<Names>>,
}

/// Which connection holds which name.
#[derive(Debug, Default)]
pub struct Names(HashMap<String, Mark>);

impl Names {
    /// Gives a connection a name, and takes from it the one that it had.
    ///
    /// Whoever asks for it anew gets it, for two that swap names, and one that returns under
    /// another id, must not wait for each other. Whoever had it and only asks again does not get it
    /// back: else two that want one name would take it from each other for ever.
    ///
    /// # Errors
    /// [`Error::Taken`] for the latter.
    pub fn take(
        &mut self,
        name: &str,
        mark: &Mark,
        had: bool,
        netns: NetnsId,
    ) -> Result<(), Error> {
        match self.0.get(name) {
            Some(holder) if holder != mark && had => {
                return Err(Error::Taken {
                    name: name.to_owned(),
                    netns,
                    by: holder.as_str().to_owned(),
                });
            }
            _ => {}
        }
        self.release(mark);
        self.0.insert(name.to_owned(), mark.clone());
        Ok(())
    }

    /// Gives back the name of a connection.
    pub fn release(&mut self, mark: &Mark) {
        self.0.retain(|_, holder| holder != mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETNS: NetnsId = NetnsId { dev: 4, ino: 7 };

    fn mark(id: &str) -> Mark {
        Mark::new(78.try_into().unwrap(), NETNS, id)
    }

    #[test]
    fn two_that_swap_names_both_get_what_they_ask_for() {
        let mut names = Names::default();
        names.take("nsm-0", &mark("a"), false, NETNS).unwrap();
        names.take("nsm-1", &mark("b"), false, NETNS).unwrap();

        names.take("nsm-1", &mark("a"), false, NETNS).unwrap();
        names.take("nsm-0", &mark("b"), false, NETNS).unwrap();

        names.take("nsm-1", &mark("a"), true, NETNS).unwrap();
        names.take("nsm-0", &mark("b"), true, NETNS).unwrap();
    }

    #[test]
    fn whoever_lost_a_name_gets_it_again_when_it_is_given_back() {
        let mut names = Names::default();
        names.take("nsm-0", &mark("old"), false, NETNS).unwrap();
        names.take("nsm-0", &mark("new"), false, NETNS).unwrap();

        let lost = names.take("nsm-0", &mark("old"), true, NETNS).unwrap_err();
        assert!(lost.to_string().contains("nsm:78:7:new"), "{lost}");

        names.release(&mark("new"));
        names.take("nsm-0", &mark("old"), true, NETNS).unwrap();
    }
}
