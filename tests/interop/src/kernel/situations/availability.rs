//! Whether the process goes on to serve.

use super::super::Error;
use super::super::connection::Connection;
use super::super::pod::Pod;
use super::super::stage::Stage;
use super::{Situation, once};

pub(super) const ALL: &[Situation] = &[
    once("bad-policy-asked-again", &[12], bad_policy_again),
    once(
        "bad-policy-asked-again-by-its-id",
        &[12, 18],
        bad_policy_by_its_id,
    ),
    once("bad-policy-of-another-client", &[12], bad_policy_of_another),
    once("rules-cleaned-up-by-somebody", &[13], cleaned_up),
    once("200-refreshes", &[14], refreshes),
    once("answer-without-a-context", &[15], without_context),
];

/// A policy with two routes, of which the kernel refuses the one at this place.
fn refused(pod: &Pod, number: usize, place: usize) -> Connection {
    let connection = Connection::new(pod, number);
    let mut policy = connection.policy();
    policy.routes.insert(place, connection.refused_route());
    connection.with([policy])
}

/// A client that was refused asks under a new id, as one without a path does. Nothing stands by then,
/// so that the table is free in the kernel.
fn bad_policy_again(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let connection = refused(&pod, 1, 0);
    pod.join(&connection)?;
    for id in ["first", "second", "third"] {
        stage.attempt(&connection.clone().renamed(id))?;
    }
    stage.nothing_left(&pod)
}

/// The same under one id, and then the policy is mended.
fn bad_policy_by_its_id(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = refused(&pod, 1, 1);
    pod.join(&connection)?;
    for _ in 0..3 {
        let refused = stage.refuses(&connection)?;
        stage.count("requests refused", usize::from(refused), 1);
    }
    connection = connection.with_two();
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 2)?;
    stage.close(&connection)?;
    stage.nothing_left(&pod)
}

/// The pod's other connection has good policies.
fn bad_policy_of_another(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let bad = refused(&pod, 1, 0);
    let mut good = Connection::new(&pod, 2).with_two();
    for connection in [&bad, &good] {
        pod.join(connection)?;
    }
    stage.attempt(&bad)?;
    stage.request(&mut good)?;
    stage.ways(&pod, &good)
}

/// The interface left before its connection ended, somebody cleaned up what stood, and the pod gets
/// another connection.
fn cleaned_up(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1).with_two();
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    pod.part(&connection)?;
    stage.attempt_close(&connection)?;
    for rule in pod.installed()?.rules {
        let (priority, table) = (rule.priority, rule.table);
        pod.run(&format!("ip rule delete pref {priority} table {table}"))?;
    }
    let mut next = Connection::new(&pod, 2).with_two();
    pod.join(&next)?;
    stage.request(&mut next)?;
    stage.ways(&pod, &next)
}

fn refreshes(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1).with_two();
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    let before = stage.namespaces_held()?;
    stage.refresh(&connection, 200)?;
    let more = stage.namespaces_held()?.saturating_sub(before);
    stage.count("descriptors more after 200 refreshes", more, 0);
    stage.close(&connection)?;
    let held = stage.namespaces_held()?;
    stage.count("descriptors after the close", held, 0);
    Ok(())
}

fn without_context(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1);
    pod.join(&connection)?;
    connection.policies = None;
    stage.request(&mut connection)?;
    stage.nothing_left(&pod)
}
