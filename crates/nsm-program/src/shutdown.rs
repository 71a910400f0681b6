//! The end of a program.
//!
//! SIGINT, SIGTERM, SIGHUP and SIGQUIT ask for it. The first one is a request: what waits for
//! [`Shutdown::requested`] begins to end. The second one is meant: the process ends at once, with
//! the status 130.

use std::io;
use std::process;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

/// The status of a process that was told twice to end.
pub const INTERRUPTED: u8 = 130;

/// Whether the process is asked to end. Clones tell the same.
#[derive(Clone, Debug)]
pub struct Shutdown {
    requested: watch::Receiver<bool>,
}

/// What asks for the end without a signal.
#[derive(Clone, Debug)]
pub struct Trigger {
    requested: watch::Sender<bool>,
}

impl Shutdown {
    /// A shutdown that is asked for by what comes with it.
    pub fn new() -> (Trigger, Self) {
        let (sender, receiver) = watch::channel(false);
        let trigger = Trigger { requested: sender };
        (
            trigger,
            Self {
                requested: receiver,
            },
        )
    }

    /// Resolves when the end is asked for: at once if it was before.
    ///
    /// # Cancellation
    ///
    /// Nothing is lost.
    pub async fn requested(&self) {
        let mut requested = self.requested.clone();
        if requested.wait_for(|requested| *requested).await.is_err() {
            // Nobody is left who could ask for it.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the end is asked for.
    pub fn is_requested(&self) -> bool {
        *self.requested.borrow()
    }
}

impl Trigger {
    /// Asks for the end.
    pub fn request(&self) {
        self.requested.send_replace(true);
    }
}

/// The signals that ask for the end, from now on caught.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl Signals {
    /// Catches the signals.
    ///
    /// # Errors
    ///
    /// That of the system, which refuses no signal of these by itself.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with I/O.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// The next signal's name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
            _ = self.quit.recv() => "SIGQUIT",
        }
    }

    /// Turns the first signal into a request, and ends the process at the second.
    pub async fn obey(mut self, trigger: Trigger) {
        let signal = self.next().await;
        info!(signal, "stopping; once more ends it at once");
        trigger.request();
        let signal = self.next().await;
        warn!(signal, "ended at once");
        process::exit(INTERRUPTED.into());
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn everybody_learns_of_the_end_also_those_who_ask_late() {
        let (trigger, shutdown) = Shutdown::new();
        let early = shutdown.clone();
        let mut waiting = std::pin::pin!(early.requested());
        let polled = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        assert!(!shutdown.is_requested());

        trigger.request();
        drop(trigger);

        waiting.await;
        shutdown.requested().await;
        assert!(shutdown.is_requested());
    }
}
