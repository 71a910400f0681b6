//! What suites and examples need that write to the real kernel.

pub mod sandbox;
