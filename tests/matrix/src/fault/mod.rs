//! The fault matrix: every operation of a flow, everything that can go wrong there, once and for
//! ever.
//!
//! [`cell`] makes the cells of the operations of a clean run, `expect` says how the call may end in
//! each, and [`run`] runs one and holds it against all that the contract promises.

mod armed;
pub mod cell;
mod errnos;
mod expect;
pub mod run;

use crate::clean::Clean;
use crate::flow::Flow;
use crate::tally::Tally;
use crate::watchdog::Watched;
use cell::{Cell, Extent};
use libtest_mimic::{Failed, Trial};
use policyroute_suite::Machine;

/// The cells of a flow on one kernel, as a test of the runner's. `only` is a part of a cell's
/// coordinates.
pub fn trial<M: Machine>(flow: Flow, extent: Extent, only: Option<&str>, tally: &Tally) -> Trial {
    let (only, tally) = (only.map(str::to_owned), tally.clone());
    Trial::test(format!("{}::faults::{}", M::NAME, flow.name), move || {
        crate::paused(async {
            let clean = Clean::run::<M>(&flow).await.map_err(Failed::from)?;
            let mut wrong = Vec::new();
            let cells = chosen(&clean, extent, only.as_deref());
            tally.add(
                &format!("faults on the {}", M::NAME),
                flow.name,
                cells.len(),
            );
            for cell in &cells {
                let _watched = Watched::new(format!("{} on the {}: {cell}", flow.name, M::NAME));
                if let Err(reason) = run::run::<M>(&flow, &clean, cell).await {
                    wrong.push((cell.to_string(), reason));
                }
            }
            crate::verdict(cells.len(), wrong)
        })
    })
}

fn chosen(clean: &Clean, extent: Extent, only: Option<&str>) -> Vec<Cell> {
    let Some(only) = only else {
        return cell::cells(&clean.operations, extent);
    };
    let mut cells = cell::cells(&clean.operations, Extent::Full);
    cells.retain(|cell| cell.to_string().contains(only));
    cells
}
