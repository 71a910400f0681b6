//! Every fault at every netlink operation of `policyroute`, and a kill before and after each send.

#![allow(
    clippy::unwrap_used,
    reason = "a world that cannot be set up has failed"
)]

pub mod between;
mod checks;
pub mod child;
pub mod clean;
pub mod fault;
pub mod flow;
pub mod flows;
pub mod journal;
pub mod kill;
pub mod ledger;
mod leg;
pub mod lent;
pub mod operation;
mod others;
pub mod picture;
pub mod refusal;
mod rest;
mod spoil;
pub mod tally;
pub mod twist;
pub mod watchdog;
pub mod world;

use libtest_mimic::Failed;
use std::collections::BTreeMap;

/// How many reasons are told of one flow, and how many cells of each.
const TOLD: usize = 8;

/// Runs something on one thread and in paused time.
///
/// # Errors
/// Its own.
pub fn paused<T>(work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(work)
}

/// What is said of the cells of one flow: those that are wrong, each with the reason.
///
/// # Errors
/// When some are wrong.
pub fn verdict(cells: usize, wrong: Vec<(String, String)>) -> Result<(), Failed> {
    if wrong.is_empty() {
        return Ok(());
    }
    let mut told = format!("{} of {cells} cells are wrong", wrong.len());
    let mut reasons = BTreeMap::<String, Vec<String>>::new();
    for (cell, reason) in wrong {
        reasons.entry(reason).or_default().push(cell);
    }
    for (reason, cells) in reasons.into_iter().take(TOLD) {
        told.push_str(&format!("\n  {reason}\n  in {} cells:", cells.len()));
        for cell in cells.iter().take(TOLD) {
            told.push_str(&format!("\n    {cell}"));
        }
    }
    Err(told.into())
}

/// How many descriptors this process has open.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
