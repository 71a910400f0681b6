//! The three programs, as processes.
//!
//! `cargo run -p three-processes` builds this program and no other, and cargo has no stable way to
//! say that a program needs the binaries of others. So the programs are libraries whose binaries
//! have nothing but a call of `main`, and the demo executes itself under their names: what runs in
//! each process is the program, from its first line to its last.

use super::interrupt::Interrupt;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, getppid};
use nsm_netlink::Netns;
use std::env;
use std::error::Error;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

/// How long a program may take to end that was told to.
const END: Duration = Duration::from_secs(25);
/// The process that started a program, for it to see whether that is still there.
const PARENT: &str = "THREE_PROCESSES_PARENT";

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The endpoint.
    Nse,
    /// The forwarder.
    Forwarder,
    /// The client.
    Nsc,
}

impl Program {
    const ALL: [Self; 3] = [Self::Nse, Self::Forwarder, Self::Nsc];

    fn name(self) -> &'static str {
        match self {
            Self::Nse => "nse",
            Self::Forwarder => "forwarder",
            Self::Nsc => "nsc",
        }
    }

    fn main(self) -> fn() -> ExitCode {
        match self {
            Self::Nse => nse::main,
            Self::Forwarder => forwarder::main,
            Self::Nsc => nsc::main,
        }
    }
}

/// The program under whose name this process was started, if it is one of the three.
pub fn called_as() -> Option<fn() -> ExitCode> {
    let name = env::args_os().next()?;
    let program = Program::ALL
        .into_iter()
        .find(|program| name == program.name())?;
    // A demo that is killed ends nobody. So its programs end with it, also when that was between
    // their birth and this line.
    let parent = env::var(PARENT).ok()?.parse().ok()?;
    prctl::set_pdeathsig(Signal::SIGKILL).ok()?;
    // The demo blocks the signals that it waits for, and what it starts has inherited that.
    SigSet::empty().thread_set_mask().ok()?;
    if getppid() != Pid::from_raw(parent) {
        return Some(|| ExitCode::FAILURE);
    }
    Some(program.main())
}

/// A program that runs. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

/// A program has not ended well.
#[derive(Debug, thiserror::Error)]
#[error("{name} ended with {status}; its log is {}", .log.display())]
pub struct NotWell {
    name: String,
    status: ExitStatus,
    log: PathBuf,
}

impl Process {
    /// Starts a program in a namespace. Its log goes to a file of its name in `folder`, behind that
    /// of others of the same name.
    ///
    /// To be called by the main thread: a program ends with the thread that started it.
    pub fn start(
        program: Program,
        name: impl Into<String>,
        netns: &Netns,
        folder: &Path,
        settings: Vec<(&'static str, String)>,
    ) -> io::Result<Self> {
        let name = name.into();
        let log = folder.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(program.name())
            // Nothing of the user's own settings.
            .env_clear()
            .env(PARENT, std::process::id().to_string())
            .envs(settings)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            // Ctrl-C is the demo's: it ends the others in order.
            .process_group(0);
        let child = netns.enter(|| command.spawn())??;
        Ok(Self { name, child, log })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as the kernel does to one that takes too much memory.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }

    /// Asks it to end, and waits for it.
    ///
    /// # Errors
    /// When it does not end in time, or not well.
    pub fn stop(mut self, interrupt: &Interrupt) -> Result<(), Box<dyn Error>> {
        match kill(self.as_pid(), Signal::SIGTERM) {
            // It is a zombie at the most, as long as nobody has waited for it.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        let mut ended = None;
        let what = format!("{} had ended", self.name);
        interrupt.wait_until(&what, END, || {
            ended = self.child.try_wait().ok().flatten();
            ended.is_some()
        })?;
        let status = ended.unwrap_or(ExitStatus::from_raw(0));
        if !status.success() {
            return Err(self.not_well(status).into());
        }
        Ok(())
    }

    /// An error if it has ended by itself.
    pub fn check(&mut self) -> Result<(), Box<dyn Error>> {
        match self.child.try_wait()? {
            Some(status) => Err(self.not_well(status).into()),
            None => Ok(()),
        }
    }

    fn not_well(&self, status: ExitStatus) -> NotWell {
        NotWell {
            name: self.name.clone(),
            status,
            log: self.log.clone(),
        }
    }

    fn as_pid(&self) -> Pid {
        // The kernel's ids are below 2^22.
        Pid::from_raw(self.child.id() as i32)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended and was waited for is not found any more, and that is well.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
