//! The programs, as processes.

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nsm_netlink::Netns;
use std::env;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Whether the suite has started the process.
const STARTED: &str = "E2E_STARTED";

/// The program under whose name this process was started, if it is one.
pub fn called_as() -> Option<fn() -> ExitCode> {
    env::var_os(STARTED)?;
    let main: fn() -> ExitCode = match env::args().next()?.as_str() {
        "nse" => nse::main,
        "forwarder" => forwarder::main,
        "nsc" => nsc::main,
        _ => return None,
    };
    // A suite that is killed ends nobody, so its programs end with it.
    prctl::set_pdeathsig(Signal::SIGKILL).ok()?;
    Some(main)
}

/// A program that runs. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program in a namespace. Its log is `log`.
    pub fn start(program: &str, netns: &Netns, log: &Path, arguments: &[String]) -> Self {
        let file = File::create(log).unwrap();
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(program)
            .args(arguments)
            .env_clear()
            .env(STARTED, "1")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        let child = netns.enter(|| command.spawn()).unwrap().unwrap();
        Self {
            child,
            log: log.to_owned(),
        }
    }

    /// Kills it, as the kernel does to one that takes too much memory.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and gives the status that it ends with.
    #[track_caller]
    pub fn stop(mut self) -> Option<i32> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        let mut status = None;
        until("a program has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// Waits until it has logged these words so often.
    #[track_caller]
    pub fn until_logged(&self, words: &str, times: usize) {
        until(words, || {
            let log = fs::read_to_string(&self.log).unwrap();
            log.matches(words).count() >= times
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended and was waited for is not found any more, and that is well.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Looks until something has happened.
///
/// # Panics
/// When it does not.
#[track_caller]
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < PATIENCE, "in vain: {what}");
        sleep(Duration::from_millis(2));
    }
}
