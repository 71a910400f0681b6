//! The first packet after an answer: neither dropped nor kept waiting.
//!
//! Frames are carried, so that neighbours have to be found out: where the answer of one is lost, it
//! is asked for again a second later (`RETRANS_TIMER`, RFC 4861; `retrans_time_ms`, arp(7)), and no
//! datagram is waited for so long.

use crate::world::World;
use injection_suite::{Client, Load, Place, Writes};
use nsm_api::connectioncontext::Route;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

crate::cases![
    the_first_packet_passes_from_either_end_in_both_families_under_load,
    the_first_packet_passes_where_ipv6_is_switched_off_under_load,
    the_first_packet_to_an_address_that_came_with_a_refresh_passes_under_load,
    the_first_packet_of_an_address_that_stands_elsewhere_in_the_pod_passes_under_load,
    what_is_sent_all_the_time_passes_from_the_answer_on_under_load,
    whoever_wants_duplicates_to_be_looked_for_gets_an_answer_without_the_wait_for_them,
];

/// Much more than it takes. A busy machine keeps a thread waiting so long, but not often.
const LATE: Duration = Duration::from_millis(100);

/// A world with frames, in which interfaces get link-local addresses as in any pod.
fn world() -> World {
    let world = World::new();
    for place in [&world.pod, &world.endpoint] {
        place.set("net/ipv6/conf/default/addr_gen_mode", "0");
    }
    world
}

fn client(world: &World) -> Client {
    let client = world.client("nsc-0", "nsm-1", 1);
    world.far_end.change("nsc-0", |answer| {
        answer.payload = Some("ETHERNET".to_owned());
    });
    client
}

/// How long it takes until a datagram has come from one end to the other, and one back.
#[track_caller]
fn exchange(from: (&Place, &str), to: (&Place, &str)) -> Duration {
    let start = Instant::now();
    let talks = from.0.talks_to(from.1, to.0, to.1);
    assert!(talks, "from {} to {}", from.1, to.1);
    start.elapsed()
}

async fn the_first_packet_passes_from_either_end_in_both_families_under_load() {
    let _load = Load::start();
    // In the second the ends have different numbers, as they mostly have in the field: for the
    // kernel a carrier is more urgent then (`linkwatch_urgent_event`, net/core/link_watch.c).
    let worlds = [world(), world()];
    worlds[1].pod.plug_eth0();
    let mut late = Vec::new();
    for round in 0..200 {
        let world = &worlds[round / 100];
        let mut client = client(world);
        client.request(&world.forwarder).await.unwrap();

        let mut ends = [
            (&world.pod, ["172.16.1.2", "2001:db8:1::2"]),
            (&world.endpoint, ["172.16.1.1", "2001:db8:1::1"]),
        ];
        ends.rotate_left(round % 2);
        let [(here, own), (there, others)] = ends;
        for (own, other) in own.into_iter().zip(others) {
            let took = exchange((here, own), (there, other));
            if took > LATE {
                late.push((round, own, took));
            }
        }
        client.close(&world.forwarder).await.unwrap();
    }
    assert!(late.len() <= 4, "{late:?}");
}

async fn the_first_packet_passes_where_ipv6_is_switched_off_under_load() {
    let _load = Load::start();
    let world = World::new();
    for place in [&world.pod, &world.endpoint] {
        place.set("net/ipv6/conf/default/disable_ipv6", "1");
    }
    for round in 0..100 {
        let mut client = client(&world);
        world.change_ip("nsc-0", |ip| {
            ip.src_ip_addrs.truncate(1);
            ip.dst_ip_addrs.truncate(1);
            ip.src_routes.clear();
        });
        client.request(&world.forwarder).await.unwrap();

        let mut ends = [(&world.pod, "172.16.1.2"), (&world.endpoint, "172.16.1.1")];
        ends.rotate_left(round % 2);
        exchange(ends[0], ends[1]);
        client.close(&world.forwarder).await.unwrap();
    }
}

async fn the_first_packet_to_an_address_that_came_with_a_refresh_passes_under_load() {
    let _load = Load::start();
    let world = world();
    let mut client = client(&world);
    client.request(&world.forwarder).await.unwrap();
    for round in 0..50 {
        let new = format!("2001:db8:1::1:{round}");
        world.change_ip("nsc-0", |ip| {
            ip.src_ip_addrs = vec![format!("{new}/128")];
        });
        client.request(&world.forwarder).await.unwrap();

        exchange((&world.endpoint, "2001:db8:1::1"), (&world.pod, &new));
    }
}

async fn the_first_packet_of_an_address_that_stands_elsewhere_in_the_pod_passes_under_load() {
    let _load = Load::start();
    let world = world();
    let sources = ["10.77.0.1/32", "2001:db8:77::1/128"];
    for source in sources {
        world.pod.give("lo", source);
    }
    for _ in 0..25 {
        let mut client = client(&world);
        world.change_ip("nsc-0", |ip| {
            ip.dst_routes.extend(sources.map(|prefix| Route {
                prefix: prefix.to_owned(),
                next_hop: String::new(),
            }));
        });
        client.request(&world.forwarder).await.unwrap();

        // Who asks for the neighbour does it by the link-local address here (RFC 4861, 7.2.2).
        for (own, other) in [
            ("10.77.0.1", "172.16.1.1"),
            ("2001:db8:77::1", "2001:db8:1::1"),
        ] {
            exchange((&world.pod, own), (&world.endpoint, other));
        }
        client.close(&world.forwarder).await.unwrap();
    }
}

/// Sends to an address all the time, whether there is a way or not.
struct Stream {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    received: UdpSocket,
}

impl Stream {
    fn start(from: &Place, to: &Place, address: &str) -> Self {
        let address: IpAddr = address.parse().unwrap();
        let any: IpAddr = match address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let [sending, received] = [from, to].map(|place| place.socket(any));
        let to = (address, received.local_addr().unwrap().port());
        let is_over = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                // There is no way as long as there is no connection.
                let _ = sending.send_to(b"ping", to);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        Self {
            is_over,
            thread: Some(thread),
            received,
        }
    }

    /// Whether something comes soon.
    fn comes(&self) -> bool {
        self.received.recv(&mut [0; 8]).is_ok()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

async fn what_is_sent_all_the_time_passes_from_the_answer_on_under_load() {
    let _load = Load::start();
    let world = world();
    for round in 0..50 {
        let mut client = client(&world);
        let others = ["172.16.1.1", "2001:db8:1::1"];
        let streams = others.map(|other| Stream::start(&world.pod, &world.endpoint, other));
        client.request(&world.forwarder).await.unwrap();

        for (stream, other) in streams.iter().zip(others) {
            assert!(stream.comes(), "round {round}, to {other}");
        }
        client.close(&world.forwarder).await.unwrap();
    }
}

async fn whoever_wants_duplicates_to_be_looked_for_gets_an_answer_without_the_wait_for_them() {
    let world = world();
    // The setting of an interface does not count where that of all is higher.
    world.pod.set("net/ipv6/conf/all/accept_dad", "1");
    let mut client = client(&world);

    // The search takes a second at least.
    let start = Instant::now();
    client.request(&world.forwarder).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1));

    let asked = Writes::from_now();
    client.request(&world.forwarder).await.unwrap();
    assert_eq!(asked.reads(), 2 * 5 + 1, "a refresh does not wait");
}
