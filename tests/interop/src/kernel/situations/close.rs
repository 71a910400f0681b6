//! The end of a connection, and of what it stood on.

use super::super::Error;
use super::super::stage::Stage;
use super::{Situation, often, once, one};

pub(super) const ALL: &[Situation] = &[
    once("close", &[19], plain),
    once("interface-leaves-first", &[1, 20], interface_first),
    once("pod-goes-first", &[20], pod_first),
    once("interface-goes-and-a-new-id-comes", &[20], new_id),
    often("one-rule-gone-before-a-close", &[19], one_rule_gone),
    often("one-rule-gone-before-a-refresh", &[16], gone_before_refresh),
    once("close-of-an-unknown-connection", &[7], unknown),
];

fn plain(stage: &mut Stage) -> Result<(), Error> {
    let (pod, connection) = one(stage)?;
    stage.close(&connection)?;
    stage.nothing_left(&pod)?;
    stage.count_closed_below(1);
    Ok(())
}

/// As forwarders do that take the interface away before the element hears of the end.
fn interface_first(stage: &mut Stage) -> Result<(), Error> {
    let (pod, connection) = one(stage)?;
    pod.part(&connection)?;
    stage.attempt_close(&connection)?;
    stage.nothing_left(&pod)
}

fn pod_first(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut connection) = one(stage)?;
    drop(pod);
    stage.attempt_close(&connection)?;
    let held = stage.namespaces_held()?;
    stage.count("namespaces that the process keeps alive", held, 0);
    // The reference leads nowhere: it is refused, and soon.
    connection = connection.renamed("late");
    let answer = stage.attempt(&connection)?;
    let refused = answer.is_some_and(|answer| !answer.ok);
    stage.count("requests for it refused", usize::from(refused), 1);
    Ok(())
}

/// Each time the old connection ends after its interface has gone, and the client comes back.
fn new_id(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut connection) = one(stage)?;
    for id in ["second", "third"] {
        pod.part(&connection)?;
        stage.attempt_close(&connection)?;
        pod.join(&connection)?;
        connection = connection.renamed(id);
        stage.request(&mut connection)?;
    }
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 2)?;
    stage.close(&connection)?;
    stage.nothing_left(&pod)
}

fn one_rule_gone(stage: &mut Stage) -> Result<(), Error> {
    let (pod, connection) = one(stage)?;
    pod.run("ip rule delete from 10.0.1.1")?;
    stage.attempt_close(&connection)?;
    stage.nothing_left(&pod)
}

/// The refresh drops the policy of that rule, and keeps the other one.
fn gone_before_refresh(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut connection) = one(stage)?;
    let [kept, dropped] = [connection.policy(), connection.second_policy()];
    let selector = format!("from {} ipproto tcp dport 443", dropped.from);
    pod.run(&format!("ip rule delete {selector}"))?;
    connection = connection.with([kept]);
    stage.request(&mut connection)?;
    stage.count_closed_below(0);
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 1)
}

/// The process has begun anew, and the first that it hears is the old connection's end. The client
/// has come back under another id.
fn unknown(stage: &mut Stage) -> Result<(), Error> {
    let (pod, old) = one(stage)?;
    stage.restart()?;
    stage.close(&old)?;
    let mut new = old.renamed("new");
    stage.request(&mut new)?;
    stage.ways(&pod, &new)?;
    stage.rules(&pod, 2)?;
    stage.close(&new)?;
    stage.nothing_left(&pod)
}
