//! Behaviours of `mechanisms` and of its kernel mechanism: what carries a connection.

use chain_suite::{connection, path, request, send};
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::{INTERFACE_NAME, KERNEL, NETNS_URL, OWN_NETNS};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::mechanisms::{KernelMechanismLayer, MechanismsLayer};
use nsm_chain::test_util::{FailOn, Fault, Recorder, echo};
use nsm_chain::{BoxNetworkService, Call, Error, ErrorKind, NetworkService, Operation};
use tokio::time::{Duration, Instant};
use tower::{Layer, ServiceBuilder};

fn of_type(r#type: &str) -> Mechanism {
    Mechanism {
        r#type: r#type.to_owned(),
        ..Mechanism::kernel()
    }
}

fn preferring(preferences: &[Mechanism]) -> Call {
    Call::request(NetworkServiceRequest {
        connection: Some(connection("c")),
        mechanism_preferences: preferences.to_vec(),
    })
}

fn having(mechanism: Mechanism) -> Connection {
    Connection {
        mechanism: Some(mechanism),
        ..connection("c")
    }
}

/// Fails always.
fn broken(kind: ErrorKind) -> FailOn {
    FailOn::request(1).and_later().with(Fault::Error(kind))
}

/// A far end that takes the first preference.
fn far_end() -> impl NetworkService {
    ServiceBuilder::new()
        .map_request(|mut call: Call| {
            if let Operation::Request(request) = &call.operation
                && request
                    .connection
                    .as_ref()
                    .is_none_or(|it| it.mechanism.is_none())
            {
                let first = request.mechanism_preferences.first().cloned();
                call.connection_mut().mechanism = first;
            }
            call
        })
        .service(echo())
}

/// The types that came by a preference or the mechanism of a connection, call by call.
fn types(recorder: &Recorder) -> Vec<Vec<String>> {
    let of_call = |call: Call| match call.operation {
        Operation::Request(request) => {
            let connection = request.connection.and_then(|it| it.mechanism);
            let all = connection.into_iter().chain(request.mechanism_preferences);
            all.map(|it| it.r#type).collect()
        }
        Operation::Close(connection) => connection
            .mechanism
            .map(|it| it.r#type)
            .into_iter()
            .collect(),
    };
    recorder.calls().into_iter().map(of_call).collect()
}

#[tokio::test]
async fn a_mechanism_that_is_set_is_dispatched_to_whatever_is_preferred() {
    let [a, b, below] = [(); 3].map(|()| Recorder::new());
    let chain = MechanismsLayer::new()
        .with("A", a.clone())
        .with("B", b.clone())
        .layer(below.layer(far_end()));
    let mut call = preferring(&[of_type("A")]);
    call.connection_mut().mechanism = Some(of_type("B"));

    send(&chain, call).await.unwrap();
    send(&chain, Call::close(having(of_type("B"))))
        .await
        .unwrap();

    assert!(a.operations().is_empty());
    assert_eq!(b.operations(), ["request", "close"]);
    assert_eq!(
        below.operations(),
        ["request", "close"],
        "each goes on once"
    );
}

#[tokio::test]
async fn preferences_are_tried_in_their_order_and_each_alone() {
    for (order, asked) in [
        (["A", "B", "C"], &["A", "B"][..]),
        (["C", "B", "A"], &["B"]),
        (["A", "C", "A"], &["A", "A"]),
    ] {
        let tried = Recorder::new();
        let failing = ServiceBuilder::new().layer(tried.clone());
        let failing = failing.layer(broken(ErrorKind::Unavailable));
        let chain = MechanismsLayer::new()
            .with("A", failing.into_inner())
            .with("B", tried.clone())
            .layer(far_end());

        let answer = send(&chain, preferring(&order.map(of_type))).await;

        assert_eq!(types(&tried).concat(), asked);
        assert_eq!(answer.is_ok(), order.contains(&"B"));
        if let Ok(connection) = answer {
            assert_eq!(connection.mechanism, Some(of_type("B")));
        }
    }
}

#[tokio::test]
async fn what_is_not_supported_is_told_and_goes_no_further() {
    let below = Recorder::new();
    let chain = MechanismsLayer::new()
        .with("A", FailOn::request(0))
        .layer(below.layer(far_end()));
    for (call, words) in [
        (
            preferring(&[of_type("X")]),
            "X is not supported (there is A)",
        ),
        (
            preferring(&[of_type("X"), of_type("Y")]),
            "X is not supported; Y is not supported (there is A)",
        ),
        (
            request(having(of_type("X"))),
            "X is not supported (there is A)",
        ),
        (
            preferring(&[]),
            "the request asks for no mechanism (there is A)",
        ),
        (
            request(having(Mechanism::default())),
            "the request asks for no mechanism (there is A)",
        ),
    ] {
        let error = send(&chain, call).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let report = error.report().to_string();
        assert_eq!(report, format!("mechanisms: invalid argument: {words}"));
    }
    assert!(below.operations().is_empty());
}

#[tokio::test]
async fn the_errors_of_all_that_were_tried_are_in_one_error_of_the_first_ones_kind() {
    let chain = MechanismsLayer::new()
        .with("A", broken(ErrorKind::NotFound))
        .with("B", broken(ErrorKind::Unavailable))
        .layer(far_end());
    let preferences = ["X", "A", "B"].map(of_type);

    let error = send(&chain, preferring(&preferences)).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(
        error.report().to_string(),
        "mechanisms: not found: X is not supported; A: fail_on: not found: injected; \
         B: fail_on: unavailable: injected (there is A, B)"
    );
}

#[tokio::test]
async fn an_error_of_the_only_one_comes_as_it_is() {
    let chain = MechanismsLayer::new()
        .with("A", FailOn::request(0))
        .layer(broken(ErrorKind::NotFound).layer(far_end()));
    for call in [preferring(&[of_type("A")]), request(having(of_type("A")))] {
        let error = send(&chain, call).await.unwrap_err();
        assert_eq!(error.report().to_string(), "fail_on: not found: injected");
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_time_is_over_no_further_preference_is_tried() {
    let second = Duration::from_secs(1);
    let b = Recorder::new();
    let slow = FailOn::request(1).with(Fault::Delay(2 * second));
    let slow_and_broken = ServiceBuilder::new()
        .layer(slow)
        .layer(broken(ErrorKind::Unavailable));
    let chain = MechanismsLayer::new()
        .with("A", slow_and_broken.into_inner())
        .with("B", b.clone())
        .layer(far_end());
    let mut call = preferring(&["A", "B"].map(of_type));
    call.deadline = Some(Instant::now() + second);

    send(&chain, call).await.unwrap_err();

    assert!(b.operations().is_empty());
}

#[tokio::test]
async fn a_close_without_a_mechanism_that_is_supported_goes_on_by_no_element() {
    let [a, below] = [(); 2].map(|()| Recorder::new());
    let chain = MechanismsLayer::new()
        .with("A", a.clone())
        .layer(below.layer(far_end()));

    for closed in [
        connection("c"),
        having(of_type("X")),
        having(Mechanism::default()),
    ] {
        send(&chain, Call::close(closed)).await.unwrap();
    }

    assert_eq!(below.operations(), ["close"; 3]);
    assert!(a.operations().is_empty());
}

#[tokio::test]
async fn the_path_tells_which_interface_the_client_has_and_the_first_word_stays() {
    let chain = MechanismsLayer::new()
        .with(KERNEL, FailOn::request(0))
        .layer(far_end());
    let named = |name| Mechanism::kernel().with_parameter(INTERFACE_NAME, name);
    let mut call = preferring(&[named("nsm-1")]);
    call.connection_mut().path = Some(path(0, &[("nsc", "c"), ("forwarder", "f")]));

    let first = send(&chain, call).await.unwrap();

    let segment = first.current_segment().unwrap();
    assert_eq!(segment.metrics["client_interface"], "KERNEL/nsm-1");
    assert!(first.next_segment().unwrap().metrics.is_empty());
    let renamed = Connection {
        mechanism: Some(named("nsm-2")),
        ..first
    };
    let second = send(&chain, request(renamed)).await.unwrap();
    let segment = second.current_segment().unwrap();
    assert_eq!(segment.metrics["client_interface"], "KERNEL/nsm-1");
}

/// What the kernel mechanism makes of preferences of a connection of service `icmp-responder`.
async fn completed(
    layer: KernelMechanismLayer,
    preferences: &[Mechanism],
) -> Result<Vec<Mechanism>, Error> {
    let below = Recorder::new();
    let chain: BoxNetworkService = BoxNetworkService::new(layer.layer(below.layer(echo())));
    let mut call = preferring(preferences);
    call.connection_mut().network_service = "icmp-responder".to_owned();
    send(&chain, call).await?;
    Ok(match below.last().operation {
        Operation::Request(request) => request.mechanism_preferences,
        Operation::Close(_) => Vec::new(),
    })
}

#[tokio::test]
async fn every_kernel_preference_names_a_namespace_and_others_stay_as_they_are() {
    let memif = of_type("MEMIF");
    let own = Mechanism::kernel().with_parameter(INTERFACE_NAME, "nsm-0");
    let preferences = [memif.clone(), own.clone(), own.clone()];

    let asked = completed(KernelMechanismLayer::new(), &preferences)
        .await
        .unwrap();
    let placed = own.clone().with_parameter(NETNS_URL, OWN_NETNS);
    assert_eq!(asked, [memif.clone(), placed.clone(), placed]);

    let elsewhere = KernelMechanismLayer::new().netns_url("file:///run/netns/a");
    let asked = completed(elsewhere, &preferences).await.unwrap();
    assert_eq!(asked[1].parameters[NETNS_URL], "file:///run/netns/a");
    let named = own.with_parameter(NETNS_URL, "file:///run/netns/b");
    let asked = completed(KernelMechanismLayer::new(), std::slice::from_ref(&named)).await;
    assert_eq!(asked.unwrap(), [named]);
}

#[tokio::test]
async fn without_a_kernel_preference_there_is_one_more_and_never_two() {
    let once = completed(KernelMechanismLayer::new(), &[of_type("MEMIF")])
        .await
        .unwrap();
    let types: Vec<_> = once.iter().map(|it| it.r#type.as_str()).collect();
    assert_eq!(types, ["MEMIF", "KERNEL"]);

    let twice = completed(KernelMechanismLayer::new(), &once).await.unwrap();
    assert_eq!(twice, once);
}

#[tokio::test]
async fn an_interface_without_a_name_gets_the_fixed_one_or_one_made_for_the_connection() {
    let empty = Mechanism::kernel().with_parameter(INTERFACE_NAME, "");
    let fixed = KernelMechanismLayer::new().named("nsm-7".parse().unwrap());
    let asked = completed(fixed, std::slice::from_ref(&empty))
        .await
        .unwrap();
    assert_eq!(asked[0].parameters[INTERFACE_NAME], "nsm-7");

    let made = completed(KernelMechanismLayer::new(), &[empty])
        .await
        .unwrap();
    let name = &made[0].parameters[INTERFACE_NAME];
    assert!(
        name.starts_with("icmp-respo-") && name.len() == 15,
        "{name}"
    );
    let after_a_restart = completed(KernelMechanismLayer::new(), &[Mechanism::kernel()])
        .await
        .unwrap();
    assert_eq!(after_a_restart, made, "it finds what it had");
}

#[tokio::test]
async fn a_mechanism_that_is_set_gets_our_name_of_the_namespace_and_keeps_the_rest() {
    let below = Recorder::new();
    let chain = KernelMechanismLayer::new().layer(below.layer(echo()));
    let told = Mechanism::kernel()
        .with_parameter(INTERFACE_NAME, "nsm-0")
        .with_parameter(NETNS_URL, "inode://4/4026532581");
    let expected = told.clone().with_parameter(NETNS_URL, OWN_NETNS);

    for call in [request(having(told.clone())), Call::close(having(told))] {
        send(&chain, call).await.unwrap();
        assert_eq!(below.last().connection().mechanism, Some(expected.clone()));
    }
    let other = having(of_type("MEMIF"));
    send(&chain, Call::close(other.clone())).await.unwrap();
    assert_eq!(below.last().connection(), &other);
}
