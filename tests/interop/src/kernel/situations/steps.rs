//! Requests that the element or the kernel refuses.

use super::super::Error;
use super::super::connection::{Connection, Policy, Via};
use super::super::pod::Pod;
use super::super::stage::Stage;
use super::{Situation, once};

pub(super) const ALL: &[Situation] = &[
    once("policy-that-cannot-be-read", &[17], unreadable),
    once("later-route-refused", &[18], later_route),
    once("refresh-refused", &[16], refresh_refused),
    once("ports-refused", &[30], bad_ports),
    once("protocols-that-are-none", &[30], bad_protocols),
    once("protocol-by-its-name", &[30], protocol_name),
    once("next-hop-that-is-no-address", &[28], bad_next_hop),
    once("one-prefix-with-two-next-hops", &[28], two_next_hops),
    once("address-of-nobody", &[28], nobody),
    once("routes-of-both-families", &[29], both_families),
];

/// What was established behind the element has to be ended again.
fn unreadable(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = with_protocol(&pod, "no-protocol");
    connection.asked = None;
    pod.join(&connection)?;
    let refused = stage.refuses(&connection)?;
    stage.count("requests refused", usize::from(refused), 1);
    stage.count_closed_below(1);
    stage.nothing_left(&pod)
}

fn with_protocol(pod: &Pod, protocol: &str) -> Connection {
    let connection = Connection::new(pod, 1);
    let policy = Policy {
        proto: protocol.to_owned(),
        ..connection.policy()
    };
    connection.with([policy])
}

/// The kernel refuses the second route of the second policy, when all before it stands.
fn half_refused(connection: &Connection) -> [Policy; 2] {
    let mut second = connection.second_policy();
    second.routes.push(connection.refused_route());
    [connection.policy(), second]
}

fn later_route(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let connection = Connection::new(&pod, 1);
    let policies = half_refused(&connection);
    let connection = connection.with(policies);
    pod.join(&connection)?;
    let refused = stage.refuses(&connection)?;
    stage.count("requests refused", usize::from(refused), 1);
    stage.nothing_left(&pod)
}

/// What stood goes on to stand.
fn refresh_refused(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let connection = Connection::new(&pod, 1);
    let first = connection.policy();
    let mut connection = connection.with([first.clone()]);
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    let policies = half_refused(&connection);
    let refused = stage.refuses(&connection.clone().with(policies))?;
    stage.count("requests refused", usize::from(refused), 1);
    stage.count_closed_below(0);
    stage.way(&pod, &connection, &first)
}

fn bad_ports(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let connection = Connection::new(&pod, 1);
    pod.join(&connection)?;
    for (place, ports) in ["0", "90-80", "65536", "80-"].into_iter().enumerate() {
        let policy = connection.policy().tcp(ports);
        let id = format!("ports-{place}");
        let connection = connection.clone().renamed(&id).with([policy]);
        let refused = stage.refuses(&connection)?;
        stage.count("requests refused", usize::from(refused), 1);
    }
    stage.nothing_left(&pod)
}

fn bad_protocols(stage: &mut Stage) -> Result<(), Error> {
    for protocol in ["0", "-1", "256", "262"] {
        let pod = Pod::new()?;
        let mut connection = with_protocol(&pod, protocol);
        connection = connection.renamed(protocol);
        pod.join(&connection)?;
        let refused = stage.refuses(&connection)?;
        stage.count("requests refused", usize::from(refused), 1);
        stage.nothing_left(&pod)?;
    }
    Ok(())
}

fn protocol_name(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = with_protocol(&pod, "tcp");
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.rules(&pod, 1)
}

fn bad_next_hop(stage: &mut Stage) -> Result<(), Error> {
    refusal(stage, |policy| policy.routes[0].nexthop = "10.0.1".into())
}

/// Whether a request is refused for a policy, and nothing is left of it.
fn refusal(stage: &mut Stage, change: fn(&mut Policy)) -> Result<(), Error> {
    let pod = Pod::new()?;
    let connection = Connection::new(&pod, 1);
    let mut policy = connection.policy();
    change(&mut policy);
    let connection = connection.with([policy]);
    pod.join(&connection)?;
    let refused = stage.refuses(&connection)?;
    stage.count("requests refused", usize::from(refused), 1);
    stage.nothing_left(&pod)
}

fn two_next_hops(stage: &mut Stage) -> Result<(), Error> {
    refusal(stage, |policy| {
        let other = Via {
            nexthop: "10.0.1.253".into(),
            ..policy.routes[0].clone()
        };
        policy.routes.push(other);
    })
}

/// No packet has it: what was meant is the whole family.
fn nobody(stage: &mut Stage) -> Result<(), Error> {
    refusal(stage, |policy| {
        policy.routes[0].prefix = "0.0.0.0/32".into()
    })?;
    refusal(stage, |policy| policy.from = "0.0.0.0/32".into())
}

/// The rule is of one family, and never looks up the routes of the other one.
fn both_families(stage: &mut Stage) -> Result<(), Error> {
    refusal(stage, |policy| {
        policy.routes.push(Via {
            prefix: "::/0".into(),
            nexthop: String::new(),
        });
    })
}
