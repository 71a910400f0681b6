//! How long it takes on the real kernel, in real time, and that a watched pod goes away.

use libtest_mimic::{Failed, Trial};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{Call, test_util::echo};
use nsm_netlink::{Kernel, LinkState, Namespace, Netns, VethEnd};
use nsm_policyroute::{Config, PolicyRouteLayer, Received, ReceivedNamespace};
use policyroute_suite::{Draft, Pod, Process, Real, config, connection, policy};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tower::{Layer, ServiceExt};

/// What is promised of a machine that has time for it.
const AT_ONCE: Duration = Duration::from_millis(100);
/// What is waited for on one that has none.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often each thing is done. No more than a fight has.
const ROUNDS: usize = 5;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test(
            "kernel::what_others_change_is_repaired_within_100_ms",
            what_others_change_is_repaired_within_100_ms,
        ),
        Trial::test(
            "kernel::a_watched_pod_goes_with_its_last_connection",
            a_watched_pod_goes_with_its_last_connection,
        ),
    ]
}

fn watching() -> Config {
    Config {
        watch: true,
        ..config()
    }
}

fn of_both_families() -> Draft {
    connection("c").policies([
        policy().from("10.1.0.1").via("172.16.1.1"),
        policy().from("2001:db8::1").via("fe80::1"),
    ])
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// What somebody does in a pod.
type Disturbance = (&'static str, fn(&Pod<Real>));

const DISTURBANCES: &[Disturbance] = &[
    ("a rule is deleted", |pod| {
        pod.delete_rule(&pod.our_rules()[0]);
    }),
    ("a table is emptied", |pod| {
        pod.our_routes().iter().for_each(|it| pod.delete_route(it));
    }),
    ("a route is replaced", |pod| {
        let ours = pod.our_routes().remove(0);
        let theirs = pod.foreign_default(ours.table, "nsm-0", "172.16.1.7");
        pod.replace_route(&theirs);
        pod.delete_route(&theirs);
    }),
    ("the link is set down and up", |pod| {
        pod.set_down("nsm-0");
        pod.set_up("nsm-0");
    }),
    ("the address goes and comes", |pod| {
        pod.remove_address("nsm-0", "172.16.1.2/24");
        pod.add_address("nsm-0", "172.16.1.2/24");
    }),
    ("the link comes under another index", |pod| {
        pod.remake_link("nsm-0");
        pod.add_address("nsm-0", "172.16.1.2/24");
    }),
];

/// The median of each kind: a machine that is busy with other tests may stop for longer.
fn what_others_change_is_repaired_within_100_ms() -> Result<(), Failed> {
    for (what, disturb) in DISTURBANCES {
        runtime()?.block_on(async {
            let pod = Pod::<Real>::boot();
            pod.add_link("nsm-0");
            pod.add_address("nsm-0", "172.16.1.2/24");
            let process = Process::start_with(&pod, watching());
            process.request(&of_both_families()).await.unwrap();
            let before = pod.ours();

            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                disturb(&pod);
                let start = Instant::now();
                while pod.ours() != before {
                    assert!(start.elapsed() < PATIENCE, "{what}: {:?}", pod.ours());
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                times.push(start.elapsed());
            }
            times.sort();
            let (median, worst) = (times[ROUNDS / 2], times[ROUNDS - 1]);
            eprintln!("{what}: repaired after {median:.1?}, at most {worst:.1?}");
            assert!(median < AT_ONCE, "{what}: {times:?}");
        });
    }
    Ok(())
}

/// The far end of its interface goes with it.
fn a_watched_pod_goes_with_its_last_connection() -> Result<(), Failed> {
    runtime()?.block_on(async {
        let far = Netns::create().unwrap();
        let pod = Arc::new(Netns::create().unwrap());
        let end = VethEnd::named("nsm-0");
        let mut kernel = pod.open().unwrap();
        kernel.add_veth(&end, &end, &far).unwrap();
        let index = kernel.index_of("nsm-0").unwrap();
        kernel.set_link(index, LinkState::Up).unwrap();
        drop(kernel);
        let layer = PolicyRouteLayer::new(ReceivedNamespace::<Netns>::any(), watching());
        let call = |mut call: Call| {
            call.extensions.insert(Received(Arc::clone(&pod)));
            layer.layer(echo()).oneshot(call)
        };
        let connection = (*of_both_families()).clone();
        let request = NetworkServiceRequest {
            connection: Some(connection.clone()),
            ..NetworkServiceRequest::default()
        };
        call(Call::request(request)).await.unwrap();
        call(Call::close(connection)).await.unwrap();
        drop(pod);

        let start = Instant::now();
        let stands = || {
            let links = far.open().unwrap().links().unwrap();
            links.iter().any(|link| link.name == "nsm-0")
        };
        while stands() {
            assert!(start.elapsed() < PATIENCE, "something holds the namespace");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(layer);
    });
    Ok(())
}
