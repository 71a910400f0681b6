//! What has to hold for whoever uses the mesh, whoever wrote its parts.

use super::Outcome;
use super::Trial;
use super::cell::Language::{Go, Rust};
use super::pod::Stands;
use super::stage::Stage;
use e2e::{until, while_served};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    Connect,
    Refresh,
    PolicyChange,
    NextHopChange,
    EndpointKilled,
    EndpointLost,
    ForwarderKilled,
    Close,
    Descriptors,
}

use Behaviour::{
    Close, Connect, Descriptors, EndpointKilled, EndpointLost, ForwarderKilled, NextHopChange,
    PolicyChange, Refresh,
};

/// A client whose tokens live for this long asks again at each fifth of it.
const SHORT: [&str; 2] = ["--max-token-lifetime=6s", "--request-timeout=3s"];

impl Behaviour {
    pub(super) const ALL: [Self; 9] = [
        Connect,
        Refresh,
        PolicyChange,
        NextHopChange,
        EndpointKilled,
        EndpointLost,
        ForwarderKilled,
        Close,
        Descriptors,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Connect => "connect",
            Refresh => "refresh",
            PolicyChange => "policy_change",
            NextHopChange => "next_hop_change",
            EndpointKilled => "endpoint_killed",
            EndpointLost => "endpoint_lost",
            ForwarderKilled => "forwarder_killed",
            Close => "close",
            Descriptors => "descriptors",
        }
    }
}

/// Plays it.
///
/// # Panics
/// When it does not hold.
pub(super) fn run(programs: &Path, trial: Trial) -> Outcome {
    let settings: &[&str] = match trial.behaviour {
        Refresh | PolicyChange | NextHopChange | Descriptors => &SHORT,
        _ => &[],
    };
    let stage = Stage::start(programs, trial.cell, settings);
    match trial.behaviour {
        Connect => connect(&stage),
        Refresh => refresh(&stage),
        PolicyChange => policy_change(&stage),
        NextHopChange => next_hop_change(&stage),
        EndpointKilled => endpoint_killed(stage),
        EndpointLost => endpoint_lost(stage),
        ForwarderKilled => forwarder_killed(stage),
        Close => close(stage),
        Descriptors => descriptors(stage),
    }
}

/// The pod has the interface, the addresses, the routes and the rules, and the endpoint its end. The
/// client has the addresses and the policies in its answer. No descriptor of the pod has gone further
/// than the forwarder.
fn connect(stage: &Stage) -> Outcome {
    let expected = stage.expected(0, 0);
    assert_eq!(stage.pod(), expected);

    let client = stage.client.as_ref().unwrap();
    let told = client.told_addresses("nsm-0").into_iter();
    let told = told.map(|it| format!("{it} on nsm-0")).collect();
    assert_eq!(expected.addresses, told);
    assert!(client.log().contains("policies=2"), "{}", client.log());

    let network = stage.network();
    assert_eq!(network.interfaces.len(), 1, "{network:?}");
    assert_eq!(network.addresses.len(), 2, "{network:?}");
    assert_eq!(stage.hops().len(), 3);
    assert_eq!(stage.held(stage.endpoint.as_ref().unwrap()), 0);
    Outcome::Holds
}

/// Several lives of the client's token pass, each with a later end, and nothing changes: neither what stands in the kernel,
/// nor the ids of the hops, nor that packets are answered.
fn refresh(stage: &Stage) -> Outcome {
    let (pod, network, hops) = (stage.pod(), stage.network(), stage.hops());
    let expiry = stage.expiry();
    while_served(&stage.mesh, 0, 0, || sleep(Duration::from_secs(15)));

    // The first token has long expired.
    let later = stage.expiry() - expiry;
    assert!(later > 10, "the token expires {later} seconds later");
    assert_eq!(stage.pod(), pod);
    assert_eq!(stage.network(), network);
    assert_eq!(stage.hops(), hops);
    Outcome::Holds
}

/// Other sources have policies than before: those are in the pod, and nothing is left of the former.
fn policy_change(stage: &Stage) -> Outcome {
    stage.write_policies(1, 0);
    stage.until_pod(&stage.expected(1, 0));
    until("the new traffic is answered", || stage.answers(1));
    Outcome::Holds
}

/// The same sources have another next hop.
fn next_hop_change(stage: &Stage) -> Outcome {
    stage.write_policies(0, 1);
    if stage.cell.forwarder == Go {
        until("the endpoint answers with the other next hop", || {
            stage.is_answered(1)
        });
        // Refreshes pass, and nobody changes anything.
        let expiry = stage.expiry();
        sleep(Duration::from_secs(5));
        assert!(stage.expiry() > expiry);
        assert!(stage.is_answered(1));
        assert_eq!(stage.pod(), stage.expected(0, 0));
        return Outcome::Impossible(
            "the Go forwarder leaves a policy as it is whose routes alone change",
        );
    }
    stage.until_pod(&stage.expected(0, 1));
    stage.write_policies(0, 0);
    stage.until_pod(&stage.expected(0, 0));
    until("the traffic is answered", || stage.answers(0));
    Outcome::Holds
}

/// The endpoint is killed and started anew. It has the connection again, with the same ids and
/// addresses, and packets are answered then.
fn endpoint_killed(mut stage: Stage) -> Outcome {
    let (pod, network, hops) = (stage.pod(), stage.network(), stage.hops());
    stage.kill_endpoint();
    sleep(Duration::from_secs(1));
    stage.start_endpoint();
    until("the endpoint knows the connection", || {
        stage.at_endpoint().len() == 1
    });
    until("the traffic is answered", || stage.answers(0));

    assert_eq!(stage.pod(), pod);
    assert_eq!(stage.network(), network);
    assert_eq!(stage.hops(), hops);
    Outcome::Holds
}

/// The endpoint is gone with its end of the connection, as with its pod, and comes again.
fn endpoint_lost(mut stage: Stage) -> Outcome {
    let pod = stage.pod();
    stage.kill_endpoint();
    stage.mesh.delete_interfaces(0);
    sleep(Duration::from_secs(1));
    stage.start_endpoint();
    if stage.cell.forwarder == Go {
        // All is there again, and the rules lead to tables without a route.
        let way = |policy: &String| policy.split_once(": ").unwrap().0.to_owned();
        let nowhere = pod.policies.keys().map(|it| (format!("{}: ", way(it)), 1));
        stage.until_pod(&Stands {
            policies: nowhere.collect(),
            ..pod
        });
        until("the endpoint knows the connection", || {
            stage.at_endpoint().len() == 1
        });
        assert!(!stage.answers(0));
        return Outcome::Impossible(
            "the Go forwarder cannot remove the policies of an interface that is gone, keeps them in \
             mind as installed, and installs nothing when it makes the interface anew: traffic takes \
             another way, and no liveness check sees it",
        );
    }
    until("the traffic is answered", || stage.answers(0));
    stage.until_pod(&pod);
    Outcome::Holds
}

/// The forwarder is killed and started anew. It has the connection again, and the pod is as before. One
/// of ours touches nothing, so that packets are answered all the time.
fn forwarder_killed(mut stage: Stage) -> Outcome {
    let (pod, network, hops) = (stage.pod(), stage.network(), stage.hops());
    stage.forwarder.take().unwrap().kill();
    let restart = || {
        let forwarder = stage.mesh.forwarder(&[]);
        until("the forwarder knows the connection", || {
            stage.at_forwarder().len() == 1
        });
        forwarder
    };
    let forwarder = match stage.cell.forwarder {
        Rust => while_served(&stage.mesh, 0, 0, restart),
        Go => restart(),
    };
    stage.forwarder = Some(forwarder);
    until("the traffic is answered", || stage.answers(0));

    stage.until_pod(&pod);
    assert_eq!(stage.hops(), hops);
    if stage.cell.forwarder == Rust {
        assert_eq!(stage.network(), network);
    }
    Outcome::Holds
}

/// The client ends: nothing is left of the connection, with anybody, and the addresses are given
/// again.
fn close(mut stage: Stage) -> Outcome {
    let pod = stage.pod();
    assert_eq!(stage.client.take().unwrap().stop(), Some(0));
    assert!(stage.pod().is_empty(), "{:?}", stage.pod());
    assert!(stage.network().is_empty(), "{:?}", stage.network());
    assert_eq!(stage.at_forwarder(), []);
    assert_eq!(stage.at_endpoint(), []);

    stage.start_client();
    assert_eq!(stage.pod(), pod);
    Outcome::Holds
}

/// The forwarder holds no more descriptors of the pod after many refreshes than after a few, and none
/// when the connection is closed.
fn descriptors(mut stage: Stage) -> Outcome {
    let held = |stage: &Stage| stage.held(stage.forwarder.as_ref().unwrap());
    sleep(Duration::from_secs(2));
    let (before, expiry) = (held(&stage), stage.expiry());
    sleep(Duration::from_secs(6));
    let after = held(&stage);
    assert!(stage.expiry() > expiry, "no refresh");
    stage.client.take().unwrap().stop();
    until("the connection is closed", || {
        stage.at_forwarder().is_empty()
    });
    if stage.cell.forwarder == Go {
        assert!(after > before, "{before}, then {after}");
        // With the close go those that were sent for it.
        assert!(held(&stage) > 0);
        return Outcome::Impossible(
            "the Go forwarder keeps a descriptor of the pod more with each request, also after the close",
        );
    }
    assert_eq!(after, before);
    until("no descriptor is left", || held(&stage) == 0);
    Outcome::Holds
}
