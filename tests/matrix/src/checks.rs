//! What holds at every moment, and what holds at rest.

use crate::picture::Picture;
use crate::world::World;
use nsm_api::connection::Connection;
use nsm_netlink::{Family, Op, Route};
use policyroute_suite::Machine;

/// Nothing of others has changed, but for a route that somebody has added.
///
/// # Errors
/// What is wrong, in words.
pub fn others_are_untouched(
    before: &[Picture],
    now: &[Picture],
    guest: Option<&(usize, Route)>,
) -> Result<(), String> {
    for (pod, now) in now.iter().enumerate() {
        let mut others = now.others.clone();
        if let Some((_, route)) = guest.filter(|(at, _)| *at == pod) {
            let found = others.routes.iter().position(|other| other == route);
            others
                .routes
                .remove(found.ok_or("the route that somebody has added is gone")?);
        }
        if others != before[pod].others {
            let (was, is) = (&before[pod].others, &now.others);
            return Err(format!(
                "others are touched in pod {pod}: was {was:?}, is {is:?}"
            ));
        }
    }
    Ok(())
}

/// Each rule has a table of its own, and no probe has stayed behind.
///
/// # Errors
/// What is wrong, in words.
pub fn is_tidy(now: &[Picture]) -> Result<(), String> {
    for now in now {
        if let Some(table) = now.shared_table() {
            return Err(format!("two rules look up table {table}: {:?}", now.lines));
        }
        if now.probes > 0 {
            return Err("a probe has stayed behind".to_owned());
        }
    }
    Ok(())
}

/// The element holds the namespaces of its claims, and no other but where something waits for its
/// end.
///
/// # Errors
/// What is wrong, in words.
pub fn memory_is_the_claims<M: Machine>(
    world: &World<M>,
    now: &[Picture],
    something_may_wait: bool,
) -> Result<(), String> {
    let (held, claimed) = (world.held(), world.ledger.namespaces());
    let claims = world.ledger.claims();
    let sources: Vec<&str> = claims
        .iter()
        .flat_map(|(_, connection)| sources(connection))
        .collect();
    let is_claimed = |line: &String| {
        sources
            .iter()
            .any(|from| line.contains(&format!("from {from} ")))
    };
    let waits = something_may_wait || now.iter().any(|now| !now.lines.iter().all(is_claimed));
    if held < claimed || (held > claimed && !waits) {
        return Err(format!("{held} namespaces are held, {claimed} have claims"));
    }
    match world.journal.opened() {
        0 => Ok(()),
        open => Err(format!("{open} sockets are open")),
    }
}

fn sources(connection: &Connection) -> Vec<&str> {
    connection
        .policies()
        .iter()
        .map(|policy| policy.from.as_str())
        .collect()
}

/// Every IPv6 route that came behind a rule that stood before is followed by a change of some IPv6
/// rule: without it, sockets that have fallen to the main table stay there.
///
/// # Errors
/// What is wrong, in words.
pub fn sockets_look_again<M: Machine>(world: &World<M>, old: &[Picture]) -> Result<(), String> {
    for (pod, old) in world.pods.iter().zip(old) {
        let mut behind = None;
        for write in pod
            .watch
            .writes()
            .into_iter()
            .filter(|write| write.outcome.is_ok())
        {
            match write.op {
                Op::AddRoute(route, _) if route.family() == Family::V6 => {
                    let stands = old.looked_up_by(Family::V6, route.table).is_some();
                    behind = behind.or(stands.then_some(route));
                }
                Op::AddRule(rule) | Op::DelRule(rule) if rule.family() == Family::V6 => {
                    behind = None;
                }
                _ => {}
            }
        }
        if let Some(route) = behind {
            let route = route.display(|_| None);
            return Err(format!(
                "no IPv6 rule has changed after {route}: sockets stay where they are"
            ));
        }
    }
    Ok(())
}
