//! Measures whether any packet of a policy leaves by another interface while `policyroute` is at work.
//!
//! `cargo run -q --release -p traffic` is the full run (some two minutes), `--seconds 10` a thorough
//! one, `cargo test -p traffic` a short one; `-- --help` tells the rest.
//!
//! A `flow` is what happens, a `stream` is what is sent meanwhile, and `measure` puts one beside the
//! other on a `stage`: a `world` of namespaces and links, the `element` in its pod, and a kernel for
//! what is done by hand. The `meter` lets a `sender` send to a `sink`, and counts by a `tap` on each
//! link that the stream must not use and by the `counter` of those that it may. What that comes to is
//! in `figures`, which also judge; `report` and `json` print.
//!
//! # What a zero says
//!
//! - The control leaks every second packet or so, so a leak is seen where there is one.
//! - Streams go one at a time: one processor sends while another changes, so that what is open for
//!   some microseconds meets a packet. Several at once would meet it less often.
//! - A packet counts by its addresses and protocol, so that nothing counts which a kernel says on
//!   its own.
//! - What was sent under a policy that selects its source can be caught by no other policy.

pub mod counter;
pub mod element;
pub mod figures;
pub mod flow;
pub mod json;
pub mod measure;
pub mod meter;
pub mod progress;
pub mod report;
pub mod sender;
pub mod sink;
pub mod stage;
pub mod stream;
pub mod tap;
pub mod world;

/// Why something could not be measured.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
