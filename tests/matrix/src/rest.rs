//! What holds when all has come to rest.

use crate::checks;
use crate::flow::{Call, Flow};
use crate::journal::Asking;
use crate::leg::Leg;
use crate::picture::{Picture, STRAY, lines};
use crate::world::World;
use nsm_netlink::Route;
use policyroute_suite::Machine;

/// Exactly what is wanted stands.
///
/// # Errors
/// What is wrong, in words.
pub fn converged(now: &[Picture], wanted: &[String]) -> Result<(), String> {
    if lines(now) != wanted {
        return Err(format!("stands {:#?}, wanted is {wanted:#?}", lines(now)));
    }
    checks::is_tidy(now)
}

/// All that is wanted stands, and beside it nothing but what is old or what no rule looks up.
///
/// # Errors
/// What is wrong, in words.
pub fn at_least(now: &[Picture], wanted: &[String], old: &[Picture]) -> Result<(), String> {
    let (now, old) = (lines(now), lines(old));
    let known = |line: &String| wanted.contains(line) || old.contains(line) || line.contains(STRAY);
    let lacks = wanted.iter().find(|line| !now.contains(line));
    match lacks.or_else(|| now.iter().find(|line| !known(line))) {
        Some(line) => Err(format!(
            "{line} is missing or too many: {now:#?}, {wanted:#?}"
        )),
        None => Ok(()),
    }
}

/// A refresh of what is right writes nothing.
///
/// # Errors
/// What is wrong, in words.
pub async fn refreshes_write_nothing<M: Machine>(world: &mut World<M>) -> Result<(), String> {
    // What is a leg of others shows at the first try.
    world.refresh().await?;
    world.journal.take();
    world.refresh().await?;
    let mut asked = world.journal.take().into_iter();
    match asked.find(|(_, asking)| matches!(asking, Asking::Burst(_))) {
        Some((_, burst)) => Err(format!("an unchanged refresh writes {burst:?}")),
        None => Ok(()),
    }
}

/// A goodbye, after which the pods are as they were. Routes that no rule looks up may wait for
/// whoever comes next.
#[derive(Debug)]
pub struct Goodbye<'a> {
    /// Of which flow.
    pub flow: &'a Flow,
    /// What others had before.
    pub before: &'a [Picture],
    /// A route that somebody else has added since, and in which pod.
    pub guest: Option<&'a (usize, Route)>,
    /// Whether there are rules of which neither the process nor its clients know, so that
    /// everything has to be named once that was ever asked for.
    pub names_everything: bool,
}

impl Goodbye<'_> {
    /// Says it.
    ///
    /// # Errors
    /// What is left.
    pub async fn say<M: Machine>(&self, world: &mut World<M>) -> Result<(), String> {
        Leg::Goodbye.go(self.flow, world).await?;
        world.pass_grace().await;
        if self.names_everything {
            self.name_everything(world).await?;
        }
        if !world.pictures().iter().all(Picture::is_bare) {
            world.bystander().await?;
            world.pass_grace().await;
        }
        let end = world.pictures();
        if !end.iter().all(Picture::is_bare) {
            return Err(format!("in the end is left {:?}", lines(&end)));
        }
        checks::others_are_untouched(self.before, &end, self.guest)?;
        match world.held() {
            0 => checks::memory_is_the_claims(world, &end, false),
            held => Err(format!("in the end {held} namespaces are held")),
        }
    }

    async fn name_everything<M: Machine>(&self, world: &mut World<M>) -> Result<(), String> {
        for pod in 0..world.pods.len() {
            for connection in self.flow.connections() {
                let close = Call::close(connection.clone()).in_pod(pod);
                let outcome = world.call(&close).await;
                outcome.map_err(|error| format!("another close: {}", error.report()))?;
            }
        }
        world.pass_grace().await;
        Ok(())
    }
}
