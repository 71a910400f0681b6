//! The scenario runner.
//!
//! A scenario is a small YAML file that says what happens to a pod and what must stand afterwards.
//! The binary runs files on the real kernel or on the fake one; `cargo test` runs those of this
//! folder, each as a test of its own name.
//!
//! Read it so: `model` is the file as it is written, `engine` plays its steps, with `world` for the
//! kernel, `chain` and `content` for what is called; `expect` and `standing` hold what stands
//! (`picture`) against what must (`wanted`); `report` tells people.

mod answer;
mod chain;
mod content;
mod engine;
mod expect;
mod model;
mod picture;
mod play;
mod print;
mod problem;
mod report;
mod standing;
mod wanted;
mod warnings;
mod world;

pub use model::{Scenario, Unreadable};
pub use play::{Kernel, play};
pub use problem::Problem;
pub use report::{Failure, Outcome, Style, Verdict, unreadable_json};

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
