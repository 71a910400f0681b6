//! A history from its beginning to its end, each step held against the models.

mod call;

use crate::content::Content;
use crate::element::{Answer, Element};
use crate::judge::Problem;
use crate::model::{Model, Seen};
use crate::picture::Picture;
use crate::script::Script;
use crate::small_world::{CONNECTIONS, Who};
use crate::step::Step;
use crate::tally::Tally;
use crate::turn::Turn;
use crate::world::{Done, World};
use call::Call;
use nsm_netlink::KernelError;
use nsm_netlink::fault::{Fault, Faults};
use policyroute_suite::Machine;
use std::time::Duration;
use tokio::time::Instant;

/// Settings and steps.
#[derive(Debug, Clone)]
pub struct History {
    /// Whether traffic of a policy is refused while its interface is away.
    pub fail_closed: bool,
    /// What happens.
    pub steps: Vec<Step>,
}

/// A history that does not hold.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The history up to there, as a scenario file.
    pub scenario: String,
}

/// Plays a history in a pod of its own.
///
/// # Errors
/// At the first step after which something does not hold.
pub fn play<M: Machine>(history: &History) -> Result<Tally, Failure> {
    // Time jumps to the next timer when nobody has anything to do.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let scenario = format!("# no runtime: {error}");
            return Err(Failure { scenario });
        }
    };
    runtime.block_on(async {
        let mut play = Play::<M>::begin(history.fail_closed);
        for step in &history.steps {
            play.step(step)
                .await
                .map_err(|problems| play.failure(problems))?;
        }
        Ok(play.tally)
    })
}

/// What does not hold after a step.
type Played = Result<(), Vec<Problem>>;

/// The client's side of a connection.
#[derive(Debug, Clone, Default)]
struct Client {
    /// The content of its last success.
    content: Option<Content>,
    open: bool,
}

struct Play<M: Machine> {
    world: World<M>,
    faults: Faults,
    elements: [Element<M>; 2],
    models: [Model; 2],
    clients: [Client; CONNECTIONS.len()],
    script: Script,
    tally: Tally,
}

impl<M: Machine> Play<M> {
    fn begin(fail_closed: bool) -> Self {
        let (world, faults) = (World::boot(), Faults::new());
        let element = |who| Element::start(who, fail_closed, world.machine(), &faults);
        let elements = Who::ALL.map(element);
        Self {
            world,
            faults,
            elements,
            models: Who::ALL.map(|who| Model::new(who, fail_closed)),
            clients: Default::default(),
            script: Script::new(fail_closed),
            tally: Tally::default(),
        }
    }

    fn failure(&self, problems: Vec<Problem>) -> Failure {
        let scenario = match self.world.picture() {
            Ok(after) => self.script.file(&problems, &self.models[0], &after),
            Err(error) => format!("# the kernel cannot be asked: {error}"),
        };
        Failure { scenario }
    }

    async fn step(&mut self, step: &Step) -> Played {
        let done = match step {
            Step::Request {
                connection,
                content,
            } => {
                return self.call(step, *connection, Call::Request(content)).await;
            }
            Step::Refresh { connection } => {
                return self.call(step, *connection, Call::Refresh).await;
            }
            Step::Close { connection } => return self.call(step, *connection, Call::Close).await,
            Step::Wait(time) => return self.wait(step, *time).await,
            Step::Restart { links_lost } => return self.restart(step, *links_lost),
            // One at a time, so that what it may spoil is known.
            Step::Fault { .. } if !self.faults.unconsumed().is_empty() => return Ok(()),
            Step::Fault { op, nth, effect } => {
                self.faults.set(Fault::once(*op, *nth, *effect));
                self.script.fault(*op, *nth, *effect);
                self.tally.step(step);
                return Ok(());
            }
            Step::Link { link, event } => self.world.link(*link, *event),
            Step::Address {
                link,
                family,
                there,
            } => self.world.address(*link, *family, *there),
            Step::Deleted(deleted) => self.world.delete(*deleted),
            Step::Foreign(foreign) => self.world.make(*foreign),
            Step::ForeignGone { which } => self.world.unmake(*which),
            Step::LeftBehind(left) => self.world.leave_behind(*left),
        };
        self.told(step, done)
    }

    fn told(&mut self, step: &Step, done: Result<Done, KernelError>) -> Played {
        if let Some(commands) = done.map_err(trouble)? {
            self.script.run(&commands);
            self.tally.step(step);
        }
        Ok(())
    }

    fn start_anew(&mut self) {
        self.elements.iter_mut().for_each(Element::restart);
        self.models.iter_mut().for_each(Model::restarted);
    }

    fn restart(&mut self, step: &Step, links_lost: bool) -> Played {
        self.tally.step(step);
        self.tally.restarted(&self.models);
        self.start_anew();
        self.script.restart();
        if links_lost {
            for link in [0, 1] {
                let done = self.world.link(link, crate::step::LinkEvent::Remade);
                if let Some(commands) = done.map_err(trouble)? {
                    self.script.run(&commands);
                }
            }
        }
        Ok(())
    }

    async fn wait(&mut self, step: &Step, time: Duration) -> Played {
        const MOMENT: Duration = Duration::from_millis(1);
        self.tally.step(step);
        let end = Instant::now() + time + MOMENT;
        if self.models.iter().all(|model| model.may_wake(end)) {
            // Both may work at the same time, and nobody knows whom the fault would meet.
            self.faults.clear();
        }
        let begun = self.look()?;
        let begin = Instant::now();
        tokio::time::sleep(time).await;
        // Time goes on only when nobody works any more.
        tokio::time::sleep(MOMENT).await;
        self.script.wait(time);
        let at_work = Who::ALL.map(Who::owner);
        let killed = self.faults.is_killed();
        let mut problems = Vec::new();
        for at in [0, 1] {
            let seen = self.see(at, begun.clone(), Ok(()))?;
            if killed {
                let turn = Turn::timer(self.models[at].claims());
                problems.extend(self.models[at].killed(&turn, &at_work, &seen));
            } else {
                problems.extend(self.models[at].waited(begin, &at_work, &seen));
                self.tally.waited(&self.models[at], &seen);
            }
        }
        if killed {
            self.tally.killed();
            self.faults.revive();
            self.start_anew();
        }
        held(problems)
    }

    fn look(&self) -> Result<(Picture, Vec<Fault>), Vec<Problem>> {
        Ok((
            self.world.picture().map_err(trouble)?,
            self.faults.unconsumed(),
        ))
    }

    fn see(
        &mut self,
        at: usize,
        (before, armed): (Picture, Vec<Fault>),
        answer: Answer,
    ) -> Result<Seen, Vec<Problem>> {
        let after = self.world.picture().map_err(trouble)?;
        let record = self.elements[at]
            .recorder
            .take(&before.links, &before.foreign_legs);
        self.script.wrote(&record);
        let left = self.faults.unconsumed();
        let hit = armed.into_iter().find(|fault| !left.contains(fault));
        Ok(Seen {
            before,
            after,
            record,
            answer,
            hit,
            now: Instant::now(),
        })
    }

    /// A namespace is held while there are claims in it, or left-overs that wait.
    fn holds(&self, at: usize) -> Played {
        let held = self.elements[at].holds();
        match self.models[at].holds() {
            Some(expected) if expected != held => Err(vec![Problem::wrong(format!(
                "{held} namespaces are held, not {expected}"
            ))]),
            _ => Ok(()),
        }
    }
}

fn held(problems: Vec<Problem>) -> Played {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

fn trouble(error: KernelError) -> Vec<Problem> {
    vec![Problem::wrong(format!(
        "the kernel cannot be asked: {error}"
    ))]
}
