//! What a policy means.

use super::super::Error;
use super::super::connection::{Connection, Policy, Via};
use super::super::pod::Pod;
use super::super::stage::Stage;
use super::{Situation, often, once};

pub(super) const ALL: &[Situation] = &[
    once("narrow-policy-last", &[25], narrow_last),
    once("narrow-policy-first", &[25], narrow_first),
    once("wide-policy-added-later", &[25], wide_later),
    often("overlap-after-a-restart", &[22, 25], overlap_restart),
    once("no-selector-and-the-pods-traffic", &[27], pods_traffic),
    once("no-next-hop", &[28], no_next_hop),
    once("ipv6-without-routes", &[29], v6_without_routes),
    once("ipv6-without-from", &[29], v6_without_from),
    once("answer-passes-as-it-came", &[33], answer_passes),
    once("vlan", &[34], vlan),
    once("marks", &[35], marks),
];

/// All traffic of an address by one next hop, and one port of it by another.
fn wide_and_narrow(connection: &Connection) -> [Policy; 2] {
    let wide = connection.policy();
    let mut narrow = connection.policy().tcp("443");
    narrow.routes[0].nexthop = "10.0.1.253".into();
    [wide, narrow]
}

fn overlap(stage: &mut Stage, narrow_first: bool) -> Result<(), Error> {
    let (pod, mut connection) = overlapping(narrow_first)?;
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)
}

fn overlapping(narrow_first: bool) -> Result<(Pod, Connection), Error> {
    let pod = Pod::new()?;
    let connection = Connection::new(&pod, 1);
    let mut policies = wide_and_narrow(&connection);
    if narrow_first {
        policies.reverse();
    }
    let connection = connection.with(policies);
    pod.join(&connection)?;
    Ok((pod, connection))
}

fn narrow_last(stage: &mut Stage) -> Result<(), Error> {
    overlap(stage, false)
}

fn narrow_first(stage: &mut Stage) -> Result<(), Error> {
    overlap(stage, true)
}

fn wide_later(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let connection = Connection::new(&pod, 1);
    let [wide, narrow] = wide_and_narrow(&connection);
    let mut connection = connection.with([narrow.clone()]);
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    connection = connection.with([wide, narrow]);
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)
}

fn overlap_restart(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut connection) = overlapping(false)?;
    stage.request(&mut connection)?;
    stage.restart()?;
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)
}

/// A policy without any selector is for the addresses of the connection.
fn pods_traffic(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let connection = Connection::new(&pod, 1);
    let policy = Policy {
        from: String::new(),
        ..connection.policy()
    };
    let mut connection = connection.with([policy]);
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.own_way(&pod)
}

fn no_next_hop(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let connection = Connection::new(&pod, 1);
    let mut policy = connection.policy();
    policy.routes[0].nexthop.clear();
    let mut connection = connection.with([policy]);
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)
}

fn v6(stage: &mut Stage, policy: Policy) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1).with([policy]);
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 1)?;
    stage.close(&connection)?;
    stage.nothing_left(&pod)
}

fn v6_without_routes(stage: &mut Stage) -> Result<(), Error> {
    let policy = Policy {
        from: "fd00:1::1/128".into(),
        ..Policy::default()
    };
    v6(stage, policy)
}

fn v6_without_from(stage: &mut Stage) -> Result<(), Error> {
    let policy = Policy {
        routes: vec![Via {
            prefix: "::/0".into(),
            nexthop: "fd00:1::fe".into(),
        }],
        ..Policy::default()
    };
    v6(stage, policy.tcp("443"))
}

/// A policy leaves its routes out.
fn answer_passes(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let connection = Connection::new(&pod, 1);
    let policy = Policy {
        routes: Vec::new(),
        ..connection.policy()
    };
    let connection = connection.with([policy]);
    pod.join(&connection)?;
    let answer = stage.attempt(&connection)?;
    let altered = answer.is_some_and(|answer| answer.altered);
    stage.count("answers altered", usize::from(altered), 0);
    stage.ways(&pod, &connection)
}

fn vlan(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1).with_two();
    connection.vlan = 100;
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.rules(&pod, 0)
}

fn marks(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1).with_two();
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    let unmarked = pod.installed()?.unmarked();
    stage.count("rules without a mark", unmarked, 0);
    Ok(())
}
