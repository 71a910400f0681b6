//! A program that runs, and what it says.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long anything may take that should take no time.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that runs. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its status, if no signal ended it.
    pub status: Option<i32>,
    /// What it printed.
    pub printed: String,
    /// What it said on standard error.
    pub said: Vec<String>,
    /// How long the end took, from when it was waited for.
    pub took: Duration,
}

impl Process {
    /// Starts a program with these variables, and no others, and these arguments.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(program: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        let child = Command::new(program)
            .env_clear()
            .envs(variables.iter().copied())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => panic!("{program} cannot be started: {error}"),
        };
        let (sender, lines) = channel();
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Self {
            child,
            lines,
            said: Vec::new(),
        }
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says something with these words, and gives the line.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn says(&mut self, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(end - Instant::now()) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(words) {
                        return line;
                    }
                }
                Err(_) => panic!("it does not say {words:?}, but: {:#?}", self.said),
            }
        }
    }

    /// Sends it a signal.
    ///
    /// # Panics
    ///
    /// If it is gone.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).map(Pid::from_raw);
        let sent = id.map(|id| kill(id, signal));
        assert!(
            matches!(sent, Ok(Ok(()))),
            "{signal} cannot be sent: {sent:?}"
        );
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// If it does not come.
    pub fn ended(mut self) -> Ended {
        let start = Instant::now();
        let end = start + PATIENCE;
        loop {
            match self.lines.recv_timeout(end - Instant::now()) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("it does not end, and says {:#?}", self.said)
                }
            }
        }
        let mut printed = String::new();
        if let Some(stdout) = &mut self.child.stdout {
            // What is no text is no output either.
            let _ = stdout.read_to_string(&mut printed);
        }
        let status = match self.child.wait() {
            Ok(status) => status.code(),
            Err(error) => panic!("it cannot be waited for: {error}"),
        };
        Ended {
            status,
            printed,
            said: std::mem::take(&mut self.said),
            took: start.elapsed(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended, as a rule.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
