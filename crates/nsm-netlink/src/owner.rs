use crate::{Action, Route, Rule, TableRange};

/// Who owns a rule or a route: the only definition of *ours*.
///
/// An object is ours when it carries our protocol number (`FRA_PROTOCOL`, `rtm_protocol`) *and*
/// its table lies in our range. One without the other is somebody else's and read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The rtnetlink protocol number that marks our objects, 1 to 255.
    pub protocol: std::num::NonZeroU8,
    /// The tables that we hand out.
    pub tables: TableRange,
}

impl Owner {
    /// Whether a rule carries our mark in full.
    pub fn owns_rule(&self, rule: &Rule) -> bool {
        rule.protocol == self.protocol.get()
            && rule.action == Action::Lookup
            && self.tables.contains(rule.table)
    }

    /// Whether a route carries our mark in full.
    ///
    /// The further legs of an IPv6 multipath route are dumped under the protocol of the first, so
    /// for these the answer is a guess: see [`Route::mark_is_known`].
    pub fn owns_route(&self, route: &Route) -> bool {
        route.protocol == self.protocol.get() && self.tables.contains(route.table)
    }
}
