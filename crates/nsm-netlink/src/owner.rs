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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, Selector};

    const MARKS: [(u32, u8, bool); 6] = [
        (20_000, 78, true),
        (24_999, 78, true),
        (19_999, 78, false),
        (25_000, 78, false),
        (20_000, 79, false),
        (20_000, 0, false),
    ];

    fn owner() -> Owner {
        Owner {
            protocol: 78.try_into().unwrap(),
            tables: TableRange::new(20_000, 24_999).unwrap(),
        }
    }

    #[test]
    fn a_rule_is_ours_by_its_number_and_its_table_together() {
        for (table, protocol, ours) in MARKS {
            let rule = Rule::lookup(30_000, Selector::any(Family::V4), table, protocol);

            assert_eq!(owner().owns_rule(&rule), ours, "{rule}");
        }
    }

    #[test]
    fn a_rule_that_looks_nothing_up_is_not_ours() {
        for action in [Action::Nop, Action::Other(7)] {
            let lookup = Rule::lookup(30_000, Selector::any(Family::V4), 20_000, 78);
            let rule = Rule { action, ..lookup };

            assert!(!owner().owns_rule(&rule), "{rule}");
        }
    }

    #[test]
    fn a_route_is_ours_by_its_number_and_its_table_together() {
        for (table, protocol, ours) in MARKS {
            let prefix = Family::V6.default_prefix();
            for route in [
                Route::unicast(table, prefix, 3, None, protocol),
                Route::unreachable(table, prefix, protocol),
            ] {
                assert_eq!(owner().owns_route(&route), ours, "{route:?}");
            }
        }
    }
}
