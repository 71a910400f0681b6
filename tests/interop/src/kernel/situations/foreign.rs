//! What others have in the pod.

use super::super::Error;
use super::super::busy::Busy;
use super::super::connection::{Connection, Policy};
use super::super::pod::Pod;
use super::super::stage::Stage;
use super::{Situation, often, once};

pub(super) const ALL: &[Situation] = &[
    once("rule-of-others-with-one-selector", &[6], same_selector),
    once("look-alike-at-the-first-request", &[32], look_alike_first),
    once("look-alike-at-a-removal", &[8], look_alike_removed),
    once("no-selector-removed", &[9], no_selector_removed),
    once("no-selector-after-a-restart", &[9], no_selector_restart),
    once("source-of-length-0", &[32], length_0),
    once("route-of-others-in-the-table", &[10], route_in_table),
    often("rules-change-while-read", &[37], churn),
    once("260-policies", &[11, 37], many),
];

/// Policies that have gone again, beside a rule of somebody else.
fn beside(stage: &mut Stage, rule: &str) -> Result<(), Error> {
    let mut pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1).with_two();
    pod.join(&connection)?;
    pod.others_run(&format!(
        "ip route add default dev eth0 table 7777; ip rule add pref 30000 {rule} lookup 7777"
    ))?;
    stage.request(&mut connection)?;
    stage.request(&mut connection)?;
    stage.close(&connection)?;
    stage.others(&pod)?;
    stage.nothing_left(&pod)
}

fn same_selector(stage: &mut Stage) -> Result<(), Error> {
    beside(stage, "from 10.0.1.1")
}

fn look_alike_first(stage: &mut Stage) -> Result<(), Error> {
    beside(stage, "from 10.0.1.1 fwmark 1")
}

/// It comes after the policies, and is asked before them.
fn look_alike_removed(stage: &mut Stage) -> Result<(), Error> {
    let mut pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1).with_two();
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    pod.others_run("ip rule add pref 100 from 10.0.1.1 to 198.51.100.8 fwmark 1 lookup main")?;
    stage.close(&connection)?;
    stage.others(&pod)?;
    stage.nothing_left(&pod)
}

fn no_selector(pod: &Pod) -> Connection {
    let connection = Connection::new(pod, 1);
    let policy = Policy {
        from: String::new(),
        ..connection.policy()
    };
    connection.with([policy])
}

fn no_selector_removed(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = no_selector(&pod);
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.ways(&pod, &connection)?;
    stage.close(&connection)?;
    stage.others(&pod)?;
    stage.nothing_left(&pod)
}

fn no_selector_restart(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let mut connection = no_selector(&pod);
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.restart()?;
    stage.request(&mut connection)?;
    stage.others(&pod)?;
    stage.ways(&pod, &connection)
}

/// It tells the family alone, and is the same after a restart.
fn length_0(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let connection = Connection::new(&pod, 1);
    let policy = Policy {
        from: "0.0.0.0/0".into(),
        ..connection.policy().tcp("443")
    };
    let mut connection = connection.with([policy]);
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.restart()?;
    stage.request(&mut connection)?;
    stage.rules(&pod, 1)
}

/// Somebody adds a route of his own to a table that the element has taken.
fn route_in_table(stage: &mut Stage) -> Result<(), Error> {
    let mut pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1).with_two();
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    for rule in pod.installed()?.rules {
        let table = rule.table;
        pod.others_run(&format!(
            "ip route add 203.0.113.0/24 via 192.168.0.1 dev eth0 table {table}"
        ))?;
    }
    stage.close(&connection)?;
    stage.others(&pod)?;
    stage.nothing_left(&pod)
}

/// Another tool adds and removes rules and routes all the time.
fn churn(stage: &mut Stage) -> Result<(), Error> {
    let mut pod = Pod::new()?;
    // Several reads make a dump then.
    pod.others_run(
        "for n in $(seq 300); do echo rule add pref $((20000+n)) from 203.0.113.$((n%250)) lookup main; done | ip -batch -",
    )?;
    let mut connection = Connection::new(&pod, 1).with_two();
    pod.join(&connection)?;
    let busy = Busy::start(&pod)?;
    for number in 0..20 {
        let mut again = connection.clone().renamed(&format!("again-{number}"));
        stage.request(&mut again)?;
        stage.close(&again)?;
    }
    stage.request(&mut connection)?;
    busy.end()?;
    stage.ways(&pod, &connection)?;
    stage.rules(&pod, 2)
}

/// More policies than there are small table numbers.
fn many(stage: &mut Stage) -> Result<(), Error> {
    let pod = Pod::new()?;
    let connection = Connection::new(&pod, 1);
    let policies: Vec<Policy> = (1..=260)
        .map(|port: u16| connection.policy().tcp(&port.to_string()))
        .collect();
    let mut connection = connection.with(policies);
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    stage.rules(&pod, 260)?;
    let in_kernel_tables = pod.installed()?.in_kernel_tables();
    stage.count("routes in the kernel's own tables", in_kernel_tables, 0);
    for policy in connection.policies().iter().step_by(10) {
        stage.way(&pod, &connection, policy)?;
    }
    stage.own_way(&pod)?;
    stage.close(&connection)?;
    stage.others(&pod)?;
    stage.nothing_left(&pod)
}
