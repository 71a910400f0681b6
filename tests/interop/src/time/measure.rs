//! The measuring: both sides in turn, each round begun by the other one.

use super::Error;
use super::calls::{parallel, series};
use super::fleet::{Fleet, resident};
use super::row::{Right, Row, Unit, median};
use crate::driver::{Driver, Program};

/// How often a refresh is measured in a round. The Go element makes more rules at each refresh of more
/// policies than it has tables for, and the next one takes longer.
const fn refreshes(policies: usize) -> usize {
    match policies {
        ..=252 => 7,
        _ => 1,
    }
}

/// The two programs.
#[derive(Debug)]
pub(crate) struct Sides {
    pub(crate) go: Program,
    pub(crate) ours: Program,
}

/// Which of the two: 0 is Go's, 1 is ours. Each begins every other round.
fn turns(round: usize) -> [usize; 2] {
    [round % 2, 1 - round % 2]
}

impl Sides {
    fn start(&self) -> Result<[Driver; 2], Error> {
        Ok([Driver::start(&self.go)?, Driver::start(&self.ours)?])
    }
}

fn push(row: &mut Row, side: usize, value: f64) {
    match side {
        0 => row.go.push(value),
        _ => row.ours.push(value),
    }
}

/// A connection of so many policies: the first request in a pod that has just come, a refresh that
/// changes nothing, and the close.
pub(crate) fn of_one_connection(
    sides: &Sides,
    policies: usize,
    rounds: usize,
) -> Result<[Row; 3], Error> {
    let names = ["install", "refresh", "close"];
    let mut rows = names.map(|name| Row::new(name, policies, Unit::Microseconds));
    let mut drivers = sides.start()?;
    let mut right = [policies; 2];
    // The first round is for the processes to get going.
    for round in 0..=rounds {
        for side in turns(round) {
            let fleet = Fleet::new(1, 1, policies)?;
            let driver = &mut drivers[side];
            let install = series(driver, &fleet.requests(), 1)?;
            right[side] = right[side].min(fleet.right()?);
            let again = series(driver, &fleet.requests(), refreshes(policies))?;
            let close = series(driver, &fleet.closes(), 1)?;
            if round > 0 {
                push(&mut rows[0], side, install.us);
                push(&mut rows[1], side, median(&again.each));
                push(&mut rows[2], side, close.us);
            }
        }
    }
    rows[0].right = Some(Right {
        go: right[0],
        ours: right[1],
        of: policies,
    });
    Ok(rows)
}

/// So many pods with two connections of two policies each. The process ends, another one starts,
/// and all connections come back at once.
pub(crate) fn restart(sides: &Sides, namespaces: usize, rounds: usize) -> Result<Vec<Row>, Error> {
    let mut first = Row::new("first", namespaces, Unit::Microseconds);
    let mut again = Row::new("restart", namespaces, Unit::Microseconds);
    let mut idle = Row::new("memory, idle", 0, Unit::Kibibytes);
    let mut memory = Row::new("memory", 2 * namespaces, Unit::Kibibytes);
    let fleets = [Fleet::new(namespaces, 2, 2)?, Fleet::new(namespaces, 2, 2)?];
    let of = fleets[0].size();
    let mut right = [of; 2];
    for round in 0..=rounds {
        for side in turns(round) {
            let program = [&sides.go, &sides.ours][side];
            let mut driver = Driver::start(program)?;
            // An answer to nothing says that it has started.
            parallel(&mut driver, &[])?;
            push(&mut idle, side, resident(driver.id())?);
            let time = parallel(&mut driver, &fleets[side].requests())?.us;
            if round == 0 {
                push(&mut first, side, time);
                continue;
            }
            push(&mut again, side, time);
            push(&mut memory, side, resident(driver.id())?);
            right[side] = right[side].min(fleets[side].right()?);
        }
    }
    again.right = Some(Right {
        go: right[0],
        ours: right[1],
        of,
    });
    Ok(vec![first, again, idle, memory])
}
