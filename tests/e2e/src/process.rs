//! The programs, as processes.

use crate::usage::{Descriptor, cpu_time, descriptors, lowest_free, resident_kib};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nsm_netlink::Netns;
use rustix::process::{Resource, Rlimit, prlimit};
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::{panicking, sleep};
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
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

/// A program that runs. It is killed when this value is dropped, or when the thread ends that has
/// started it.
#[derive(Debug)]
pub struct Process {
    program: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program in a namespace. Its log is `log`.
    pub fn start(program: &str, netns: &Netns, log: &Path, arguments: &[String]) -> Self {
        Self::start_with(program, netns, log, arguments, &[])
    }

    /// The same, with variables.
    pub fn start_with(
        program: &str,
        netns: &Netns,
        log: &Path,
        arguments: &[String],
        environment: &[(String, OsString)],
    ) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(program)
            .env_clear()
            .env(STARTED, "1")
            .envs(environment.iter().cloned());
        Self::start_command(command, program, netns, log, arguments)
    }

    /// Starts a program of others, under the name of ours in whose place it is. It has to see to it
    /// itself that it ends with whoever has started it.
    pub fn start_at(
        path: &Path,
        program: &str,
        netns: &Netns,
        log: &Path,
        arguments: &[String],
    ) -> Self {
        let mut command = Command::new(path);
        command.env_clear();
        Self::start_command(command, program, netns, log, arguments)
    }

    fn start_command(
        mut command: Command,
        program: &str,
        netns: &Netns,
        log: &Path,
        arguments: &[String],
    ) -> Self {
        let file = File::create(log).unwrap();
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        let child = netns.enter(|| command.spawn()).unwrap().unwrap();
        Self {
            program: program.to_owned(),
            child,
            log: log.to_owned(),
        }
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as the kernel does to one that takes too much memory.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Asks it to end, and gives the status that it ends with.
    #[track_caller]
    pub fn stop(self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.ended()
    }

    /// Waits for it to end, and gives the status that it ends with.
    #[track_caller]
    pub fn ended(mut self) -> Option<i32> {
        let mut status = None;
        until(&format!("{} has ended", self.program), || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// That it still runs.
    #[track_caller]
    pub fn runs(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "{} has ended: {ended:?}", self.program);
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it has logged these words so often.
    #[track_caller]
    pub fn until_logged(&self, words: &str, times: usize) {
        until(words, || self.log().matches(words).count() >= times);
    }

    /// Waits until a client has said so often that a connection stands.
    #[track_caller]
    pub fn until_it_stands(&self, times: usize) {
        self.until_logged("the connection stands", times);
    }

    /// The addresses of the connection with that interface, in order, as a client was told them last.
    pub fn told_addresses(&self, interface: &str) -> Vec<String> {
        let log = self.log();
        let (name, list) = (format!("interface={interface:?}"), "addresses=\"");
        let mut lines = log.lines().rev();
        let line = lines.find(|it| it.contains("the connection stands") && it.contains(&name));
        let rest = line.unwrap().split_once(list).unwrap().1;
        let texts = rest.split('"').next().unwrap().split(',');
        let mut addresses: Vec<_> = texts.map(str::to_owned).collect();
        addresses.sort();
        addresses
    }

    /// Its open descriptors.
    pub fn descriptors(&self) -> Vec<Descriptor> {
        descriptors(self.pid())
    }

    /// Lets it open no descriptor more than it has, and tells how many it might.
    pub fn take_descriptors(&self) -> u64 {
        // One that is open for a moment leaves room for itself, so the lowest of many looks counts.
        let looks = (0..25).map(|_| {
            sleep(Duration::from_millis(2));
            lowest_free(&self.descriptors())
        });
        let limit = looks.min();
        self.limit_descriptors(limit.unwrap().into())
    }

    /// Lets it open so many again.
    pub fn give_descriptors(&self, limit: u64) {
        self.limit_descriptors(limit);
    }

    /// Sets the soft limit, and tells what it was.
    fn limit_descriptors(&self, soft: u64) -> u64 {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32);
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let limit = Rlimit {
            current: Some(soft),
            ..limit
        };
        let former = prlimit(pid, Resource::Nofile, limit).unwrap();
        former.current.unwrap_or(u64::MAX)
    }

    /// The time that it has worked, in user and kernel mode.
    pub fn cpu_time(&self) -> Duration {
        cpu_time(self.pid())
    }

    /// Its resident memory, in KiB.
    pub fn resident_kib(&self) -> u64 {
        resident_kib(self.pid())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended and was waited for is not found any more, and that is well.
        self.child.kill().ok();
        self.child.wait().ok();
        if panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(15)..];
            eprintln!("{} logged at last:\n{}", self.program, last.join("\n"));
        }
    }
}

/// Looks until something has happened, and tells how long that took.
///
/// # Panics
/// When it does not.
#[track_caller]
pub fn until(what: &str, mut happened: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < PATIENCE, "in vain: {what}");
        sleep(Duration::from_millis(2));
    }
    start.elapsed()
}
