//! One reading of a namespace: a constant number of dumps, however many policies there are.

use crate::actual::Actual;
use nsm_netlink::{Family, Kernel, KernelError, OpKind, Owner, Rule};

/// How often a dump of rules is read until two in a row agree.
const READS: usize = 5;

/// Reads the rules of both families and the routes of our tables.
///
/// # Errors
/// When a dump fails, or the rules of ours change faster than they can be read.
pub fn read(kernel: &mut impl Kernel, owner: Owner) -> Result<Actual, KernelError> {
    let mut actual = Actual::default();
    for family in Family::ALL {
        actual.rules.append(&mut rules(kernel, family, owner)?);
    }
    for family in Family::ALL {
        let mut dump = kernel.routes(family, owner.tables.numbers())?;
        actual.routes.append(&mut dump.items);
    }
    Ok(actual)
}

/// Reads the rules of a family.
///
/// The kernel walks rules by index and does not say when they shift between two reads of a dump
/// (`fib_nl_dumprule` in net/core/fib_rules.c), so a dump of several reads may lack rules. It
/// counts only when the next one agrees on ours.
///
/// # Errors
/// When a dump fails, or no two in a row agree.
pub fn rules(
    kernel: &mut impl Kernel,
    family: Family,
    owner: Owner,
) -> Result<Vec<Rule>, KernelError> {
    let ours = |rules: &[Rule]| -> Vec<Rule> {
        rules
            .iter()
            .filter(|rule| owner.owns_rule(rule))
            .cloned()
            .collect()
    };
    let mut last = kernel.rules(family)?;
    if last.reads <= 1 {
        return Ok(last.items);
    }
    for _ in 1..READS {
        let next = kernel.rules(family)?;
        if ours(&last.items) == ours(&next.items) {
            return Ok(next.items);
        }
        last = next;
    }
    Err(KernelError::Interrupted(OpKind::DumpRules))
}
