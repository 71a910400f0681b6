//! How far a run is, on stderr: one line that changes on a terminal, one line for each flow elsewhere.

use crate::flow::Name;
use crate::stream::Stream;
use std::io::{self, IsTerminal, Write};

/// The flows so far.
#[derive(Debug)]
pub struct Progress {
    of: usize,
    done: usize,
    terminal: bool,
}

impl Progress {
    /// Of so many flows.
    pub fn of(flows: usize) -> Self {
        Self {
            of: flows,
            done: 0,
            terminal: io::stderr().is_terminal(),
        }
    }

    /// A flow goes on beside this stream. What cannot be printed is not worth to fail for.
    pub fn begins(&mut self, flow: Name, stream: Stream) {
        let begins = stream == Stream::ALL[0];
        self.done += usize::from(begins);
        let (of, done, mut stderr) = (self.of, self.done, io::stderr().lock());
        if self.terminal {
            write!(stderr, "\r\x1b[K  {done} of {of}: {flow} beside {stream}").ok();
        } else if begins {
            writeln!(stderr, "{done} of {of}: {flow}").ok();
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
