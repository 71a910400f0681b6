//! What the kernel, an endpoint or somebody else changes while a connection stands.

use super::super::Error;
use super::super::connection::{Connection, Via};
use super::super::pod::Pod;
use super::super::stage::Stage;
use super::{Situation, often, once, one};

pub(super) const ALL: &[Situation] = &[
    once("link-flap", &[3], link_flap),
    once("table-flushed", &[3], table_flushed),
    once("link-without-address", &[3], without_address),
    once("other-next-hop", &[4], other_next_hop),
    once("one-more-route", &[4], one_more_route),
    once("twice-in-the-list", &[5], twice_in_the_list),
    once("another-spelling", &[31], another_spelling),
    once("healed-after-a-close", &[2], healed),
    once("another-interface", &[26], another_interface),
    once("another-pod", &[26], another_pod),
    often("another-selector", &[21], another_selector),
];

fn after_shell(stage: &mut Stage, script: &str) -> Result<(), Error> {
    let (pod, mut connection) = one(stage)?;
    pod.run(script)?;
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 2)
}

fn link_flap(stage: &mut Stage) -> Result<(), Error> {
    after_shell(stage, "ip link set nsm-1 down; ip link set nsm-1 up")
}

fn without_address(stage: &mut Stage) -> Result<(), Error> {
    after_shell(
        stage,
        "ip -4 address flush dev nsm-1; ip address add 10.0.1.1/24 dev nsm-1; ip address add 10.0.1.2/24 dev nsm-1",
    )
}

fn table_flushed(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut connection) = one(stage)?;
    for rule in pod.installed()?.rules {
        pod.run(&format!("ip route flush table {}", rule.table))?;
    }
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 2)
}

fn other_next_hop(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut connection) = one(stage)?;
    let [mut first, second] = [connection.policy(), connection.second_policy()];
    first.routes[0].nexthop = "10.0.1.253".into();
    connection = connection.with([first, second]);
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 2)
}

fn one_more_route(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut connection) = one(stage)?;
    let mut policy = connection.policy();
    policy.routes.insert(
        0,
        Via {
            prefix: "198.51.100.0/24".into(),
            nexthop: "10.0.1.252".into(),
        },
    );
    connection = connection.with([policy]);
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 1)
}

fn twice_in_the_list(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1);
    let policies = [connection.policy(), connection.policy()];
    connection = connection.with(policies);
    pod.join(&connection)?;
    for _ in 0..4 {
        stage.request(&mut connection)?;
    }
    stage.rules(&pod, 1)?;
    stage.close(&connection)?;
    stage.nothing_left(&pod)
}

fn another_spelling(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut connection) = one(stage)?;
    let mut heard = pod.listen()?;
    let mut spelled = connection.second_policy();
    spelled.proto = "06".into();
    spelled.dstport = "443-443".into();
    let policies = [connection.policy(), spelled];
    connection = connection.with(policies);
    stage.request(&mut connection)?;
    stage.silence(&mut heard)?;
    stage.ways(&pod, &connection)
}

/// The forwarder takes the interface away before the element hears of the end, and the client
/// comes back under the same id.
fn healed(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut connection) = one(stage)?;
    pod.part(&connection)?;
    stage.attempt_close(&connection)?;
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 2)
}

fn another_interface(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut connection) = one(stage)?;
    let other = Connection::new(&pod, 2);
    pod.join(&other)?;
    connection.interface = other.interface;
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 2)
}

fn another_pod(stage: &mut Stage) -> Result<(), Error> {
    let (pod, mut connection) = one(stage)?;
    let other = Pod::new()?;
    other.join(&connection)?;
    connection.netns = other.path();
    stage.request(&mut connection)?;
    stage.ways(&other, &connection)?;
    stage.nothing_left(&pod)
}

/// One port more: what is sent to the others must find its way all the time.
fn another_selector(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1);
    let policy = connection.policy().tcp("80-89");
    connection = connection.with([policy.clone()]);
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    let before = pod.installed()?;
    let mut heard = pod.listen()?;
    connection = connection.with([policy.clone().tcp("80-90")]);
    stage.request(&mut connection)?;
    let gaps = before.gaps(&heard.events()?, &policy.traffic()?);
    stage.count("moments in which a policy's traffic has no way", gaps, 0);
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 1)
}
