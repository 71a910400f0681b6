//! Everything ends. In paused time what does not end is not late either, so that the time that is
//! looked at is the real one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long one cell may take on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(60);

static RUNNING: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

/// Something that has to end. It has when this is dropped.
#[derive(Debug)]
pub struct Watched(String);

impl Watched {
    /// Begins it.
    pub fn new(what: String) -> Self {
        running().insert(what.clone(), Instant::now());
        Self(what)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        running().remove(&self.0);
    }
}

/// Ends this process, with the name of what does not end.
#[allow(clippy::print_stderr, reason = "nothing else tells of it")]
pub fn start() {
    thread::spawn(|| {
        loop {
            thread::sleep(Duration::from_secs(1));
            let running = running();
            if let Some((what, _)) = running.iter().find(|(_, since)| since.elapsed() > LIMIT) {
                eprintln!("error: {what}: it does not end");
                std::process::exit(1);
            }
        }
    });
}

fn running() -> MutexGuard<'static, BTreeMap<String, Instant>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
