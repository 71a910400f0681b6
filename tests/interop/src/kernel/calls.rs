//! What a driver is asked in a situation.

use super::Error;
use super::connection::Connection;
use crate::driver::{Answer, Answers, Driver, Outcome};
use serde::Serialize;
use std::fs;
use std::time::Duration;

/// How long a call may take. The longest of those that end takes a hundredth of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// One call.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Op {
    Request(Connection),
    Close(Connection),
}

#[derive(Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Several<'o> {
    Parallel { ops: &'o [Op] },
    Series { ops: &'o [Op], repeat: usize },
}

pub(crate) fn one(driver: &mut Driver, op: &Op) -> Result<Outcome<Answer>, Error> {
    driver.ask(op, PATIENCE)
}

/// All at once.
pub(crate) fn parallel(driver: &mut Driver, ops: &[Op]) -> Result<Outcome<Answers>, Error> {
    driver.ask(&Several::Parallel { ops }, PATIENCE)
}

/// One after another, again and again.
pub(crate) fn series(
    driver: &mut Driver,
    ops: &[Op],
    repeat: usize,
) -> Result<Outcome<Answers>, Error> {
    driver.ask(&Several::Series { ops, repeat }, PATIENCE)
}

/// How many of a driver's descriptors are of namespaces.
pub(crate) fn namespaces(driver: &Driver) -> Result<usize, Error> {
    let mut count = 0;
    for descriptor in fs::read_dir(format!("/proc/{}/fd", driver.id()))? {
        // One that has been closed meanwhile is of nothing.
        let target = fs::read_link(descriptor?.path());
        count += usize::from(target.is_ok_and(|to| to.to_string_lossy().starts_with("net:")));
    }
    Ok(count)
}
