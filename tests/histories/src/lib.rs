//! Random histories of a pod in which `policyroute` works, held against a naive model of its
//! contract.
//!
//! A history is a list of `step`s in a `small_world`: clients ask for connections and close
//! them, processes are restarted and killed, links and addresses come and go, others write rules and
//! routes, the kernel refuses something, time passes. `play` does them, and after each
//! call holds what stands against a `model` that is written from the page of the contract, shares
//! no code with the element, and knows nothing of plans: what must stand is looked at sentence by
//! sentence, in `judge`. A history that does not hold is shortened, and told as a scenario file.

mod claims;
mod content;
mod element;
mod judge;
mod leftovers;
mod model;
mod picture;
mod play;
mod record;
mod run;
mod script;
mod small_world;
mod step;
mod strategy;
mod tally;
mod turn;
mod wants;
mod watch;
mod world;

pub use run::{Extent, run};
pub use tally::Census;
