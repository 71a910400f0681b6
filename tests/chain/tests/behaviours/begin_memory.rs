//! Behaviours of `begin`: what it knows of a connection, and what a caller may change.

use std::collections::BTreeMap;

use chain_suite::{Begun, connection, send};
use nsm_api::connection::{Connection, Mechanism, State};
use nsm_api::connectioncontext::{ConnectionContext, IpContext};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::test_util::{FailOn, echo};
use nsm_chain::{Call, Error, Operation, Side};
use tower::{Layer, service_fn};

fn extra(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn with_extra(pairs: &[(&str, &str)]) -> Connection {
    Connection {
        context: Some(ConnectionContext {
            extra_context: extra(pairs),
            ..ConnectionContext::default()
        }),
        ..connection("c")
    }
}

fn extra_of(call: &Call) -> BTreeMap<String, String> {
    let context = call.connection().context.clone();
    context.unwrap_or_default().extra_context
}

#[tokio::test(start_paused = true)]
async fn a_close_goes_down_with_the_connection_that_is_known_and_not_with_the_callers() {
    for side in [Side::Client, Side::Server] {
        let begun = Begun::new(side, echo());

        begun.request(with_extra(&[("mark", "set")])).await.unwrap();
        begun.close(connection("c")).await.unwrap();

        assert_eq!(begun.below.operations(), ["request", "close"]);
        assert_eq!(extra_of(&begun.below.last()), extra(&[("mark", "set")]));
        assert_eq!(begun.layer.connections(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_of_an_unknown_connection_is_passed_on_with_the_callers() {
    for side in [Side::Client, Side::Server] {
        let begun = Begun::new(side, echo());
        let known_to_the_caller = with_extra(&[("mark", "of the caller")]);

        begun.close(known_to_the_caller.clone()).await.unwrap();

        assert_eq!(begun.below.operations(), ["close"]);
        assert_eq!(*begun.below.last().connection(), known_to_the_caller);
        assert_eq!(begun.layer.connections(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_twice_reaches_downstream_twice() {
    for side in [Side::Client, Side::Server] {
        let begun = Begun::new(side, echo());

        begun.request(connection("c")).await.unwrap();
        begun.close(connection("c")).await.unwrap();
        begun.close(connection("c")).await.unwrap();

        assert_eq!(begun.below.operations(), ["request", "close", "close"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_after_a_close_establishes_anew() {
    let begun = Begun::new(Side::Client, FailOn::request(2).layer(echo()));

    begun.request(with_extra(&[("mark", "old")])).await.unwrap();
    begun.close(connection("c")).await.unwrap();
    begun.request(connection("c")).await.unwrap_err();

    assert_eq!(
        begun.below.operations(),
        ["request", "close", "request", "close"]
    );
    assert_eq!(extra_of(&begun.below.last()), extra(&[]));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_again_changes_context_and_endpoint_and_nothing_else() {
    let begun = Begun::new(Side::Client, echo());
    let first = Connection {
        mechanism: Some(Mechanism::kernel()),
        labels: extra(&[("app", "first")]),
        network_service: "first".to_owned(),
        network_service_endpoint_name: "nse-1".to_owned(),
        payload: "IP".to_owned(),
        ..connection("c")
    };
    let changed_context = Some(ConnectionContext {
        ip_context: Some(IpContext {
            src_ip_addrs: vec!["10.0.0.1/32".to_owned()],
            ..IpContext::default()
        }),
        mtu: 1400,
        extra_context: extra(&[("key", "value")]),
        ..ConnectionContext::default()
    });

    let told = begun.request(first.clone()).await.unwrap();
    begun
        .request(Connection {
            mechanism: Some(Mechanism::default()),
            labels: extra(&[("app", "changed")]),
            network_service: "changed".to_owned(),
            network_service_endpoint_name: "nse-2".to_owned(),
            payload: "ETHERNET".to_owned(),
            state: State::Down.into(),
            context: changed_context.clone(),
            ..told
        })
        .await
        .unwrap();

    let expected = Connection {
        network_service_endpoint_name: "nse-2".to_owned(),
        context: changed_context,
        ..first
    };
    assert_eq!(*begun.below.last().connection(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_client_changes_extra_context_key_by_key() {
    let begun = Begun::new(Side::Client, echo());
    let first = with_extra(&[("kept", "1"), ("changed", "1"), ("removed", "1")]);

    begun.request(first).await.unwrap();
    let again = with_extra(&[("kept", "1"), ("changed", "2"), ("added", "1")]);
    begun.request(again).await.unwrap();

    let expected = extra(&[("kept", "1"), ("changed", "2"), ("added", "1")]);
    assert_eq!(extra_of(&begun.below.last()), expected);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_again_for_what_it_was_told_keeps_what_an_event_brought() {
    // The endpoint counts its answers, in the context and in the mechanism.
    let end = service_fn(|call: Call| async move {
        let mut connection = call.connection().clone();
        let answers = connection.context.get_or_insert_default();
        answers.mtu += 1;
        let mtu = answers.mtu.to_string();
        answers.extra_context.insert("answers".to_owned(), mtu);
        Ok::<_, Error>(connection)
    });
    let begun = Begun::new(Side::Client, end);

    let mut told = begun.request(connection("c")).await.unwrap();
    begun.events().request().await.unwrap();
    told.context
        .get_or_insert_default()
        .extra_context
        .insert("added".to_owned(), "1".to_owned());
    begun.request(told).await.unwrap();

    let asked = begun.below.last();
    assert_eq!(asked.connection().context.as_ref().unwrap().mtu, 2);
    assert_eq!(extra_of(&asked), extra(&[("added", "1"), ("answers", "2")]));
}

#[tokio::test(start_paused = true)]
async fn the_mechanism_preferences_are_always_the_callers() {
    for side in [Side::Client, Side::Server] {
        let begun = Begun::new(side, echo());
        let preferring = |kind: &str| {
            Call::request(NetworkServiceRequest {
                connection: Some(connection("c")),
                mechanism_preferences: vec![Mechanism {
                    r#type: kind.to_owned(),
                    ..Mechanism::default()
                }],
            })
        };

        send(&begun.chain, preferring("KERNEL")).await.unwrap();
        send(&begun.chain, preferring("MEMIF")).await.unwrap();

        let Operation::Request(asked) = begun.below.last().operation else {
            panic!("the last call is a request");
        };
        assert_eq!(asked.mechanism_preferences[0].r#type, "MEMIF");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_takes_a_request_as_it_is() {
    let begun = Begun::new(Side::Server, echo());
    let changed = Connection {
        mechanism: Some(Mechanism::kernel().with_parameter("name", "nsm-2")),
        labels: extra(&[("app", "changed")]),
        ..connection("c")
    };

    begun.request(with_extra(&[("mark", "old")])).await.unwrap();
    begun.request(changed.clone()).await.unwrap();

    assert_eq!(*begun.below.last().connection(), changed);
}

#[tokio::test(start_paused = true)]
async fn a_server_answers_that_the_connection_is_up_and_a_client_tells_what_it_was_told() {
    let down = Connection {
        state: State::Down.into(),
        ..connection("c")
    };

    for (side, state) in [(Side::Server, State::Up), (Side::Client, State::Down)] {
        let answer = Begun::new(side, echo()).request(down.clone()).await;
        assert_eq!(answer.unwrap().state(), state);
    }
}

fn reselecting() -> Connection {
    Connection {
        state: State::ReselectRequested.into(),
        network_service: "again".to_owned(),
        ..connection("c")
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_asked_to_reselect_closes_what_stands_first() {
    let begun = Begun::new(Side::Server, echo());

    begun.request(with_extra(&[("mark", "old")])).await.unwrap();
    let answer = begun.request(reselecting()).await.unwrap();

    let calls = begun.below.calls();
    assert_eq!(begun.below.operations(), ["request", "close", "request"]);
    assert_eq!(extra_of(&calls[1]), extra(&[("mark", "old")]));
    assert_eq!(*calls[2].connection(), reselecting());
    assert_eq!(answer.state(), State::Up);
}

#[tokio::test(start_paused = true)]
async fn a_server_reselects_even_if_what_stands_cannot_be_closed() {
    let begun = Begun::new(Side::Server, FailOn::close(1).layer(echo()));

    begun.request(connection("c")).await.unwrap();
    begun.request(reselecting()).await.unwrap();

    assert_eq!(begun.below.operations(), ["request", "close", "request"]);
}

#[tokio::test(start_paused = true)]
async fn a_reselect_that_fails_on_a_server_is_a_first_request_that_fails() {
    let begun = Begun::new(Side::Server, FailOn::request(2).layer(echo()));
    let standing = Connection {
        mechanism: Some(Mechanism::kernel()),
        ..reselecting()
    };

    begun.request(connection("c")).await.unwrap();
    begun.request(standing.clone()).await.unwrap_err();

    // It is no return, whatever it carries: what stood has been closed a moment ago.
    assert_eq!(
        begun.below.operations(),
        ["request", "close", "request", "close"]
    );
    assert_eq!(begun.layer.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_nothing_has_nothing_to_close_for_a_reselect() {
    let begun = Begun::new(Side::Server, echo());

    begun.request(reselecting()).await.unwrap();

    assert_eq!(begun.below.operations(), ["request"]);
}
