//! Ctrl-C: the restart at hand is finished, then the demo ends; a second one ends it at once. The
//! namespaces end with the process either way.

use nix::sys::signal::{SigSet, Signal};
use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The exit status of a program that SIGINT has ended, as shells count it.
pub const STATUS: u8 = 130;

/// Waits for SIGINT and SIGTERM, and says so in what it returns. To be called before there are other
/// threads: they inherit that the signals do not end the process.
pub fn watch() -> io::Result<Arc<AtomicBool>> {
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
    Ok(interrupted)
}
