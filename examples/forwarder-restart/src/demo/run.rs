//! The run: connect, then restart again and again under traffic, then count.

use super::cli::Arguments;
use super::course::Course;
use super::events::RuleEvents;
use super::foreign;
use super::forwarder::{Forwarder, first_request};
use super::progress::Progress;
use super::state::State;
use super::tally::Datagrams;
use super::topology::Topology;
use super::traffic::Traffic;
use super::verdict::Findings;
use super::world::World;
use nsm_api::networkservice::NetworkServiceRequest;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the datagrams flow between two restarts.
const SERVED_FOR: Duration = Duration::from_millis(50);

/// What the demo has to show.
#[derive(Debug)]
pub struct Outcome {
    /// The figures.
    pub findings: Findings,
    /// What the restarts did to the rules.
    pub course: Course,
    /// How many rules and routes of others stand beside them.
    pub others: usize,
    /// Why the first of the requests failed that did.
    pub failure: Option<String>,
}

/// The user has had enough.
#[derive(Debug, thiserror::Error)]
#[error("interrupted after {0} restarts")]
pub struct Interrupted(u16);

/// Runs the demo.
pub fn run(
    arguments: &Arguments,
    interrupted: &AtomicBool,
    progress: &mut Progress,
) -> Result<Outcome, Box<dyn Error>> {
    let topology = Topology::new(arguments.connections, arguments.policies);
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..10_000));
    let mut shuffle = fastrand::Rng::with_seed(seed);
    let mut order: Vec<usize> = (0..topology.connections.len()).collect();

    let mut world = World::new(&topology)?;
    let others = State::read(world.pod())?;
    let mut clients = Clients::new(&topology);
    world.connect(&topology, &order)?;
    let mut forwarder = Forwarder::start(world.pod(), &topology, arguments.recovery())?;
    let (mut failures, mut served) = (Vec::new(), Vec::new());
    for index in &order {
        // One after the other, so that tables are given in the order of the report.
        failures.extend(clients.request(&forwarder, &[*index], |index| served.push(index)));
    }
    let mut course = Course::new(State::read(world.pod())?.rows(&topology, &others));

    let events = RuleEvents::count(world.pod())?;
    let traffic = Traffic::start(world.pod(), &topology)?;
    served.iter().for_each(|index| traffic.serve(*index));
    for restart in 1..=arguments.restarts {
        thread::sleep(SERVED_FOR);
        if interrupted.load(Ordering::Relaxed) {
            return Err(Interrupted(restart - 1).into());
        }
        traffic.pause();
        world.disconnect()?;
        drop(forwarder);

        shuffle.shuffle(&mut order);
        world.connect(&topology, &order)?;
        forwarder = Forwarder::start(world.pod(), &topology, arguments.recovery())?;
        shuffle.shuffle(&mut order);
        let begin = Instant::now();
        failures.extend(clients.request(&forwarder, &order, |index| traffic.serve(index)));
        let took = begin.elapsed();
        course.restarted(State::read(world.pod())?.rows(&topology, &others), took);
        progress.restarted(restart, took);
    }
    thread::sleep(SERVED_FOR);
    traffic.pause();
    let tally = traffic.finish()?;

    let after = State::read(world.pod())?;
    let homes: Vec<usize> = topology
        .policies
        .iter()
        .map(|policy| policy.connection)
        .collect();
    let findings = Findings {
        recovery: arguments.recovery(),
        restarts: arguments.restarts,
        connections: arguments.connections,
        policies: arguments.policies,
        seed,
        rules_before: course.before.len() as u64,
        rules_kept: course.kept.len() as u64,
        rules_after: course.last.len() as u64,
        policies_astray: course.astray() as u64,
        rule_events: events.finish()?,
        foreign_changed: foreign::changes(&others, &after, &topology) as u64,
        requests_failed: failures.len() as u64,
        datagrams: Datagrams::judge(&tally, &homes, world.places()),
    };
    Ok(Outcome {
        findings,
        course,
        others: others.rules.len() + others.routes.len(),
        failure: failures.into_iter().next(),
    })
}

/// What each client would ask for next.
struct Clients(Vec<NetworkServiceRequest>);

impl Clients {
    fn new(topology: &Topology) -> Self {
        let interfaces = topology.connections.iter().enumerate();
        Self(
            interfaces
                .map(|(index, interface)| first_request(index, interface))
                .collect(),
        )
    }

    /// Lets these clients ask, all at once.
    fn request(
        &mut self,
        forwarder: &Forwarder,
        order: &[usize],
        mut answered: impl FnMut(usize),
    ) -> Vec<String> {
        let asked: Vec<_> = order
            .iter()
            .map(|index| (*index, self.0[*index].clone()))
            .collect();
        forwarder.handle(asked, |index, connection| {
            answered(index);
            self.0[index].connection = Some(connection);
        })
    }
}
