//! Holds rules that were added against what the kernel has stored.

use crate::error::Error;
use crate::plan::Step;
use crate::progress::Progress;
use crate::read;
use crate::write::{Halt, Writer};
use nsm_netlink::{Family, Kernel, Op, Rule};
use std::collections::BTreeSet;

impl<K: Kernel> Writer<'_, K> {
    /// Holds the rules that were added against what the kernel has stored.
    pub fn read_back(
        &mut self,
        added: &[(usize, &Rule)],
        progress: &mut Progress,
    ) -> Result<(), Halt> {
        for family in Family::ALL {
            let added: Vec<_> = added.iter().filter(|(_, r)| r.family() == family).collect();
            if added.is_empty() {
                continue;
            }
            let stored = read::rules(self.kernel, family, self.owner)?;
            let standing: BTreeSet<&Rule> = stored.iter().collect();
            let known: BTreeSet<&Rule> = self
                .before
                .iter()
                .chain(added.iter().map(|(_, rule)| *rule))
                .collect();
            let news: Vec<&Rule> = stored
                .iter()
                .filter(|rule| self.owner.owns_rule(rule) && !known.contains(rule))
                .collect();
            for (unit, rule) in &added {
                if standing.contains(rule) {
                    continue;
                }
                let otherwise = news
                    .iter()
                    .find(|stored| stored.priority == rule.priority && stored.table == rule.table);
                let Some(otherwise) = otherwise else {
                    return Err(Halt::Again(None));
                };
                let stray = Op::DelRule((*otherwise).clone());
                let field = difference(rule, otherwise);
                let policy = self.desired[*unit].own.unwrap_or_default();
                self.execute([&Step {
                    op: stray,
                    unit: None,
                }])?;
                self.undo(progress, |_| true);
                return Err(Halt::Error(Error::StoredOtherwise { policy, field }));
            }
            // Another process of the same owner has been at work on the same policies.
            let tables: BTreeSet<u32> = added.iter().map(|(_, rule)| rule.table).collect();
            let meddles = |rule: &&Rule| {
                tables.contains(&rule.table)
                    || self
                        .desired
                        .iter()
                        .any(|desired| desired.selector == rule.selector)
            };
            if news.iter().any(meddles) {
                return Err(Halt::Again(None));
            }
        }
        Ok(())
    }
}

/// The first field in which the kernel's rule is not the one that it was asked for.
fn difference(asked: &Rule, stored: &Rule) -> &'static str {
    let (a, b) = (&asked.selector, &stored.selector);
    if a.from != b.from {
        "from"
    } else if a.proto != b.proto {
        "proto"
    } else if a.dport != b.dport {
        "dstport"
    } else if a.sport != b.sport {
        "srcport"
    } else {
        "another field"
    }
}
