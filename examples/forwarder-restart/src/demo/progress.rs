//! How far the demo is, on stderr: one line that changes on a terminal, one line each elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

const WIDTH: usize = 40;

/// The restarts so far.
#[derive(Debug)]
pub struct Progress {
    of: u16,
    terminal: bool,
}

impl Progress {
    /// Of so many restarts.
    pub fn of(restarts: u16) -> Self {
        Self {
            of: restarts,
            terminal: io::stderr().is_terminal(),
        }
    }

    /// After a restart. What cannot be printed is not worth to fail for.
    pub fn restarted(&mut self, restart: u16, took: Duration) {
        let back = format!("connections back in {:.1} ms", took.as_secs_f64() * 1e3);
        let (of, mut stderr) = (self.of, io::stderr().lock());
        if self.terminal {
            let done = WIDTH * usize::from(restart) / usize::from(of);
            let bar = "━".repeat(done) + &"╌".repeat(WIDTH - done);
            write!(stderr, "\r\x1b[K  {bar}  restart {restart} of {of}: {back}").ok();
        } else {
            writeln!(stderr, "restart {restart} of {of}: {back}").ok();
        }
        stderr.flush().ok();
    }
}

impl Drop for Progress {
    /// Leaves nothing of the line that changed.
    fn drop(&mut self) {
        if self.terminal {
            write!(io::stderr(), "\r\x1b[K").ok();
        }
    }
}
