//! Wall clocks that are set back and forward while connections stand.

use e2e::{Clock, Mesh, Process, last_stamp_is_off, until, while_served};
use libtest_mimic::Trial;
use nsm_netlink::Netns;
use std::thread;
use std::time::{Duration, Instant};

/// How long everybody stands for a connection: long enough for a refresh that fails on a machine at
/// work, and for another one.
const LIFE: Duration = Duration::from_secs(5);
/// The flags for that. Refreshes are logged so that they can be counted.
const FLAGS: [&str; 3] = [
    "--max-token-lifetime=5s",
    "--request-timeout=1s",
    "--log-level=debug",
];
const HOUR: i64 = 3600;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_client_whose_clock_is_set_back_keeps_its_connection,
        a_client_whose_clock_is_set_forward_keeps_its_connection,
        a_forwarder_whose_clock_is_set_back_keeps_its_connections,
        a_forwarder_whose_clock_is_set_forward_keeps_its_connections,
        an_endpoint_whose_clock_is_set_back_keeps_its_connections,
        an_endpoint_whose_clock_is_set_forward_keeps_its_connections,
        programs_from_before_and_after_a_step_of_the_machines_clock_agree,
    ]
}

fn a_client_whose_clock_is_set_back_keeps_its_connection() {
    a_step_changes_nothing(Program::Client, -HOUR);
}

fn a_client_whose_clock_is_set_forward_keeps_its_connection() {
    a_step_changes_nothing(Program::Client, HOUR);
}

fn a_forwarder_whose_clock_is_set_back_keeps_its_connections() {
    a_step_changes_nothing(Program::Forwarder, -HOUR);
}

fn a_forwarder_whose_clock_is_set_forward_keeps_its_connections() {
    a_step_changes_nothing(Program::Forwarder, HOUR);
}

fn an_endpoint_whose_clock_is_set_back_keeps_its_connections() {
    a_step_changes_nothing(Program::Endpoint, -HOUR);
}

fn an_endpoint_whose_clock_is_set_forward_keeps_its_connections() {
    a_step_changes_nothing(Program::Endpoint, HOUR);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Client,
    Forwarder,
    Endpoint,
}

/// How often a program was asked again for what stands.
fn refreshes(process: &Process) -> usize {
    process.log().matches("connection refreshed").count()
}

fn is_held(process: &Process, netns: &Netns) -> bool {
    let ino = nsm_grpc::Inode::of(netns).unwrap().ino.to_string();
    let all = process.descriptors().into_iter();
    all.map(|it| it.target.to_string_lossy().into_owned())
        .any(|target| target.contains(&ino))
}

/// The clock of one program is set, and the others' are not: they might be on another machine.
#[track_caller]
fn a_step_changes_nothing(whose: Program, off: i64) {
    let mesh = Mesh::new(2, 1);
    let clock = Clock::new(&mesh);
    let by_its_clock = |program| mesh.start_by((program == whose).then_some(&clock));
    by_its_clock(Program::Endpoint);
    let nse = mesh.endpoint(0, &FLAGS);
    by_its_clock(Program::Forwarder);
    let forwarder = mesh.forwarder(&FLAGS);
    by_its_clock(Program::Client);
    let nsc = mesh.client(0, &FLAGS);
    nsc.until_it_stands(1);
    let before = mesh.in_pod(0);

    clock.set_off(off);
    let (start, asked) = (Instant::now(), refreshes(&nse));
    while_served(&mesh, 0, 0, || {
        until("all tokens of before have ended", || start.elapsed() > LIFE);
    });

    // It was in effect.
    let stepped = match whose {
        Program::Client => &nsc,
        Program::Forwarder => &forwarder,
        Program::Endpoint => &nse,
    };
    assert_eq!(last_stamp_is_off(&stepped.log()), Some(off));
    // It is asked for once a second at most, as before.
    let (asked, within) = (refreshes(&nse) - asked, start.elapsed());
    let usual = within.as_secs() as usize;
    assert!(
        asked >= 1 && asked <= 2 * usual,
        "{asked} requests in {within:?}"
    );
    assert_eq!(mesh.in_pod(0), before);
    let stood = nsc.log().matches("the connection stands").count();
    assert_eq!(stood, 1, "it stood all the time");

    // Of a client that is gone nothing stays for longer than its token.
    nsc.kill();
    let start = Instant::now();
    mesh.until_clean();
    until("its namespace is given up", || {
        !is_held(&forwarder, &mesh.pods[0])
    });
    assert!(start.elapsed() < 2 * LIFE, "{:?}", start.elapsed());

    // And another one is served.
    mesh.start_by(None);
    let other = mesh.client(1, &FLAGS);
    other.until_it_stands(1);
    mesh.until_served(1);
    assert_eq!(other.stop(), Some(0));
    mesh.is_clean();
}

fn programs_from_before_and_after_a_step_of_the_machines_clock_agree() {
    for off in [-HOUR, HOUR] {
        let mesh = Mesh::new(1, 1);
        let clock = Clock::new(&mesh);
        mesh.start_by(Some(&clock));
        let debug = ["--log-level=debug"];
        let nse = mesh.endpoint(0, &debug);
        let mut forwarder = mesh.forwarder(&debug);
        let nsc = mesh.client(0, &debug);
        nsc.until_it_stands(1);
        let before = mesh.in_pod(0);

        clock.set_off(off);
        forwarder.kill();
        forwarder = mesh.forwarder(&debug);
        nsc.until_it_stands(2);

        // Tokens live for minutes, and nobody takes one for ended, which would be asked for every
        // second.
        let asked = refreshes(&nse);
        while_served(&mesh, 0, 0, || thread::sleep(Duration::from_millis(2500)));
        assert!(
            refreshes(&nse) <= asked + 1,
            "{} requests",
            refreshes(&nse) - asked
        );
        assert_eq!(mesh.in_pod(0), before);
        assert_eq!(last_stamp_is_off(&nse.log()), Some(off));
        assert_eq!(nsc.stop(), Some(0));
        mesh.is_clean();
        forwarder.runs();
    }
}
