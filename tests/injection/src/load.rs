//! A busy machine.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, available_parallelism};

/// Keeps every processor busy, twice over, as long as it lives.
#[derive(Debug)]
pub struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Begins.
    pub fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let processors = available_parallelism().map_or(1, usize::from);
        let threads = (0..2 * processors).map(|_| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            })
        });
        Self {
            threads: threads.collect(),
            is_over,
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that only spins cannot panic.
            let _ = thread.join();
        }
    }
}
