//! The process ends, and another one begins that knows nothing.

use super::super::Error;
use super::super::connection::{Connection, Policy};
use super::super::pod::Pod;
use super::super::stage::Stage;
use super::{Situation, often};
use nsm_netlink::{Kernel, Op};

pub(super) const ALL: &[Situation] = &[
    often("restart", &[22], same_order),
    often("restart-other-order", &[22], other_order),
    often("restart-all-at-once", &[36], at_once),
    often("restart-interface-remade", &[22], interface_remade),
    often("policy-dropped-meanwhile", &[23], dropped_meanwhile),
    often(
        "all-policies-dropped-meanwhile",
        &[23],
        all_dropped_meanwhile,
    ),
    often("two-rules-on-one-table", &[24], on_one_table),
];

/// Two connections of one pod, with two policies each, that stand.
fn two(stage: &mut Stage) -> Result<(Pod, [Connection; 2]), Error> {
    let pod = Pod::new()?;
    let mut two = [1, 2].map(|number| Connection::new(&pod, number).with_two());
    for connection in &mut two {
        pod.join(connection)?;
        stage.request(connection)?;
    }
    Ok((pod, two))
}

fn same_order(stage: &mut Stage) -> Result<(), Error> {
    let (pod, two) = two(stage)?;
    returning(stage, &pod, two)
}

fn other_order(stage: &mut Stage) -> Result<(), Error> {
    let (pod, [one, two]) = two(stage)?;
    returning(stage, &pod, [two, one])
}

fn returning(stage: &mut Stage, pod: &Pod, order: [Connection; 2]) -> Result<(), Error> {
    stage.restart()?;
    let traffic = order[0].policy().traffic()?;
    let before = pod.installed()?;
    let mut heard = pod.listen()?;
    let mut order = order;
    for connection in &mut order {
        stage.request(connection)?;
    }
    let events = heard.events()?;
    stage.count("writes", events.len(), 0);
    let gaps = before.gaps(&events, &traffic);
    stage.count("moments in which a policy's traffic has no way", gaps, 0);
    for connection in &order {
        stage.ways(pod, connection)?;
    }
    stage.rules(pod, 4)
}

fn at_once(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut all: Vec<Connection> = (1..=8)
        .map(|number| Connection::new(&pod, number).with_two())
        .collect();
    for connection in &all {
        pod.join(connection)?;
    }
    stage.request_all(&mut all)?;
    stage.restart()?;
    stage.request_all(&mut all)?;
    for connection in &all {
        stage.ways(&pod, connection)?;
    }
    stage.rules(&pod, 16)
}

fn interface_remade(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut two) = two(stage)?;
    stage.restart()?;
    pod.part(&two[0])?;
    pod.join(&two[0])?;
    for connection in &mut two {
        stage.request(connection)?;
    }
    for connection in &two {
        stage.ways(&pod, connection)?;
    }
    stage.rules(&pod, 4)
}

fn dropped_meanwhile(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1).with_two();
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.restart()?;
    let remaining = connection.policy();
    connection = connection.with([remaining]);
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 1)
}

fn all_dropped_meanwhile(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1).with_two();
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.restart()?;
    connection = connection.with([]);
    stage.request(&mut connection)?;
    stage.nothing_left(&pod)
}

/// As a fault of a former process may leave it.
fn on_one_table(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1);
    // The two tables hold the same.
    let other = Policy {
        from: "10.0.1.2/32".into(),
        ..connection.policy()
    };
    let policies = [connection.policy(), other];
    connection = connection.with(policies);
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.restart()?;
    let rules = pod.installed()?.rules;
    let [first, second] = rules.as_slice() else {
        return Err(format!("{} rules of two policies", rules.len()).into());
    };
    let mut moved = second.clone();
    moved.table = first.table;
    let moves = [Op::DelRule(second.clone()), Op::AddRule(moved)];
    for moved in pod.kernel()?.execute(&moves)? {
        moved?;
    }
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 2)
}
