//! This program once more, as the process that a flow happens to: it works in the pods of the
//! process that started it.

use crate::flow::Flow;
use crate::flows;
use crate::lent::{Estate, Lent};
use crate::twist::Side;
use crate::world::World;
use libtest_mimic::Failed;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nsm_chain::Error;
use std::fmt;
use std::io;
use std::process::{Command, ExitCode, Output};

/// The first argument of a child.
const CHILD: &str = "--child";
/// What a child says of a call that goes well.
pub const WELL: &str = "well";

/// What becomes of a child while it makes the call under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It dies at this send.
    Dies(usize, Side),
    /// It has no power over the pod any more, which it is in.
    IsPowerless,
    /// It gets no descriptor any more.
    IsFull,
}

impl Fate {
    fn read(words: &mut impl Iterator<Item = String>) -> Option<Self> {
        match words.next()?.as_str() {
            "dies-before" => Some(Self::Dies(words.next()?.parse().ok()?, Side::Before)),
            "dies-after" => Some(Self::Dies(words.next()?.parse().ok()?, Side::After)),
            "is-powerless" => Some(Self::IsPowerless),
            "is-full" => Some(Self::IsFull),
            _ => None,
        }
    }
}

/// As a child is told.
impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dies(at, Side::Before) => write!(f, "dies-before {at}"),
            Self::Dies(at, Side::After) => write!(f, "dies-after {at}"),
            Self::IsPowerless => write!(f, "is-powerless"),
            Self::IsFull => write!(f, "is-full"),
        }
    }
}

/// Lets a flow happen to another process, and waits for its end.
///
/// # Errors
/// When there is none.
pub fn run(flow: &Flow, fate: Fate, pods: &Estate) -> io::Result<Output> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(CHILD)
        .arg(flow.name)
        .args(fate.to_string().split(' '))
        .args(pods.names());
    command.output()
}

/// Whether this process is a child; then it does what it is for.
pub fn is_one() -> Option<ExitCode> {
    let mut words = std::env::args().skip(1);
    if words.next()? != CHILD {
        return None;
    }
    let name = words.next()?;
    let flow = flows::all().into_iter().find(|flow| flow.name == name)?;
    let fate = Fate::read(&mut words)?;
    let names: Vec<String> = words.collect();
    let pods = Estate::open(names.iter().map(String::as_str)).unwrap();
    Some(suffer(&flow, fate, &pods))
}

#[allow(
    clippy::print_stdout,
    reason = "it is read by the process that started this one"
)]
fn suffer(flow: &Flow, fate: Fate, pods: &Estate) -> ExitCode {
    pods.lend();
    let outcome = match fate {
        Fate::IsPowerless => without_power(flow, pods),
        _ => crate::paused(async {
            let mut world = World::<Lent>::before(flow).await;
            match fate {
                Fate::Dies(at, side) => world.journal.die_at(at, side),
                _ => take_no_descriptor(),
            }
            Ok(world.call(&flow.call).await)
        }),
    };
    let said = outcome.unwrap().map_err(|error| error.kind().to_string());
    println!("{}", said.map_or_else(|kind| kind, |()| WELL.to_owned()));
    ExitCode::SUCCESS
}

/// In another user namespace a process has no power over what belongs to the first. It goes there
/// alone, so that the threads of what was before have to be gone.
fn without_power(flow: &Flow, pods: &Estate) -> Result<Result<(), Error>, Failed> {
    setns(pods.first(), CloneFlags::CLONE_NEWNET).unwrap();
    let mut world = crate::paused(async { Ok(World::<Lent>::before(flow).await) })?;
    // A thread that its runtime has joined may not have left the process yet.
    while std::fs::read_dir("/proc/self/task").unwrap().count() > 1 {
        std::thread::yield_now();
    }
    unshare(CloneFlags::CLONE_NEWUSER).unwrap();
    crate::paused(async { Ok(world.call(&flow.call).await) })
}

fn take_no_descriptor() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 0, hard).unwrap();
}
