//! A flow in which nothing goes wrong but what the world does.

use crate::checks;
use crate::flow::Flow;
use crate::leg::Leg;
use crate::operation::{Operation, operations};
use crate::picture::{Picture, lines};
use crate::world::World;
use policyroute_suite::Machine;

/// What the clean run of a flow shows.
#[derive(Debug)]
pub struct Clean {
    /// All operations of the call.
    pub operations: Vec<Operation>,
    /// How many sends there are in it, dumps included.
    pub sends: usize,
    /// What stands before.
    pub old: Vec<Picture>,
    /// What stands after.
    pub new: Vec<Picture>,
    /// What stands in the end, by the way there: see [`Leg::ALL`].
    ends: Vec<Vec<String>>,
    /// What stands in the end, where the call under test was never made.
    pub uncalled: Vec<String>,
}

impl Clean {
    /// Runs a flow, and goes all ways on from there.
    ///
    /// # Errors
    /// What is not as the flow says.
    pub async fn run<M: Machine>(flow: &Flow) -> Result<Self, String> {
        let mut world = World::<M>::before(flow).await;
        let old = world.pictures();
        let outcome = world.call(&flow.call).await;
        let asked = world.journal.take();
        let new = world.pictures();
        let kind = outcome.err().map(|error| error.kind());
        if kind != flow.fails {
            return Err(format!(
                "the clean run ends with {kind:?}, not with {:?}",
                flow.fails
            ));
        }
        if lines(&new) != flow.after {
            return Err(format!("after the clean run stands {:#?}", lines(&new)));
        }
        checks::others_are_untouched(&old, &new, None)?;
        checks::sockets_look_again(&world, &old)?;
        let mut ends = Vec::new();
        for leg in Leg::ALL {
            ends.push(end::<M>(flow, leg, true).await?);
        }
        Ok(Self {
            sends: asked.iter().filter(|(_, asking)| asking.is_sent()).count(),
            operations: operations(flow, asked, &old, &new),
            old,
            new,
            ends,
            uncalled: end::<M>(flow, Leg::Bystander, false).await?,
        })
    }

    /// What stands at the end of a way.
    pub fn end(&self, leg: Leg) -> &[String] {
        &self.ends[leg as usize]
    }
}

async fn end<M: Machine>(flow: &Flow, leg: Leg, called: bool) -> Result<Vec<String>, String> {
    let mut world = World::<M>::before(flow).await;
    if called {
        // How it ends has been looked at.
        drop(world.call(&flow.call).await);
    }
    leg.go(flow, &mut world).await?;
    world.pass_grace().await;
    Ok(lines(&world.pictures()))
}
