use crate::{Route, Rule};

/// Whether something came or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// It stands now (`RTM_NEWRULE`, `RTM_NEWROUTE`).
    Added,
    /// It is gone (`RTM_DELRULE`, `RTM_DELROUTE`).
    Removed,
}

/// What came or went.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A rule.
    Rule(Rule),
    /// A route, or one leg of a multipath route.
    Route(Route),
}

/// One notification of the kernel.
///
/// The kernel tells less than happens: IPv4 routes that go with an interface or with its last
/// address go in silence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event {
    /// Whether it came or went.
    pub change: Change,
    /// What came or went.
    pub object: Object,
}
