//! Where a situation is played: one of the two elements, and what is counted.

use super::Error;
use super::calls::{self, Op};
use super::connection::{Connection, Policy};
use super::figure::{Figure, Figures};
use super::pod::{Heard, Packet, Pod};
use crate::driver::{Answer, Answers, Driver, Outcome, Program};
use nsm_netlink::{Event, Object};
use std::thread;

/// One round of a situation with one of the two elements.
#[derive(Debug)]
pub(crate) struct Stage {
    program: Program,
    driver: Driver,
    /// Whether the driver is still there to be asked.
    alive: bool,
    closed_below: u64,
    figures: Figures,
}

impl Stage {
    pub(crate) fn new(program: &Program) -> Result<Self, Error> {
        let mut figures = Figures::default();
        // What is told first, where it happens.
        for what in [
            "calls without end",
            "crashes of the process",
            "calls failed",
        ] {
            figures.add(Figure::new(what, 0, 0));
        }
        Ok(Self {
            program: program.clone(),
            driver: Driver::start(program)?,
            alive: true,
            closed_below: 0,
            figures,
        })
    }

    pub(crate) fn finish(self) -> Figures {
        self.figures
    }

    /// The process ends and another one begins.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        self.driver = Driver::start(&self.program)?;
        self.alive = true;
        self.closed_below = 0;
        Ok(())
    }

    /// A request that has to succeed. The client keeps what it is answered.
    pub(crate) fn request(&mut self, connection: &mut Connection) -> Result<(), Error> {
        let answer = self.call(&Op::Request(connection.clone()))?;
        self.must_succeed(answer.as_ref());
        if answer.is_some_and(|answer| answer.ok) {
            connection.asked.clone_from(&connection.policies);
        }
        Ok(())
    }

    /// A close that has to succeed.
    pub(crate) fn close(&mut self, connection: &Connection) -> Result<(), Error> {
        let answer = self.call(&Op::Close(connection.clone()))?;
        self.must_succeed(answer.as_ref());
        Ok(())
    }

    /// A request that may be refused; none where it has no end.
    pub(crate) fn attempt(&mut self, connection: &Connection) -> Result<Option<Answer>, Error> {
        self.call(&Op::Request(connection.clone()))
    }

    /// Whether a request is refused.
    pub(crate) fn refuses(&mut self, connection: &Connection) -> Result<bool, Error> {
        let answer = self.attempt(connection)?;
        Ok(answer.is_some_and(|answer| !answer.ok))
    }

    /// A close that may fail.
    pub(crate) fn attempt_close(&mut self, connection: &Connection) -> Result<(), Error> {
        self.call(&Op::Close(connection.clone())).map(drop)
    }

    /// Requests at the same time, all of which have to succeed.
    pub(crate) fn request_all(&mut self, connections: &mut [Connection]) -> Result<(), Error> {
        if !self.alive {
            return Ok(());
        }
        let ops: Vec<Op> = connections.iter().cloned().map(Op::Request).collect();
        let outcome = calls::parallel(&mut self.driver, &ops)?;
        self.all_must_succeed(outcome);
        for connection in connections {
            connection.asked.clone_from(&connection.policies);
        }
        Ok(())
    }

    /// As [`Self::request_all`], and another process of the same kind has its own at the same time.
    pub(crate) fn request_beside(
        &mut self,
        ours: &[Connection],
        theirs: &[Connection],
    ) -> Result<(), Error> {
        let mut other = Self::new(&self.program)?;
        thread::scope(|scope| {
            let beside = scope.spawn(|| other.request_all(&mut theirs.to_vec()));
            self.request_all(&mut ours.to_vec())?;
            beside.join().map_err(|_| "the other one panicked")?
        })?;
        let other = other.finish();
        self.figures.add_all(other);
        Ok(())
    }

    /// The same request again and again.
    pub(crate) fn refresh(&mut self, connection: &Connection, times: usize) -> Result<(), Error> {
        if !self.alive {
            return Ok(());
        }
        let ops = [Op::Request(connection.clone())];
        let outcome = calls::series(&mut self.driver, &ops, times)?;
        self.all_must_succeed(outcome);
        Ok(())
    }

    fn call(&mut self, op: &Op) -> Result<Option<Answer>, Error> {
        if !self.alive {
            return Ok(None);
        }
        let outcome = calls::one(&mut self.driver, op)?;
        let answer = self.took(outcome);
        if let Some(answer) = &answer {
            self.closed_below = answer.closed_below;
        }
        Ok(answer)
    }

    fn took<T>(&mut self, outcome: Outcome<T>) -> Option<T> {
        let what = match outcome {
            Outcome::Answered(answer) => return Some(answer),
            Outcome::Endless => "calls without end",
            Outcome::Crashed => "crashes of the process",
        };
        self.alive = false;
        self.count(what, 1, 0);
        None
    }

    fn all_must_succeed(&mut self, outcome: Outcome<Answers>) {
        let answers = self.took(outcome).map(|all| all.answers);
        for answer in answers.unwrap_or_default() {
            self.must_succeed(Some(&answer));
        }
    }

    fn must_succeed(&mut self, answer: Option<&Answer>) {
        let failed = answer.filter(|answer| !answer.ok);
        self.count("calls failed", usize::from(failed.is_some()), 0);
        let error = failed.and_then(|answer| answer.error.clone());
        self.figures.errors.extend(error);
    }

    /// How often the endpoint has been told of an end.
    pub(crate) fn count_closed_below(&mut self, right: usize) {
        let found = self.closed_below as usize;
        self.count("connections closed at the endpoint", found, right);
    }

    /// How many namespaces the driver holds.
    pub(crate) fn namespaces_held(&self) -> Result<usize, Error> {
        calls::namespaces(&self.driver)
    }

    pub(crate) fn count(&mut self, what: &'static str, found: usize, right: usize) {
        self.figures.add(Figure::new(what, found, right));
    }

    /// Asks the kernel for the way of a packet of each policy.
    pub(crate) fn ways(&mut self, pod: &Pod, connection: &Connection) -> Result<(), Error> {
        for policy in connection.policies() {
            self.way(pod, connection, policy)?;
        }
        self.stood(pod)
    }

    /// Asks the kernel for the way of a packet of a policy.
    pub(crate) fn way(
        &mut self,
        pod: &Pod,
        connection: &Connection,
        policy: &Policy,
    ) -> Result<(), Error> {
        let (packet, right) = connection.way(policy)?;
        let found = pod.way(&packet)?;
        let is_right = found.as_ref() == Some(&right);
        self.count("lookups right", usize::from(is_right), 1);
        let elsewhere =
            found.is_some_and(|way| way.dev.starts_with("nsm-") && way.dev != right.dev);
        self.count(
            "lookups by another connection's interface",
            usize::from(elsewhere),
            0,
        );
        Ok(())
    }

    /// Asks for the way of the pod's own traffic, and whether the kernel still knows its address.
    pub(crate) fn own_way(&mut self, pod: &Pod) -> Result<(), Error> {
        let own = "192.168.0.2".parse()?;
        for (to, dev) in [("198.51.100.8".parse()?, "eth0"), (own, "lo")] {
            let packet = Packet {
                from: own,
                to,
                proto: None,
                sport: None,
                dport: None,
            };
            let right = pod.way(&packet)?.is_some_and(|way| way.dev == dev);
            self.count(
                "lookups of the pod's own traffic right",
                usize::from(right),
                1,
            );
        }
        Ok(())
    }

    /// Counts the element's rules, and those that lead nowhere.
    pub(crate) fn rules(&mut self, pod: &Pod, right: usize) -> Result<(), Error> {
        let installed = pod.installed()?;
        self.count("rules", installed.rules.len(), right);
        self.count("rules on an empty table", installed.on_empty_tables(), 0);
        self.stood(pod)
    }

    /// Nothing of the element may be left.
    pub(crate) fn nothing_left(&mut self, pod: &Pod) -> Result<(), Error> {
        let installed = pod.installed()?;
        self.count("rules left", installed.rules.len(), 0);
        self.count("routes left", installed.routes.len(), 0);
        self.stood(pod)
    }

    /// Nothing of others may be lost.
    pub(crate) fn others(&mut self, pod: &Pod) -> Result<(), Error> {
        let lost = pod.lost()?;
        self.count("rules of others lost", lost.rules.len(), 0);
        self.count("routes of others lost", lost.routes.len(), 0);
        self.stood(pod)
    }

    /// Nothing may have been written that what is heard tells of.
    pub(crate) fn silence(&mut self, heard: &mut Heard) -> Result<(), Error> {
        let events = heard.events()?;
        let is_rule = |event: &&Event| matches!(event.object, Object::Rule(_));
        let rules = events.iter().filter(is_rule).count();
        self.count("writes of rules", rules, 0);
        self.count("writes of routes", events.len() - rules, 0);
        Ok(())
    }

    /// What stands, for those who want to see it.
    fn stood(&mut self, pod: &Pod) -> Result<(), Error> {
        self.figures.stood = pod.installed()?.lines();
        Ok(())
    }
}
