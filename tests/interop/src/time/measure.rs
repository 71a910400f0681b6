//! The measuring: both sides in turn, each round begun by the other one.

use super::Error;
use super::calls::{parallel, series};
use super::fleet::{Fleet, resident};
use super::row::{Row, Unit, median};
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
        Ok([self.start_one(0)?, self.start_one(1)?])
    }

    fn start_one(&self, side: usize) -> Result<Driver, Error> {
        let mut driver = Driver::start([&self.go, &self.ours][side])?;
        // An answer to nothing says that it has started.
        parallel(&mut driver, &[])?;
        Ok(driver)
    }
}

/// What is right afterwards. The worst round counts.
fn found(row: &mut Row, side: usize, count: usize) {
    if let Some(right) = &mut row.right {
        let worst = match side {
            0 => &mut right.go,
            _ => &mut right.ours,
        };
        *worst = count.min(*worst);
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
    let mut rows = names.map(|name| Row::of(name, policies, Unit::Microseconds, policies));
    let [installs, again, closes] = &mut rows;
    let mut drivers = sides.start()?;
    // The first round is for the processes to get going.
    for round in 0..=rounds {
        for side in turns(round) {
            let fleet = Fleet::new(1, 1, policies)?;
            let driver = &mut drivers[side];
            let install = series(driver, &fleet.requests(), 1)?;
            found(installs, side, fleet.right()?);
            let refresh = series(driver, &fleet.refreshes(), refreshes(policies))?;
            found(again, side, fleet.right()?);
            let close = series(driver, &fleet.closes(), 1)?;
            found(closes, side, policies.saturating_sub(fleet.left()?));
            if round > 0 {
                push(installs, side, install.us);
                push(again, side, median(&refresh.each));
                push(closes, side, close.us);
            }
        }
    }
    Ok(rows)
}

/// So many pods with two connections of two policies each. All connections come for the first time
/// at once. Then the process ends, another one starts, and all of them come back at once.
pub(crate) fn restart(
    sides: &Sides,
    namespaces: usize,
    first_rounds: usize,
    rounds: usize,
) -> Result<[Row; 3], Error> {
    let fleet = || Fleet::new(namespaces, 2, 2);
    let mut fleets = [fleet()?, fleet()?];
    let row = |name| Row::of(name, namespaces, Unit::Microseconds, fleets[0].size());
    let (mut first, mut again) = (row("first"), row("restart"));
    let mut memory = Row::new("memory", 2 * namespaces, Unit::Kibibytes);
    for round in 0..first_rounds {
        for side in turns(round) {
            if round > 0 {
                fleets[side] = fleet()?;
            }
            let mut driver = sides.start_one(side)?;
            let time = parallel(&mut driver, &fleets[side].requests())?.us;
            push(&mut first, side, time);
            found(&mut first, side, fleets[side].right()?);
        }
    }
    for round in 0..rounds {
        for side in turns(round) {
            let mut driver = sides.start_one(side)?;
            let time = parallel(&mut driver, &fleets[side].refreshes())?.us;
            push(&mut again, side, time);
            push(&mut memory, side, resident(driver.id())?);
            found(&mut again, side, fleets[side].right()?);
        }
    }
    Ok([first, again, memory])
}

/// The memory of a process that has just started.
pub(crate) fn idle(sides: &Sides, rounds: usize) -> Result<Row, Error> {
    let mut idle = Row::new("memory, idle", 0, Unit::Kibibytes);
    for round in 0..rounds {
        for side in turns(round) {
            let driver = sides.start_one(side)?;
            push(&mut idle, side, resident(driver.id())?);
        }
    }
    Ok(idle)
}
