//! Whether a connection carries packets, asked by pings.

use client_suite::{DESTINATIONS, End, Joined, SOURCES};
use libtest_mimic::Trial;
use nsc::liveness::IcmpLiveness;
use nsm_api::connection::Connection;
use std::fs;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::log::logged;
use crate::trials;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_connection_that_carries_both_families_is_alive,
        a_connection_whose_endpoint_has_lost_one_family_is_dead,
        a_connection_that_has_lost_a_source_of_its_own_is_dead,
        a_connection_whose_other_end_is_down_is_dead_when_the_time_is_over,
        a_connection_without_an_interface_is_dead_when_the_time_is_over,
        a_connection_of_many_addresses_is_alive_and_costs_a_few_sockets,
        what_cannot_be_told_counts_as_alive,
        where_pings_are_forbidden_everything_is_alive_and_that_is_said_once,
        checks_leave_no_descriptor_behind,
    ]
}

const PATIENCE: Duration = Duration::from_secs(5);
/// Long enough for a machine at work to answer itself.
const TIME: Duration = Duration::from_secs(1);

fn joined() -> Joined {
    let joined = Joined::new();
    joined.client.allow_pings();
    joined
}

/// What a check says in a namespace, and how long it took.
fn check(end: &End, connection: &Connection, time: Duration) -> (bool, Duration) {
    let start = Instant::now();
    let alive = end.run(IcmpLiveness::new(time).is_alive(connection));
    (alive, start.elapsed())
}

fn a_connection_that_carries_both_families_is_alive() {
    let joined = joined();

    assert!(check(&joined.client, &joined.connection(), PATIENCE).0);
}

fn a_connection_whose_endpoint_has_lost_one_family_is_dead() {
    for lost in DESTINATIONS {
        let joined = joined();
        joined.endpoint.lose(lost);

        assert!(
            !check(&joined.client, &joined.connection(), TIME).0,
            "{lost}"
        );
    }
}

fn a_connection_that_has_lost_a_source_of_its_own_is_dead() {
    for lost in SOURCES {
        let joined = joined();
        joined.client.lose(lost);

        assert!(
            !check(&joined.client, &joined.connection(), TIME).0,
            "{lost}"
        );
    }
}

fn a_connection_whose_other_end_is_down_is_dead_when_the_time_is_over() {
    let joined = joined();
    joined.endpoint.set_down();

    let (alive, took) = check(&joined.client, &joined.connection(), TIME);

    assert!(!alive);
    assert!(took < TIME + PATIENCE, "{took:?}");
}

fn a_connection_without_an_interface_is_dead_when_the_time_is_over() {
    let joined = joined();
    let mut kernel = nsm_netlink::Namespace::open(&joined.client.netns).unwrap();
    kernel.delete_link(joined.client.interface).unwrap();

    let (alive, took) = check(&joined.client, &joined.connection(), TIME);

    assert!(!alive);
    // It may be back in a moment.
    assert!(took >= TIME && took < TIME + PATIENCE, "{took:?}");
}

fn a_connection_of_many_addresses_is_alive_and_costs_a_few_sockets() {
    let joined = joined();
    let mut connection = joined.connection();
    let sources = &mut connection.ip_context_mut().src_ip_addrs;
    *sources = vec![sources.clone(); 200].concat();
    joined.client.run(async {
        let liveness = IcmpLiveness::new(PATIENCE);
        let before = pings();
        let mut check = pin!(liveness.is_alive(&connection));
        let pending = poll_fn(|cx| Poll::Ready(check.as_mut().poll(cx).is_pending()));
        assert!(pending.await);
        assert_eq!(pings() - before, 8);
        assert!(check.await);
        for _ in 1..50 {
            assert!(liveness.is_alive(&connection).await);
        }
        // The endpoint loses what the last ones ping, too.
        joined.endpoint.set_down();
        assert!(!IcmpLiveness::new(TIME).is_alive(&connection).await);
    });
}

fn what_cannot_be_told_counts_as_alive() {
    let joined = joined();
    joined.endpoint.set_down();
    let mut others = joined.connection();
    others.mechanism = None;
    let mut without = joined.connection();
    without.ip_context_mut().src_ip_addrs.clear();
    let mut of_other_families = joined.connection();
    let ip = of_other_families.ip_context_mut();
    ip.src_ip_addrs.truncate(1);
    ip.dst_ip_addrs.remove(0);

    for connection in [others, without, of_other_families] {
        assert!(check(&joined.client, &connection, TIME).0);
    }
}

fn where_pings_are_forbidden_everything_is_alive_and_that_is_said_once() {
    let joined = Joined::new();
    joined.endpoint.set_down();
    let connection = joined.connection();
    let liveness = IcmpLiveness::new(TIME);

    let text = logged(|| {
        for _ in 0..3 {
            assert!(joined.client.run(liveness.is_alive(&connection)));
        }
    });

    assert_eq!(text.matches("cannot be pinged").count(), 1, "{text}");
    assert!(text.contains("Permission denied"), "{text}");
}

fn checks_leave_no_descriptor_behind() {
    let joined = joined();
    let connection = joined.connection();
    joined.client.run(async {
        let liveness = IcmpLiveness::new(PATIENCE);
        assert!(liveness.is_alive(&connection).await);
        let before = pings();
        for _ in 0..50 {
            assert!(liveness.is_alive(&connection).await);
            // One that is given up on its way.
            let short = IcmpLiveness::new(Duration::ZERO);
            short.is_alive(&connection).await;
        }
        assert_eq!(pings(), before);
    });
}

/// The ping sockets of this thread's namespace.
fn pings() -> usize {
    let lines = |file| fs::read_to_string(file).unwrap().lines().count();
    lines("/proc/thread-self/net/icmp") + lines("/proc/thread-self/net/icmp6")
}
