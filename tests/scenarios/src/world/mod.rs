//! The kernel that a scenario runs on.

mod fake;
mod real;

pub use fake::FakePod;
pub use real::RealPod;

use crate::answer::Answer;
use crate::model::{Links, Lookup};
use nsm_netlink::{Event, KernelError, Namespace};
use std::fmt;
use thiserror::Error;

/// A pod: a network namespace with links.
pub trait Pod: Sized + 'static {
    /// Its namespace.
    type Namespace: Namespace;

    /// Makes a pod whose links are up and have addresses, and lets it settle.
    ///
    /// # Errors
    /// When the system gives none.
    fn create(links: &Links) -> Result<Self, PodError>;

    /// Its namespace, held for itself.
    ///
    /// # Errors
    /// When the system gives no further descriptor of it.
    fn namespace(&self) -> Result<Self::Namespace, PodError>;

    /// Runs shell commands in it (`sh -ec`).
    ///
    /// # Errors
    /// When there is no shell, or it does not come to an end.
    fn run(&self, script: &str) -> Result<Ran, PodError>;

    /// Something that asks the kernel for the way of a packet, from whatever thread.
    ///
    /// # Errors
    /// When the system gives no further descriptor of the namespace.
    fn asker(&self) -> Result<Asker, PodError>;

    /// Begins to listen for what comes and goes in it.
    ///
    /// # Errors
    /// When the kernel does not let us.
    fn listen(&self) -> Result<Box<dyn Listener>, PodError>;
}

/// Asks the kernel for the way of a packet.
pub type Asker = Box<dyn FnMut(&Lookup) -> Answer + Send>;

/// Hears of rules and routes that come and go.
pub trait Listener {
    /// What happened since the listener was made or was asked last.
    ///
    /// # Errors
    /// When notifications were lost.
    fn heard(&mut self) -> Result<Vec<Event>, KernelError>;
}

/// How shell commands ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Whether they succeeded.
    pub success: bool,
    /// What they printed, by line.
    pub output: Vec<String>,
}

/// Why a pod does not do what a scenario needs.
#[derive(Debug, Error)]
#[error("cannot {what}")]
pub struct PodError {
    what: String,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl PodError {
    /// Something that failed.
    pub fn new(
        what: impl fmt::Display,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            what: what.to_string(),
            source: source.into(),
        }
    }
}
