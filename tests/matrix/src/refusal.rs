//! What the real kernel refuses by itself: to a process without power, to one without descriptors,
//! and by an interface that goes between the reading and the writing.

use crate::checks;
use crate::child::{self, Fate, WELL};
use crate::clean::Clean;
use crate::flow::{Call, Flow};
use crate::leg::Leg;
use crate::lent::{Estate, Lent};
use crate::operation::{Operation, Purpose, What};
use crate::picture::{Picture, lines};
use crate::rest::{Goodbye, converged};
use crate::tally::Tally;
use crate::world::World;
use libtest_mimic::{Failed, Trial};
use nsm_api::connection::Connection;
use nsm_chain::ErrorKind;
use nsm_netlink::OpKind;
use policyroute_suite::{Machine, Pod};

/// The call of a flow, made by a child that is refused everything it would need.
pub fn of_a_child(flow: Flow, fate: Fate, tally: &Tally) -> Trial {
    let tally = tally.clone();
    Trial::test(
        format!("{}::refusals::{fate}::{}", Lent::NAME, flow.name),
        move || {
            crate::paused(async {
                let clean = Clean::run::<Lent>(&flow).await.map_err(Failed::from)?;
                tally.add("refusals", flow.name, 1);
                let pods = Estate::create(flow.pods());
                let child = child::run(&flow, fate, &pods)?;
                let said = String::from_utf8_lossy(&child.stdout);
                let wanted = outcome(&flow, &clean.operations, fate);
                let wanted = wanted.map_or_else(|| WELL.to_owned(), |kind| kind.to_string());
                if said.trim() != wanted {
                    return Err(
                        format!("the call ends with {child:?}, and should with {wanted}").into(),
                    );
                }
                pods.lend();
                let now = World::<Lent>::after_a_death(&flow).pictures();
                if now != clean.old {
                    return Err(format!("stands {now:#?}, before stood {:#?}", clean.old).into());
                }
                Ok(())
            })
        },
    )
}

/// How such a call ends: who may not write can read all the same. A close that cannot hand a policy
/// over to another connection takes nothing of it away.
fn outcome(flow: &Flow, operations: &[Operation], fate: Fate) -> Option<ErrorKind> {
    let is = |purpose| operations.iter().any(|it| it.purpose() == Some(purpose));
    let needs_to_write = match flow.call {
        Call::Request { .. } => is(Purpose::Own),
        Call::Close { .. } => is(Purpose::Removal) && !is(Purpose::Other),
        Call::Wait => return None,
    };
    match fate {
        Fate::IsFull => Some(ErrorKind::Unavailable),
        _ => needs_to_write.then_some(ErrorKind::PermissionDenied),
    }
}

/// What an interface does between the reading and the writing.
#[derive(Debug, Clone, Copy)]
enum Leaving {
    GoesDown,
    Goes,
}

impl Leaving {
    fn leave<M: Machine>(self, pod: &Pod<M>, name: &str) {
        match self {
            Self::GoesDown => pod.set_down(name),
            Self::Goes => pod.delete_link(name),
        }
    }

    fn come_back<M: Machine>(self, pod: &Pod<M>, name: &str) {
        match self {
            Self::GoesDown => pod.set_up(name),
            Self::Goes => pod.add_link(name),
        }
    }
}

/// Before each burst that adds routes for the connection at hand, its interface goes; it comes
/// back, and so does the call.
pub fn of_an_interface<M: Machine>(flow: Flow, tally: &Tally) -> Trial {
    let tally = tally.clone();
    Trial::test(
        format!("{}::refusals::interface::{}", M::NAME, flow.name),
        move || {
            crate::paused(async {
                let clean = Clean::run::<M>(&flow).await.map_err(Failed::from)?;
                let mut wrong = Vec::new();
                let mut cells = 0;
                for operation in clean.operations.iter().filter(|it| begins_to_make(it)) {
                    // One that comes back new has forgotten what makes the call fail in any case.
                    let ways = [Leaving::GoesDown, Leaving::Goes].into_iter();
                    for leaving in ways.take(if flow.fails.is_some() { 1 } else { 2 }) {
                        cells += 1;
                        if let Err(reason) = leave::<M>(&flow, &clean, operation, leaving).await {
                            wrong.push((format!("{operation} x {leaving:?}"), reason));
                        }
                    }
                }
                tally.add("refusals", flow.name, cells);
                crate::verdict(cells, wrong)
            })
        },
    )
}

fn begins_to_make(operation: &Operation) -> bool {
    matches!(
        operation.what,
        What::Write {
            purpose: Purpose::Own,
            burst: (_, 1),
            ..
        }
    ) && operation.kind() == Some(OpKind::AddRoute)
}

async fn leave<M: Machine>(
    flow: &Flow,
    clean: &Clean,
    operation: &Operation,
    leaving: Leaving,
) -> Result<(), String> {
    let Some(connection) = flow.call.connections().pop() else {
        return Ok(());
    };
    let kernel = Connection::kernel_mechanism(connection).ok_or("no interface")?;
    let name = kernel.interface_name().ok_or("no interface")?.to_owned();
    let mut world = World::<M>::before(flow).await;
    let pod = world.pods[operation.pod].clone();
    let (there, goes) = (pod.clone(), name.clone());
    pod.faults
        .meanwhile(OpKind::AddRoute, operation.nth, move || {
            leaving.leave(&there, &goes)
        });

    let outcome = world.call(&flow.call).await;
    let kind = outcome.err().map(|error| error.kind());
    if kind != Some(ErrorKind::FailedPrecondition) {
        return Err(format!("the call ends with {kind:?}"));
    }
    let now = world.pictures();
    let is_new = |selector| {
        !clean
            .old
            .iter()
            .any(|old| old.policies.contains_key(selector))
    };
    let mut policies = now.iter().flat_map(|now| &now.policies);
    if policies.any(|(selector, content)| is_new(selector) && content.is_empty()) {
        return Err(format!(
            "a rule is new on an empty table: {:?}",
            lines(&now)
        ));
    }
    leaving.come_back(&pod, &name);
    let before = world.pictures();
    let outcome = world.call(&flow.call).await;
    if outcome.as_ref().err().map(|error| error.kind()) != flow.fails {
        return Err(format!("again it ends with {outcome:?}"));
    }
    world.pass_grace().await;
    converged(&world.pictures(), clean.end(Leg::Again))?;
    checks::memory_is_the_claims(&world, &world.pictures(), false)?;
    let before: &[Picture] = &before;
    Goodbye {
        flow,
        before,
        guest: None,
        names_everything: false,
    }
    .say(&mut world)
    .await
}
