//! A pod, an endpoint and a forwarder between them: namespaces that end with a case, and a chain
//! that is thrown away when the forwarder is restarted.

// What fails here fails a test.
#![allow(clippy::unwrap_used)]

mod client;
mod endpoint;
mod forwarder;
mod load;
mod namespace;
mod writes;

pub use client::Client;
pub use endpoint::{Answer, FarEnd};
pub use forwarder::Forwarder;
pub use load::Load;
pub use namespace::{Ear, Place, Snapshot};
pub use writes::Writes;

use std::future::Future;

/// Runs a case.
pub fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(case);
}
