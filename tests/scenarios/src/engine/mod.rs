//! Plays a scenario, step by step.

mod at;
mod calls;
mod ours;
mod pods;
mod watch;
mod window;

use crate::chain::{Directory, chain};
use crate::expect::Scene;
use crate::model::{self, Action, ElementConfig, FaultEffect, Place, Scenario, Step, step_text};
use crate::picture::{Asked, Picture};
use crate::problem::Problem;
use crate::report::Failure;
use crate::wanted::Routes;
use crate::warnings::Warnings;
use crate::world::Pod;
use at::At;
use calls::Client;
use futures_util::future::{LocalBoxFuture, join_all};
use nsm_chain::{BoxNetworkService, ErrorChain};
use nsm_netlink::Selector;
use nsm_netlink::fault::{Effect, Fault, Faults, Faulty};
use nsm_policyroute::Config;
use pods::Pods;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;
use window::Window;

/// What a step does, or what is wrong.
type Played = Result<(), Vec<Problem>>;

/// Everything that a scenario changes. Branches that run at the same time share it.
pub struct Engine<'s, P: Pod> {
    scenario: &'s Scenario,
    source: &'s str,
    warnings: Warnings,
    rng: RefCell<fastrand::Rng>,
    pods: Pods<P>,
    directory: Directory<Faulty<P::Namespace>>,
    faults: Faults,
    /// The faults that must be hit, each with where it is written.
    due_faults: RefCell<Vec<(Fault, At<'s>, Place)>>,
    elements: RefCell<Vec<Element>>,
    /// How often the elements have started anew.
    generation: Cell<u32>,
    clients: RefCell<BTreeMap<String, Client>>,
    window: RefCell<Window>,
    asked: RefCell<Asked>,
    ever_asked: RefCell<BTreeMap<Selector, Routes>>,
    snapshots: RefCell<BTreeMap<String, Picture>>,
}

/// A process that runs the element.
struct Element {
    name: String,
    config: Config,
    chain: BoxNetworkService,
}

impl<'s, P: Pod> Engine<'s, P> {
    /// A stage for a scenario, with its first pod and its first element. `seed` decides how
    /// branches that run at the same time interleave.
    pub fn new(
        scenario: &'s Scenario,
        source: &'s str,
        warnings: Warnings,
        seed: u64,
    ) -> Result<Self, Failure> {
        let engine = Self {
            scenario,
            source,
            warnings,
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
            pods: Pods::default(),
            directory: Directory::new(),
            faults: Faults::new(),
            due_faults: RefCell::default(),
            elements: RefCell::default(),
            generation: Cell::new(0),
            clients: RefCell::default(),
            window: RefCell::default(),
            asked: RefCell::default(),
            ever_asked: RefCell::default(),
            snapshots: RefCell::default(),
        };
        let links = model::Links::clone(&scenario.links);
        let begun = engine
            .add_pod("", &links)
            .and_then(|()| engine.add_element("", &scenario.config));
        let start = Place { line: 1, column: 1 };
        begun.map_err(|problems| Failure {
            step: "the beginning".to_owned(),
            place: start,
            text: String::new(),
            problems,
        })?;
        Ok(engine)
    }

    /// Plays the whole scenario.
    pub async fn play(&self) -> Result<(), Failure> {
        self.steps(&self.scenario.steps, At::default()).await?;
        let unconsumed = self.faults.unconsumed();
        let due = self.due_faults.borrow();
        match due.iter().find(|(fault, ..)| unconsumed.contains(fault)) {
            None => Ok(()),
            Some((_, at, place)) => {
                let problem = Problem::new("the fault was never hit: the operation did not come");
                Err(self.failure(at, *place, vec![problem]))
            }
        }
    }

    fn steps<'a>(
        &'a self,
        steps: &'s [Step],
        at: At<'s>,
    ) -> LocalBoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            for (index, step) in steps.iter().enumerate() {
                let mut at = at.clone();
                at.steps.push(index + 1);
                at.pod = step.pod.as_deref().or(at.pod);
                if at.in_parallel {
                    self.let_others_go_first().await;
                }
                self.step(step, at).await?;
            }
            Ok(())
        })
    }

    async fn step(&self, step: &'s Step, at: At<'s>) -> Result<(), Failure> {
        let pod = step.pod.as_deref();
        let played = match &step.action {
            Action::Parallel(branches) => return self.parallel(branches, &at).await,
            Action::Repeat(repeat) => return self.repeat(repeat, &at).await,
            Action::Watch(watch) => return self.watch(watch, &at, step.place).await,
            Action::Run { script, fails } => self.run(at.pod, script, *fails),
            Action::Snapshot(name) => self.snapshot(at.pod, name),
            Action::Request(ask) => self.request(ask, at.pod).await,
            Action::Refresh(ask) => self.refresh(ask, pod).await,
            Action::Close(ask) => self.close(ask, pod).await,
            Action::Restart => self.restart(),
            Action::Pod(pod) => self.add_pod(&pod.name, &pod.links),
            Action::Destroy(name) => self.destroy(name),
            Action::Element(element) => self.add_element(&element.name, &element.config),
            Action::Wait(time) => self.wait(*time).await,
            Action::Fault(fault) => self.arm(fault, &at, step.place),
            Action::Expect(expectation) => self.expect(at.pod, expectation),
        };
        played.map_err(|problems| self.failure(&at, step.place, problems))
    }

    fn failure(&self, at: &At<'_>, place: Place, problems: Vec<Problem>) -> Failure {
        let text = step_text(self.source, place);
        Failure {
            step: at.to_string(),
            place,
            text,
            problems,
        }
    }

    async fn repeat(&self, repeat: &'s model::Repeat, at: &At<'s>) -> Result<(), Failure> {
        for round in 1..=repeat.times {
            let mut at = at.clone();
            at.rounds.push((round, repeat.times));
            self.steps(&repeat.steps, at).await?;
        }
        Ok(())
    }

    /// Runs branches at the same time. What a branch waits for is done on other threads; which
    /// branch begins, and which goes on when several can, is drawn.
    async fn parallel(&self, branches: &'s [Vec<Step>], at: &At<'s>) -> Result<(), Failure> {
        let mut order: Vec<(usize, &'s Vec<Step>)> = branches.iter().enumerate().collect();
        self.rng.borrow_mut().shuffle(&mut order);
        let branches = order.into_iter().map(|(index, branch)| {
            let mut at = at.clone();
            at.steps.push(index + 1);
            at.in_parallel = true;
            self.steps(branch, at)
        });
        join_all(branches).await.into_iter().collect()
    }

    async fn let_others_go_first(&self) {
        const MOST: u8 = 8;
        let times = self.rng.borrow_mut().u8(0..MOST);
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    }

    fn snapshot(&self, pod: Option<&str>, name: &str) -> Played {
        let picture = self.pods.get(pod)?.picture()?;
        self.snapshots.borrow_mut().insert(name.to_owned(), picture);
        Ok(())
    }

    fn add_element(&self, name: &str, config: &ElementConfig) -> Played {
        let config = config
            .to_config()
            .map_err(|error| vec![Problem::new(error)])?;
        let chain = chain(&process_name(name), config.clone(), &self.directory);
        let element = Element {
            name: name.to_owned(),
            config,
            chain,
        };
        self.elements.borrow_mut().push(element);
        Ok(())
    }

    /// All elements lose their memory.
    fn restart(&self) -> Played {
        self.generation.set(self.generation.get() + 1);
        self.faults.revive();
        for element in self.elements.borrow_mut().iter_mut() {
            let name = process_name(&element.name);
            element.chain = chain(&name, element.config.clone(), &self.directory);
        }
        for client in self.clients.borrow_mut().values_mut() {
            client.counts = false;
        }
        let ours = self.ours_of_all();
        self.pods.all().iter().try_for_each(|pod| {
            let picture = pod.picture()?;
            *pod.left_over.borrow_mut() = picture.own_rules(&ours).into_iter().cloned().collect();
            Ok(())
        })
    }

    /// Lets time pass. A timer's work is over when the time stands still again.
    async fn wait(&self, time: Duration) -> Played {
        const MOMENT: Duration = Duration::from_millis(1);
        tokio::time::sleep(time).await;
        tokio::time::sleep(MOMENT).await;
        if self.faults.is_killed() {
            self.restart()
        } else {
            Ok(())
        }
    }

    fn arm(&self, fault: &model::Fault, at: &At<'s>, place: Place) -> Played {
        let effect = match fault.effect {
            FaultEffect::Refused(errno) => Effect::Errno(errno),
            FaultEffect::LostAck => Effect::LostAck,
            FaultEffect::KillBefore => Effect::KillBefore,
            FaultEffect::KillAfter => Effect::KillAfter,
        };
        let armed = Fault::once(fault.op, fault.nth as usize, effect);
        self.faults.set(armed);
        if !fault.optional {
            self.due_faults
                .borrow_mut()
                .push((armed, at.clone(), place));
        }
        Ok(())
    }

    fn expect(&self, pod: Option<&str>, expectation: &model::Expectation) -> Played {
        let pod = self.pods.get(pod)?;
        let now = pod.picture()?;
        let ours = self.ours_of_first();
        let warnings = self.warnings.so_far();
        let snapshots = self.snapshots.borrow();
        let scene = Scene {
            now: &now,
            ours: &ours,
            snapshots: &snapshots,
            warnings: &warnings,
        };
        let ask = pod.asker()?;
        let problems = scene.check(expectation, ask);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        }
    }
}

/// The first element has the name of what it stands for.
fn process_name(element: &str) -> String {
    if element.is_empty() {
        "forwarder".to_owned()
    } else {
        element.to_owned()
    }
}

/// Something that went wrong on the stage and not in the play.
fn trouble(error: impl std::error::Error + 'static) -> Vec<Problem> {
    vec![Problem::new(ErrorChain(&error).to_string())]
}
