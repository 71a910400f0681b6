//! The story: start everything, kill the forwarder again and again, replace it, end everything.

use super::cli::Arguments;
use super::events::Events;
use super::interrupt::Interrupt;
use super::programs::{Process, Program};
use super::report::{self, Findings};
use super::setting::{ENDPOINTS, EVERYWHERE, client, forwarder, forwarder_socket};
use super::state;
use super::traffic::Traffic;
use super::world::World;
use std::error::Error;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long anything may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long traffic flows between two events.
const SERVED_FOR: Duration = Duration::from_millis(200);
/// How long it flows over a roll-out, once the new forwarder listens: the client has asked it by
/// then.
const ROLLED_FOR: Duration = Duration::from_secs(1);

/// Runs the demo, prints what it found, and tells whether all is well.
pub fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let interrupt = Interrupt::watch()?;
    let folder = Folder::new()?;
    let told = tell(arguments, &interrupt, &folder.0);
    if told.is_err() && !interrupt.is_there() {
        report::logs(&folder.0)?;
    }
    told
}

fn tell(
    arguments: &Arguments,
    interrupt: &Interrupt,
    folder: &Path,
) -> Result<bool, Box<dyn Error>> {
    let world = World::new()?;
    let mut endpoints = Vec::new();
    for (endpoint, netns) in ENDPOINTS.iter().zip(&world.networks) {
        fs::write(endpoint.policy_path(folder), endpoint.policy_file())?;
        let settings = endpoint.settings(folder);
        let name = endpoint.name();
        endpoints.push(Process::start(Program::Nse, name, netns, folder, settings)?);
    }
    let mut forwarding = start_forwarder(&world, folder)?;
    let settings = client(folder);
    let mut nsc = Process::start(Program::Nsc, "nsc", &world.pod, folder, settings)?;

    let rules = ENDPOINTS.len() * EVERYWHERE.len();
    let all_rules = || state::read(&world.pod).is_ok_and(|rows| rows.len() == rules);
    interrupt.wait_until("every policy had its rule", PATIENCE, all_rules)?;
    let traffic = Traffic::start(&world)?;
    interrupt.wait_until("every policy was served", PATIENCE, || traffic.is_served())?;
    let before = state::read(&world.pod)?;
    report::started(&before)?;

    let rule_events = Events::of_rules(&world.pod)?;
    let mut returns = Vec::new();
    let mut strayed = 0;
    for restart in 1..=arguments.restarts {
        interrupt.pass(SERVED_FOR)?;
        forwarding.kill()?;
        world.delete_interfaces()?;
        traffic.begin_epoch();
        forwarding = start_forwarder(&world, folder)?;
        until_listening(interrupt, &mut forwarding, folder)?;
        let back = interrupt.wait_until("every policy was served again", PATIENCE, || {
            traffic.is_served()
        })?;
        report::restarted(restart, arguments.restarts, back)?;
        returns.push(back);
        strayed += usize::from(state::read(&world.pod)? != before);
    }
    let killed = traffic.pause();
    traffic.go_on();

    interrupt.pass(SERVED_FOR)?;
    let everywhere = world.networks.iter().chain([&world.pod]);
    let everything: Vec<_> = everywhere.map(Events::of_all).collect::<Result<_, _>>()?;
    forwarding.stop(interrupt)?;
    forwarding = start_forwarder(&world, folder)?;
    until_listening(interrupt, &mut forwarding, folder)?;
    interrupt.pass(ROLLED_FOR)?;
    let rolled = traffic.pause().since(killed);
    let mut rolled_events = 0;
    for events in everything {
        rolled_events += events.finish()?;
    }
    let after = state::read(&world.pod)?;
    let rule_events = rule_events.finish()?;

    if arguments.keep {
        traffic.go_on();
        report::look_around(&nsc, &forwarding, &endpoints, folder)?;
        while interrupt.pass(Duration::from_secs(3600)).is_ok() {}
    }
    traffic.end();
    nsc.check()?;
    // From here on Ctrl-C is what everything is ended for.
    let calm = Interrupt::never();
    let ends = [nsc.stop(&calm)];
    let left = state::read(&world.pod)?.len() + state::interfaces(&world.pod)?.len();
    let others = endpoints.into_iter().chain([forwarding]);
    let ends = ends.into_iter().chain(others.map(|it| it.stop(&calm)));
    let ends: Vec<_> = ends
        .filter_map(|ended| Some(ended.err()?.to_string()))
        .collect();

    let findings = Findings {
        before,
        after,
        strayed,
        returns,
        rule_events,
        killed,
        rolled,
        rolled_events,
        left,
        ends,
    };
    report::verdict(&findings)?;
    Ok(findings.faults().is_empty())
}

fn start_forwarder(world: &World, folder: &Path) -> io::Result<Process> {
    let settings = forwarder(folder);
    Process::start(
        Program::Forwarder,
        "forwarder",
        &world.node,
        folder,
        settings,
    )
}

/// Waits until somebody takes connections. The file of a forwarder that was killed takes none.
fn until_listening(
    interrupt: &Interrupt,
    forwarder: &mut Process,
    folder: &Path,
) -> Result<(), Box<dyn Error>> {
    let socket = forwarder_socket(folder);
    let listens = || UnixStream::connect(&socket).is_ok();
    interrupt.wait_until("the forwarder listened", PATIENCE, listens)?;
    forwarder.check()
}

/// A folder for sockets, policies and logs, which ends with this value.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("three-processes-{}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left: there is nobody to tell.
        fs::remove_dir_all(&self.0).ok();
    }
}
