//! The clients' namespaces in which connections have interfaces: one piece of work at a time in
//! each, and one holder for each name.

use crate::error::Error;
use crate::mark::Mark;
use nsm_netlink::{Namespace, Netns, NetnsId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Which connection holds which name, and by which way each was asked for last.
#[derive(Debug, Default)]
pub struct Names {
    names: HashMap<String, Mark>,
    owners: HashMap<Mark, Owner>,
}

/// A way by which a client asks for its connection: one connection of the chain.
///
/// A client that was restarted has forgotten its path, and comes for the same interface as another
/// connection of the chain. When the time of the former is over, the interface is not its own any
/// more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner(u64);

impl Owner {
    /// One that there was not before.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);

        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Names {
    /// What the connection of that mark has belongs to this owner from now on.
    pub fn own(&mut self, mark: &Mark, owner: Owner) {
        self.owners.insert(mark.clone(), owner);
    }

    /// Whether what the connection of that mark has is the owner's to be removed, as far as is
    /// known. It belongs to nobody then. Who does not say who he is comes from the client itself.
    pub fn disown(&mut self, mark: &Mark, owner: Option<Owner>) -> bool {
        if let (Some(owner), Some(now)) = (owner, self.owners.get(mark))
            && owner != *now
        {
            return false;
        }
        self.owners.remove(mark);
        true
    }

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
        match self.names.get(name) {
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
        self.names.insert(name.to_owned(), mark.clone());
        Ok(())
    }

    /// Gives back the name of a connection.
    pub fn release(&mut self, mark: &Mark) {
        self.names.retain(|_, holder| holder != mark);
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
    fn whoever_came_for_it_last_has_it_and_nobody_else_removes_it() {
        let mut names = Names::default();
        let (ghost, live) = (Owner::new(), Owner::new());
        names.own(&mark("nsc-0"), ghost);
        names.own(&mark("nsc-0"), live);

        assert!(!names.disown(&mark("nsc-0"), Some(ghost)));
        assert!(names.disown(&mark("nsc-0"), Some(live)));
        assert!(names.disown(&mark("nsc-0"), Some(ghost)), "nobody has it");

        names.own(&mark("nsc-0"), live);
        assert!(names.disown(&mark("nsc-0"), None), "the client says so");
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
