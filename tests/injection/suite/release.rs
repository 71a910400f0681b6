//! An address is free when no interface has it any more.

use crate::world::World;
use injection_suite::{Answer, Client, Forwarder};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nsm_chain::ErrorKind;
use nsm_endpoint::{IpamLayer, IpamPolicy};
use nsm_kernel::Config;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;
use tower::Layer;

crate::cases![
    an_address_is_given_to_nobody_else_as_long_as_its_interface_stays,
    a_close_that_finds_no_descriptor_goes_on_when_there_is_one,
];

/// A world whose endpoint assigns addresses.
fn world(ipam: &IpamLayer, timeout: Duration) -> World {
    let mut world = World::new();
    let config = Config {
        timeout,
        ..Config::new(78.try_into().unwrap())
    };
    let endpoint = ipam.layer(world.far_end.clone());
    world.forwarder = Forwarder::above("forwarder", config, endpoint);
    world
}

fn ipam() -> IpamLayer {
    let prefixes = "172.16.1.0/24,2001:db8:1::/64";
    IpamLayer::new(prefixes.parse().unwrap(), IpamPolicy::Polite)
}

fn client(world: &World, id: &str, interface: &str) -> Client {
    let answer = Answer {
        place: Some(world.endpoint.clone()),
        keeps_context: true,
        ..Answer::default()
    };
    world.far_end.answer(id, answer);
    Client::new(id, &world.pod, interface)
}

/// The process gets no further descriptor as long as it lives.
struct NoDescriptors((u64, u64));

impl NoDescriptors {
    fn left() -> Self {
        let limits = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 3, limits.1).unwrap();
        Self(limits)
    }
}

impl Drop for NoDescriptors {
    fn drop(&mut self) {
        let (soft, hard) = self.0;
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    }
}

async fn an_address_is_given_to_nobody_else_as_long_as_its_interface_stays() {
    let ipam = ipam();
    let world = world(&ipam, Duration::from_millis(50));
    let mut first = client(&world, "nsc-0", "nsm-0");
    first.request(&world.forwarder).await.unwrap();
    let had = first.connection.ip_context().cloned().unwrap();

    let none = NoDescriptors::left();
    let error = first.close(&world.forwarder).await.unwrap_err();
    drop(none);

    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    assert_eq!(world.pod.names(), ["nsm-0"]);
    assert_eq!(
        world.far_end.closes(),
        0,
        "the endpoint has not heard of it"
    );
    let mut second = client(&world, "nsc-1", "nsm-1");
    second.request(&world.forwarder).await.unwrap();
    let other = second.connection.ip_context().cloned().unwrap();
    for (had, other) in [
        (&had.src_ip_addrs, &other.src_ip_addrs),
        (&had.dst_ip_addrs, &other.dst_ip_addrs),
    ] {
        assert_eq!([had.len(), other.len()], [2, 2]);
        assert!(had.iter().all(|address| !other.contains(address)));
    }

    // The client tries again, late.
    first.close(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.names(), ["nsm-1"]);
    assert_eq!(ipam.connections(), 1);
    let quiet = world.quiet();
    second.request(&world.forwarder).await.unwrap();
    quiet.was_kept(&world);

    // Both halves are free, once.
    let mut third = client(&world, "nsc-2", "nsm-2");
    third.request(&world.forwarder).await.unwrap();
    let again = third.connection.ip_context().unwrap();
    assert_eq!(again.src_ip_addrs, had.src_ip_addrs);
    assert_eq!(again.dst_ip_addrs, had.dst_ip_addrs);
    for client in [&second, &third] {
        client.close(&world.forwarder).await.unwrap();
    }
    assert_eq!(ipam.connections(), 0);
    assert!(world.pod.names().is_empty() && world.endpoint.names().is_empty());
}

async fn a_close_that_finds_no_descriptor_goes_on_when_there_is_one() {
    let ipam = ipam();
    let world = world(&ipam, Duration::from_secs(60));
    let mut client = client(&world, "nsc-0", "nsm-0");
    client.request(&world.forwarder).await.unwrap();

    let none = NoDescriptors::left();
    let mut close = pin!(client.close(&world.forwarder));
    let early = timeout(Duration::from_millis(100), &mut close).await;
    drop(none);
    assert!(early.is_err(), "{early:?}");
    assert_eq!(ipam.connections(), 1);

    close.await.unwrap();

    assert!(world.pod.names().is_empty() && world.endpoint.names().is_empty());
    assert_eq!(ipam.connections(), 0);
    assert_eq!(world.forwarder.namespaces_held(), 0);
}
