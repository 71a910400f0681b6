//! Behaviours of `heal`.

mod hop;

use chain_suite::{eventually, pass};
use hop::{Client, Switch, Tells};
use nsm_api::connection::State;
use nsm_chain::{ErrorKind, HealLayer};
use tokio::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// As it comes.
fn plain(heal: HealLayer) -> HealLayer {
    heal
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_works_is_left_alone() {
    let alive = Switch::on();
    let client = Client::standing(|heal| heal.liveness(alive, SECOND / 5)).await;

    pass(HOUR / 6).await;

    assert!(client.since().is_empty());
    assert_eq!(client.hop.watched(), 1, "one stream all the time");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_down_behind_the_next_hop_is_asked_for_at_once() {
    let client = Client::standing(plain).await;
    let start = Instant::now();

    client.hop.says(State::Down);
    eventually(|| client.since() == ["request"]).await;

    assert!(start.elapsed().is_zero());
    pass(HOUR).await;
    assert_eq!(client.since(), ["request"], "and once, for it is up");
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_something_new_is_asked_for_at_once() {
    let client = Client::standing(plain).await;
    let start = Instant::now();

    client.hop.says(State::RefreshRequested);
    eventually(|| client.since() == ["request"]).await;

    assert!(start.elapsed().is_zero());
    pass(HOUR).await;
    assert_eq!(client.since(), ["request"]);
}

#[tokio::test(start_paused = true)]
async fn news_that_come_while_nobody_listens_or_before_the_answer_are_heard() {
    let client = Client::new(plain);
    client.request().await.unwrap();
    // Before anybody has begun to listen.
    client.hop.says(State::RefreshRequested);

    eventually(|| client.since() == ["request"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_next_hop_that_is_away_is_waited_for_and_one_that_knows_the_connection_is_not_asked() {
    let client = Client::standing(plain).await;

    client.hop.tells(Tells::Away);
    pass(HOUR).await;
    assert!(client.since().is_empty(), "what stands, stands");

    client.hop.tells(Tells::Yes);
    client.listens().await;
    pass(HOUR).await;
    assert!(client.since().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_next_hop_that_has_forgotten_the_connection_is_asked_for_it() {
    let client = Client::standing(plain).await;

    for restarts in 1..100 {
        client.hop.restart();
        // However often it ends, and however soon.
        pass(SECOND / 5).await;
        assert_eq!(client.since().len(), restarts);
    }
    assert!(client.since().iter().all(|it| *it == "request"));
}

#[tokio::test(start_paused = true)]
async fn a_next_hop_that_comes_and_goes_all_the_time_is_asked_with_a_pause_each_time() {
    let client = Client::standing(plain).await;
    for _ in 0..6000 {
        client.hop.restart();
        pass(SECOND / 100).await;
    }
    let asked = client.since().len();
    assert!((100..2500).contains(&asked), "{asked} in a minute");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_gone_is_let_go_after_one_request_that_fails() {
    let client = Client::standing(plain).await;
    client.hop.endpoint_is_gone(Some(ErrorKind::NotFound));
    let start = Instant::now();

    client.hop.says(State::Down);
    eventually(|| client.since() == ["request", "close", "request"]).await;

    assert!(start.elapsed().is_zero());
    let asked = client.below.last();
    assert_eq!(asked.connection().network_service_endpoint_name, "");
    client.hop.endpoint_is_gone(None);
    pass(HOUR).await;
    assert_eq!(client.since().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_not_reached_is_asked_for_with_pauses_until_patience_ends() {
    let client = Client::standing(|heal| heal.patience(10 * SECOND)).await;
    client.hop.endpoint_is_gone(Some(ErrorKind::Unavailable));
    let start = Instant::now();

    client.hop.says(State::Down);
    pass(5 * SECOND).await;
    let asked = client.since().len();
    assert!((4..12).contains(&asked), "{asked}");
    assert!(client.since().iter().all(|it| *it == "request"));

    pass(HOUR).await;
    let calls = client.since();
    let close = calls.iter().position(|it| *it == "close").unwrap();
    assert_eq!(calls[close..], ["close", "request"]);
    assert!(start.elapsed() >= 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn another_endpoint_is_asked_for_until_there_is_one_less_and_less_often() {
    let client = Client::standing(plain).await;
    client.hop.endpoint_is_gone(Some(ErrorKind::NotFound));
    client.hop.refuse([ErrorKind::NotFound; 20]);

    client.hop.says(State::Down);
    pass(HOUR).await;

    let calls = client.since();
    let requests = calls.iter().filter(|it| **it == "request").count();
    assert_eq!(requests, 21, "twenty were refused");
    assert_eq!(client.heal.connections(), 1);
    client.hop.endpoint_is_gone(None);

    client.hop.says(State::Down);
    pass(SECOND).await;
    assert_eq!(
        client.since().len(),
        calls.len() + 1,
        "it is kept as before"
    );
}

#[tokio::test(start_paused = true)]
async fn after_refreshes_another_endpoint_is_asked_for_until_there_is_one_as_well() {
    let client = Client::standing(plain).await;
    for _ in 0..3 {
        client.request().await.unwrap();
    }
    client.hop.endpoint_is_gone(Some(ErrorKind::NotFound));
    client.hop.refuse([ErrorKind::NotFound; 5]);

    client.hop.says(State::Down);
    pass(HOUR).await;

    let calls = client.since();
    assert_eq!(calls.iter().filter(|it| **it == "request").count(), 3 + 6);
    assert_eq!(client.heal.connections(), 1);
    client.hop.endpoint_is_gone(None);
    client.hop.restart();
    pass(SECOND).await;
    assert_eq!(
        client.since().len(),
        calls.len() + 1,
        "it is kept as before"
    );
}

#[tokio::test(start_paused = true)]
async fn a_next_hop_that_goes_in_the_middle_of_a_repair_costs_no_endpoint() {
    let client = Client::standing(|heal| heal.patience(10 * SECOND)).await;
    client.hop.endpoint_is_gone(Some(ErrorKind::Unavailable));
    client.hop.says(State::Down);
    pass(3 * SECOND).await;

    client.hop.tells(Tells::Away);
    pass(HOUR).await;
    client.hop.endpoint_is_gone(None);
    client.hop.restart();
    client.hop.tells(Tells::Yes);
    pass(HOUR).await;

    assert!(client.since().iter().all(|it| *it == "request"));
    assert!(client.since().len() < 12, "{:?}", client.since().len());
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_is_no_trouble_and_what_comes_after_it_is_heard() {
    let client = Client::standing(plain).await;
    client.hop.refuse([ErrorKind::Unavailable]);

    client.request().await.unwrap_err();
    pass(HOUR).await;
    assert_eq!(client.since(), ["request"], "nothing follows from it");

    client.hop.says(State::Down);
    pass(SECOND).await;
    assert_eq!(client.since(), ["request"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_repair_ends_when_somebody_else_gets_the_connection() {
    let client = Client::standing(plain).await;
    client.hop.refuse([ErrorKind::Unavailable; 3]);
    client.hop.says(State::Down);
    eventually_later(|| client.since().len() == 2).await;

    client.request().await.unwrap_err();
    client.request().await.unwrap();
    let asked = client.since().len();
    assert_eq!(asked, 4);
    pass(HOUR).await;

    assert_eq!(client.since().len(), asked);
}

#[tokio::test(start_paused = true)]
async fn a_close_ends_it_all_also_in_the_middle_of_a_repair() {
    for trouble in [
        None,
        Some(ErrorKind::Unavailable),
        Some(ErrorKind::NotFound),
    ] {
        let client = Client::standing(plain).await;
        if let Some(kind) = trouble {
            client.hop.refuse([kind; 50]);
            client.hop.says(State::Down);
            pass(2 * SECOND).await;
        }

        client.close().await.unwrap();
        let calls = client.since().len();
        assert_eq!(client.heal.connections(), 0);
        pass(HOUR).await;

        assert_eq!(client.since().len(), calls, "{trouble:?}");
        assert_eq!(client.since().last(), Some(&"close"));
        assert_eq!(client.hop.monitor().subscribers(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn traffic_without_an_answer_takes_a_request_and_then_another_endpoint() {
    let alive = Switch::on();
    let client = Client::standing(|heal| heal.liveness(alive.clone(), SECOND / 5)).await;

    pass(SECOND).await;
    alive.set(false);
    let start = Instant::now();
    eventually_later(|| client.since() == ["request"]).await;
    assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
    eventually_later(|| client.since() == ["request", "close", "request"]).await;
    assert!(start.elapsed() < 10 * SECOND, "{:?}", start.elapsed());

    alive.set(true);
    pass(HOUR).await;
    assert_eq!(client.since().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_lost_answer_is_nothing() {
    let alive = Switch::on();
    let client = Client::standing(|heal| heal.liveness(alive.clone(), SECOND / 5)).await;
    for _ in 0..100 {
        alive.set(false);
        pass(SECOND).await;
        alive.set(true);
        pass(2 * SECOND).await;
    }
    assert!(client.since().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_felt_while_the_next_hop_is_away_takes_no_other_endpoint() {
    let alive = Switch::on();
    let client = Client::standing(|heal| heal.liveness(alive.clone(), SECOND / 5)).await;

    pass(SECOND).await;
    client.hop.tells(Tells::Away);
    alive.set(false);
    pass(HOUR).await;
    assert!(client.since().is_empty());

    alive.set(true);
    client.hop.restart();
    client.hop.tells(Tells::Yes);
    pass(HOUR).await;
    assert_eq!(client.since(), ["request"]);
}

#[tokio::test(start_paused = true)]
async fn a_next_hop_that_does_not_tell_is_asked_once_and_what_is_felt_counts() {
    for kind in [
        ErrorKind::Unimplemented,
        ErrorKind::PermissionDenied,
        ErrorKind::Cancelled,
    ] {
        let alive = Switch::on();
        let client = Client::standing(|heal| heal.liveness(alive.clone(), SECOND / 5)).await;
        let before = client.hop.watched();

        client.hop.tells(Tells::Not(kind));
        pass(HOUR).await;
        assert_eq!(client.since(), ["request"], "{kind}");
        let listened = client.hop.watched() - before;
        assert!((300..1000).contains(&listened), "{listened} in an hour");

        alive.set(false);
        pass(20 * SECOND).await;
        assert!(client.since().contains(&"close"), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_next_hop_that_is_frozen_is_asked_once_and_loses_no_endpoint() {
    let client = Client::standing(plain).await;
    client.hop.tells(Tells::Not(ErrorKind::DeadlineExceeded));
    client.hop.refuse([ErrorKind::DeadlineExceeded]);

    pass(HOUR).await;

    assert_eq!(client.since(), ["request"]);
}

#[tokio::test(start_paused = true)]
async fn a_next_hop_that_always_says_that_something_is_wrong_makes_no_storm() {
    for (state, most) in [(State::Down, 150), (State::RefreshRequested, 7300)] {
        let client = Client::standing(plain).await;
        let monitor = client.hop.monitor();
        let crazy = tokio::spawn(async move {
            let id = "at-the-hop".try_into().unwrap();
            loop {
                monitor.state(&id, state);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });

        pass(HOUR).await;

        crazy.abort();
        let asked = client.since().len();
        assert!((100..most).contains(&asked), "{asked} requests in an hour");
        assert!(client.since().iter().all(|it| *it == "request"));
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_belong_together_are_asked_for_together() {
    for (together, expected) in [(true, 2), (false, 1)] {
        let client = Client::standing(|heal| heal.all_together(together)).await;
        let other = chain_suite::request(chain_suite::connection("other"));
        chain_suite::send(&client.chain, other).await.unwrap();
        let asked = client.since().len();
        pass(SECOND).await;

        client.hop.says(State::RefreshRequested);
        pass(SECOND).await;

        assert_eq!(client.since().len() - asked, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_chain_that_is_gone() {
    let client = Client::standing(plain).await;
    let monitor = client.hop.monitor();

    drop(client);

    eventually(|| monitor.subscribers() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_request_that_fails_is_not_healed() {
    let client = Client::new(plain);
    client.hop.refuse([ErrorKind::Unavailable]);

    client.request().await.unwrap_err();
    pass(HOUR).await;

    assert_eq!(client.heal.connections(), 0);
    assert_eq!(client.below.operations(), ["request", "close"]);
}

/// Lets paused time pass until a condition holds.
async fn eventually_later(condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        pass(SECOND / 20).await;
    }
    panic!("it never comes");
}
