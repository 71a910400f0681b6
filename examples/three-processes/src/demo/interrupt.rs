//! Ctrl-C: everything is ended in order; a second one ends the demo at once, and what it started
//! ends with it. The namespaces end with the processes either way.

use nix::sys::signal::{SigSet, Signal};
use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The exit status of a program that SIGINT has ended, as shells count it.
pub const STATUS: u8 = 130;

/// How often it is looked whether something has happened.
const LOOK: Duration = Duration::from_millis(1);

/// Whether the user has had enough.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

/// The user has had enough.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Something has not happened in time.
#[derive(Debug, thiserror::Error)]
#[error("waited {0:?} in vain until {1}")]
pub struct InVain(Duration, String);

impl Interrupt {
    /// Waits for SIGINT and SIGTERM, and says so in what it returns. To be called before there are
    /// other threads: they inherit that the signals do not end the process.
    pub fn watch() -> io::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        signals.thread_block()?;
        let interrupted = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&interrupted);
        let wait = move || {
            while signals.wait().is_ok() {
                if seen.swap(true, Ordering::Relaxed) {
                    process::exit(STATUS.into());
                }
            }
        };
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(wait)?;
        Ok(Self(interrupted))
    }

    /// Of a user who has had enough already, and waits for the end.
    pub fn never() -> Self {
        Self(Arc::default())
    }

    /// Whether the user has had enough.
    pub fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Looks until something has happened, and tells how long that took.
    pub fn wait_until(
        &self,
        what: &str,
        within: Duration,
        mut happened: impl FnMut() -> bool,
    ) -> Result<Duration, Box<dyn std::error::Error>> {
        let start = Instant::now();
        while !happened() {
            if self.is_there() {
                return Err(Interrupted.into());
            }
            if start.elapsed() > within {
                return Err(InVain(within, what.to_owned()).into());
            }
            thread::sleep(LOOK);
        }
        Ok(start.elapsed())
    }

    /// Lets so much time pass.
    pub fn pass(&self, time: Duration) -> Result<(), Interrupted> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if self.is_there() {
                return Err(Interrupted);
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}
