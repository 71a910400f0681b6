//! The ways back to what is wanted, once nothing goes wrong any more.

use crate::flow::{Call, Flow};
use crate::world::World;
use nsm_chain::ErrorKind;
use policyroute_suite::Machine;
use std::fmt;

/// One way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leg {
    /// The same call comes again, and all that is claimed is refreshed.
    Again,
    /// A connection of somebody else comes and goes.
    Bystander,
    /// The process is restarted, and all calls come again.
    Restart,
    /// All connections are closed.
    Goodbye,
}

impl Leg {
    /// All.
    pub const ALL: [Self; 4] = [Self::Again, Self::Bystander, Self::Restart, Self::Goodbye];

    /// Goes it, up to the moment when nothing waits any more.
    ///
    /// # Errors
    /// Why it could not be gone.
    pub async fn go<M: Machine>(self, flow: &Flow, world: &mut World<M>) -> Result<(), String> {
        match self {
            Self::Again => {
                expect(world, flow, &flow.call).await?;
                world.refresh().await?;
            }
            Self::Bystander => {
                world.bystander().await?;
            }
            Self::Restart => {
                let calls = world.ledger.calls();
                world.restart();
                for call in calls {
                    expect(world, flow, &call).await?;
                }
                world.refresh().await?;
            }
            Self::Goodbye => {
                for (pod, connection) in world.ledger.peers() {
                    expect(world, flow, &Call::close(connection).in_pod(pod)).await?;
                }
            }
        }
        Ok(())
    }
}

/// Makes a call that ends as it does where nothing goes wrong.
async fn expect<M: Machine>(world: &mut World<M>, flow: &Flow, call: &Call) -> Result<(), String> {
    let wanted = flow.fails.filter(|_| matches!(call, Call::Request { .. }));
    let outcome = world.call(call).await;
    if outcome.as_ref().err().map(|error| error.kind()) == wanted {
        return Ok(());
    }
    let end = outcome.map_or_else(|error| error.report().to_string(), |()| well(wanted));
    Err(format!("back on its way: {end}"))
}

fn well(wanted: Option<ErrorKind>) -> String {
    format!("the call went well and not as wanted: {wanted:?}")
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Again => "again",
            Self::Bystander => "a bystander",
            Self::Restart => "a restart",
            Self::Goodbye => "goodbye",
        })
    }
}
