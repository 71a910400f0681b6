//! What a history is made of.
//!
//! A step makes sense in every state, so that a history can be shortened anywhere: what it picks,
//! it picks from what is there (`which` of them, counted round), and where nothing is, nothing is
//! done.

use crate::content::Content;
use nsm_netlink::fault::Effect;
use nsm_netlink::{Family, OpKind};
use std::time::Duration;

/// One step.
#[derive(Debug, Clone)]
pub enum Step {
    /// A client asks for a connection, or for other content of it.
    Request {
        /// Which of the connections.
        connection: usize,
        /// What the endpoint answers with.
        content: Content,
    },
    /// A client asks again for what it has.
    Refresh {
        /// Which of the connections.
        connection: usize,
    },
    /// A client closes a connection.
    Close {
        /// Which of the connections.
        connection: usize,
    },
    /// Both elements start anew.
    Restart {
        /// Whether the links of connections are made anew meanwhile.
        links_lost: bool,
    },
    /// Something happens to a link.
    Link {
        /// Which of the links.
        link: usize,
        /// What.
        event: LinkEvent,
    },
    /// An address of a link goes, or one that has gone comes again.
    Address {
        /// Which of the links, or the next that it can happen to.
        link: usize,
        /// Which of its addresses.
        family: Family,
        /// Whether it is there afterwards.
        there: bool,
    },
    /// Somebody deletes something of an element.
    Deleted(Deleted),
    /// Somebody makes something.
    Foreign(Foreign),
    /// What somebody has made goes again.
    ForeignGone {
        /// Which of all that was made.
        which: usize,
    },
    /// An element of the same mark was here before.
    LeftBehind(LeftBehind),
    /// Something goes wrong in the kernel, once.
    Fault {
        /// At which kind of operation.
        op: OpKind,
        /// At which of them from now on, counted from 1.
        nth: usize,
        /// What goes wrong.
        effect: Effect,
    },
    /// Time passes.
    Wait(Duration),
}

/// What happens to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// It goes.
    Deleted,
    /// It comes again, if it has gone; or goes and comes again at once.
    Remade,
    /// It is set down.
    Down,
    /// It is set down and up.
    Flapped,
    /// It is set up; or, where it is, the next that is not.
    Up,
}

/// What somebody deletes.
#[derive(Debug, Clone, Copy)]
pub enum Deleted {
    /// One of our rules.
    Rule {
        /// Which of them.
        which: usize,
    },
    /// One of our routes.
    Route {
        /// Which of them.
        which: usize,
    },
    /// All routes of a table that one of our rules looks up, whoever made them.
    TableFlushed {
        /// Which rule's.
        which: usize,
    },
    /// All our rules.
    RulesFlushed,
}

/// What somebody makes.
#[derive(Debug, Clone, Copy)]
pub enum Foreign {
    /// A rule that has the selector of a policy and is not ours.
    LookAlike {
        /// Which of the selectors that are claimed, or might be.
        which: usize,
        /// In what it is not ours.
        how: LookAlike,
    },
    /// A rule of another selector that looks up a table of ours.
    RuleOnTable {
        /// The family.
        family: Family,
        /// Which of the tables.
        table: usize,
    },
    /// A route in a table of ours.
    Route {
        /// The family.
        family: Family,
        /// Which of the tables.
        table: usize,
        /// Whether it is a default route.
        default: bool,
        /// The link that it leaves by.
        link: usize,
        /// Its next hop: one of ours, or one of its own.
        hop: ForeignHop,
    },
    /// A route that carries our mark in a table that is not ours.
    MarkedElsewhere {
        /// The family.
        family: Family,
    },
}

/// In what a rule that looks like ours is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookAlike {
    /// It is asked first and looks up another table.
    Before,
    /// It stands at our priority and looks up a table of ours, without our mark.
    Unmarked,
    /// It stands at our priority with our mark and looks up another table.
    OutOfRange,
}

/// The next hop of a foreign route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignHop {
    /// On-link, taken before ours.
    None,
    /// One that policies use: which of them.
    Ours(usize),
    /// One that no policy uses.
    Own,
}

/// What a former process of ours has left.
#[derive(Debug, Clone, Copy)]
pub struct LeftBehind {
    /// Which of the selectors that are claimed, or might be.
    pub which: usize,
    /// Which of the tables.
    pub table: usize,
    /// Whether the rule stands at its own priority.
    pub in_place: bool,
    /// Whether the rule has a condition that no policy knows.
    pub conditional: bool,
    /// By which link its default route leaves, if it has one, and by which next hop.
    pub route: Option<(usize, usize)>,
}
