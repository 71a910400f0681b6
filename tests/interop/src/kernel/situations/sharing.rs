//! Connections of one pod that want the same.

use super::super::Error;
use super::super::connection::{Connection, Policy};
use super::super::pod::Pod;
use super::super::stage::Stage;
use super::{Situation, often, once};

pub(super) const ALL: &[Situation] = &[
    once("ghost-close", &[6], ghost_close),
    once("ghost-refresh", &[6], ghost_refresh),
    once("two-want-one-selector", &[6], two_want_one),
    often("restart-of-two-with-one-selector", &[7], restart_of_two),
    often("restart-ghost-close", &[7], restart_ghost_close),
    once("parallel-first-requests", &[36], parallel),
    often("two-forwarders-at-once", &[35, 36], two_forwarders),
];

/// The client has come back under another id before its old connection ends.
fn two_ids(stage: &mut Stage) -> Result<(Pod, Connection, Connection), Error> {
    let pod = Pod::new()?;
    let mut old = Connection::new(&pod, 1).with_two();
    pod.join(&old)?;
    stage.request(&mut old)?;
    let mut new = old.clone().renamed("new");
    stage.request(&mut new)?;
    Ok((pod, old, new))
}

fn ghost_close(stage: &mut Stage) -> Result<(), Error> {
    let (pod, old, new) = two_ids(stage)?;
    stage.close(&old)?;
    stage.ways(&pod, &new)?;
    stage.rules(&pod, 2)
}

/// The new connection goes on to be refreshed after that.
fn ghost_refresh(stage: &mut Stage) -> Result<(), Error> {
    let (pod, old, mut new) = two_ids(stage)?;
    stage.close(&old)?;
    stage.request(&mut new)?;
    stage.ways(&pod, &new)?;
    stage.rules(&pod, 2)?;
    stage.close(&new)?;
    stage.nothing_left(&pod)
}

/// Two interfaces of one pod, whose endpoints have the same policies.
fn one_selector(stage: &mut Stage) -> Result<(Pod, Connection, Connection), Error> {
    let pod = Pod::new()?;
    let port = |connection: &Connection| Policy {
        from: "10.0.1.1/32".into(),
        ..connection.policy()
    };
    let [one, two] = [1, 2].map(|number| Connection::new(&pod, number));
    let [policy_of_one, policy_of_two] = [port(&one), port(&two)];
    let mut one = one.with([policy_of_one]);
    let mut two = two.with([policy_of_two]);
    for connection in [&mut one, &mut two] {
        pod.join(connection)?;
        stage.request(connection)?;
    }
    Ok((pod, one, two))
}

fn two_want_one(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut one, mut two) = one_selector(stage)?;
    // Whoever comes later has it, until he goes: they must not take turns.
    let mut heard = pod.listen()?;
    for _ in 0..2 {
        stage.request(&mut one)?;
        stage.request(&mut two)?;
    }
    stage.silence(&mut heard)?;
    stage.ways(&pod, &two)?;
    stage.close(&two)?;
    stage.request(&mut one)?;
    stage.ways(&pod, &one)?;
    stage.rules(&pod, 1)?;
    stage.close(&one)?;
    stage.nothing_left(&pod)
}

fn restart_of_two(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut one, mut two) = one_selector(stage)?;
    stage.restart()?;
    for connection in [&mut one, &mut two] {
        stage.request(connection)?;
    }
    stage.close(&two)?;
    stage.request(&mut one)?;
    stage.ways(&pod, &one)?;
    stage.rules(&pod, 1)
}

fn restart_ghost_close(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut old, mut new) = two_ids(stage)?;
    stage.restart()?;
    stage.request(&mut new)?;
    stage.request(&mut old)?;
    stage.close(&old)?;
    stage.ways(&pod, &new)?;
    stage.rules(&pod, 2)
}

fn parallel(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut all: Vec<Connection> = (1..=12)
        .map(|number| Connection::new(&pod, number).with_two())
        .collect();
    for connection in &all {
        pod.join(connection)?;
    }
    stage.request_all(&mut all)?;
    for connection in &all {
        stage.ways(&pod, connection)?;
    }
    stage.rules(&pod, 24)?;
    for connection in &all {
        stage.close(connection)?;
    }
    stage.nothing_left(&pod)
}

/// Two processes of one kind, with connections of their own in one pod.
fn two_forwarders(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let all: Vec<Connection> = (1..=20)
        .map(|number| Connection::new(&pod, number).with_two())
        .collect();
    for connection in &all {
        pod.join(connection)?;
    }
    let (ours, theirs) = all.split_at(10);
    stage.request_beside(ours, theirs)?;
    for connection in &all {
        stage.ways(&pod, connection)?;
    }
    stage.rules(&pod, 40)?;
    stage.count("rules without a mark", pod.installed()?.unmarked(), 0);
    Ok(())
}
