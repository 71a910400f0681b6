//! What a hop hears behind it reaches those before it.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use chain_suite::{eventually, send};
use futures_util::StreamExt;
use nsm_api::connection::ConnectionEventType::Delete;
use nsm_api::connection::{Connection, MonitorScopeSelector, State};
use nsm_chain::monitor::{EventStream, RelayLayer, of_segment};
use nsm_chain::test_util::{FailOn, echo};
use nsm_chain::{BoxNetworkService, Call, End, ErrorKind, Monitor, MonitorLayer, UpdatePathLayer};
use tokio::time::{Duration, Instant, sleep};
use tower::{Layer, ServiceBuilder};

use super::hop::{Hop, Way, ask, close, listen, silence, state, told};

/// A client's connection through forwarders to an endpoint, and the client listens.
struct Path {
    nse: Hop,
    /// From the one next to the endpoint to the one next to the client.
    forwarders: Vec<(Hop, RelayLayer, Way)>,
    answer: Connection,
    events: EventStream,
}

impl Path {
    async fn over(forwarders: usize, nse: Hop) -> Self {
        let mut hops: Vec<(Hop, RelayLayer, Way)> = Vec::new();
        for number in (1..=forwarders).rev() {
            let behind = hops.last().map_or(&nse, |(hop, ..)| hop);
            let way = Way::to(behind);
            let (hop, relay) = Hop::before(&format!("forwarder-{number}"), &way);
            hops.push((hop, relay, way));
        }
        let first = hops.last().map_or(&nse, |(hop, ..)| hop);
        let answer = ask(first, Connection::default()).await.unwrap();
        let own = &answer.path.as_ref().unwrap().path_segments[0];
        let mut events = listen(first, of_segment(own));
        assert_eq!(told(&mut events).await.1.len(), 1);
        let path = Self {
            nse,
            forwarders: hops,
            answer,
            events,
        };
        path.is_heard().await;
        path
    }

    /// The hop next to the client.
    fn first(&self) -> &Hop {
        &self.forwarders.last().unwrap().0
    }

    /// The way from it to the one behind.
    fn way(&self) -> &Way {
        &self.forwarders.last().unwrap().2
    }

    /// Waits until each hop listens to the one behind.
    async fn is_heard(&self) {
        let behind = self.forwarders.iter().rev().skip(1).map(|(hop, ..)| hop);
        for hop in behind.chain([&self.nse]) {
            eventually(|| hop.monitor.subscribers() == 1).await;
        }
    }

    async fn refresh(&self) -> Result<Connection, nsm_chain::Error> {
        ask(self.first(), self.answer.clone()).await
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_endpoint_has_to_say_reaches_the_client_over_any_number_of_hops() {
    for forwarders in 1..=3 {
        let mut path = Path::over(forwarders, Hop::last("nse", echo())).await;

        path.nse.says(&path.answer, State::RefreshRequested);
        assert_eq!(state(&mut path.events).await, State::RefreshRequested);
        path.refresh().await.unwrap();
        assert_eq!(state(&mut path.events).await, State::Up);
        path.is_heard().await;

        path.nse.says(&path.answer, State::Down);
        assert_eq!(state(&mut path.events).await, State::Down);
        path.refresh().await.unwrap();
        assert_eq!(state(&mut path.events).await, State::Up);

        close(path.first(), path.answer.clone()).await.unwrap();
        assert_eq!(told(&mut path.events).await.0, Delete);
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_behind_a_hop_is_told_as_down_for_the_way_is_lost() {
    let mut path = Path::over(2, Hop::last("nse", echo())).await;

    let at_nse = path.nse.knows(&path.answer).connection_id().unwrap();
    path.nse.monitor.delete(&at_nse);

    assert_eq!(state(&mut path.events).await, State::Down);
}

#[tokio::test(start_paused = true)]
async fn a_hop_that_is_lost_anywhere_on_the_way_is_told_as_down() {
    for lost in 0..3 {
        let mut path = Path::over(3, Hop::last("nse", echo())).await;

        path.forwarders[lost].2.breaks();

        assert_eq!(state(&mut path.events).await, State::Down, "{lost}");
        silence(&mut path.events, Duration::from_secs(3600)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_with_the_hop_behind_is_told_as_down_and_a_refused_one_is_not() {
    let refuses = FailOn::request(2);
    let mut path = Path::over(1, Hop::last("nse", refuses.layer(End))).await;

    path.refresh().await.unwrap_err();
    silence(&mut path.events, Duration::from_secs(3600)).await;
    assert_eq!(path.way().watched(), 1, "the watch goes on as it was");
    path.nse.says(&path.answer, State::RefreshRequested);
    assert_eq!(state(&mut path.events).await, State::RefreshRequested);

    path.way().breaks();
    let error = path.refresh().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(state(&mut path.events).await, State::Down);
}

#[tokio::test(start_paused = true)]
async fn a_hop_that_is_lost_is_listened_for_with_growing_pauses_until_it_is_back() {
    let mut path = Path::over(1, Hop::last("nse", echo())).await;

    path.way().breaks();
    assert_eq!(state(&mut path.events).await, State::Down);
    sleep(Duration::from_secs(3600)).await;
    let watched = path.way().watched();
    assert!((300..700).contains(&watched), "{watched} in an hour");

    path.way().is_mended();
    path.is_heard_within(Duration::from_secs(15)).await;
    // That it is back does not say that the connection stands. A request does, ...
    silence(&mut path.events, Duration::from_secs(60)).await;
    // ... and the endpoint can ask for one.
    path.nse.says(&path.answer, State::RefreshRequested);
    assert_eq!(state(&mut path.events).await, State::RefreshRequested);
    path.refresh().await.unwrap();
    assert_eq!(state(&mut path.events).await, State::Up);
}

#[tokio::test(start_paused = true)]
async fn a_hop_that_has_forgotten_the_connection_is_told_as_down() {
    let mut path = Path::over(1, Hop::last("nse", echo())).await;
    let at_nse = path.nse.knows(&path.answer).connection_id().unwrap();
    path.way().breaks();
    assert_eq!(state(&mut path.events).await, State::Down);
    path.refresh().await.unwrap_err();

    // Its successor knows nothing, until it is asked for the connection.
    path.nse.monitor.delete(&at_nse);
    path.way().is_mended();
    path.is_heard_within(Duration::from_secs(15)).await;
    assert_eq!(path.first().knows(&path.answer).state(), State::Down);

    path.refresh().await.unwrap();
    assert_eq!(state(&mut path.events).await, State::Up);
    path.is_heard().await;
    silence(&mut path.events, Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_close_ends_the_watch_of_its_connection_and_of_no_other() {
    let mut path = Path::over(2, Hop::last("nse", echo())).await;
    let other = ask(path.first(), Connection::default()).await.unwrap();
    let hears = |subscribers| {
        let (hops, nse) = (&path.forwarders, &path.nse);
        eventually(move || {
            hops[0].0.monitor.subscribers() == subscribers
                && nse.monitor.subscribers() == subscribers
                && hops
                    .iter()
                    .all(|(_, relay, _)| relay.watches() == subscribers)
        })
    };
    hears(2).await;

    close(path.first(), path.answer.clone()).await.unwrap();
    hears(1).await;
    assert_eq!(told(&mut path.events).await.0, Delete);

    let hears = |subscribers| {
        let nse = &path.nse;
        eventually(move || nse.monitor.subscribers() == subscribers)
    };
    close(path.first(), other).await.unwrap();
    hears(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_close_while_the_hop_behind_is_lost_leaves_no_watch_and_no_timer() {
    let path = Path::over(1, Hop::last("nse", echo())).await;
    let before = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    path.way().breaks();
    sleep(Duration::from_secs(1)).await;

    close(path.first(), path.answer.clone()).await.ok();

    assert_eq!(path.forwarders[0].1.watches(), 0);
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    eventually(|| tasks() < before).await;
    let watched = path.way().watched();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(path.way().watched(), watched);
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_goes_takes_its_watches_along_and_tells_nobody() {
    let mut path = Path::over(1, Hop::last("nse", echo())).await;
    let (hop, relay, way) = path.forwarders.pop().unwrap();
    let Hop { chain, monitor } = hop;

    // As a forwarder ends that leaves everything as it stands.
    monitor.close();
    drop((chain, relay, way));

    eventually(|| path.nse.monitor.subscribers() == 0).await;
    let end = futures_util::StreamExt::next(&mut path.events).await;
    assert!(end.is_none(), "{end:?}");
    assert_eq!(path.nse.monitor.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_keeps_nothing_of_the_call_that_began_it() {
    let nse = Hop::last("nse", echo());
    let relay = RelayLayer::new(Monitor::new(), Way::to(&nse));
    let chain = UpdatePathLayer::new("forwarder").layer(relay.layer(Way::to(&nse)));
    // What a descriptor is held by.
    let held = Arc::new(());
    let mut call = chain_suite::request(Connection::default());
    call.extensions.insert(Arc::clone(&held));

    let answer = send(&chain, call).await.unwrap();

    assert_eq!(relay.watches(), 1);
    eventually(|| nse.monitor.subscribers() == 1).await;
    assert_eq!(Arc::strong_count(&held), 1);
    send(&chain, Call::close(answer)).await.unwrap();
    assert_eq!(relay.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_begins_the_watch_anew_and_leaves_one() {
    let path = Path::over(1, Hop::last("nse", echo())).await;

    for _ in 0..100 {
        path.refresh().await.unwrap();
    }

    assert_eq!(path.forwarders[0].1.watches(), 1);
    eventually(|| path.nse.monitor.subscribers() == 1).await;
    let mut everything = listen(path.first(), MonitorScopeSelector::default());
    assert_eq!(told(&mut everything).await.1.len(), 1);
    drop(everything);
}

impl Path {
    /// Waits until the first hop listens again.
    async fn is_heard_within(&self, time: Duration) {
        let since = Instant::now();
        while self.nse.monitor.subscribers() == 0 {
            assert!(since.elapsed() < time);
            sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_goes_behind_a_hop_before_its_answer_is_through_is_told_after_it() {
    let (own, behind) = (Monitor::new(), Monitor::new());
    let slow = |connection: Connection| async {
        sleep(Duration::from_secs(1)).await;
        Ok::<_, nsm_chain::Error>(connection)
    };
    let chain = ServiceBuilder::new()
        .layer(BoxNetworkService::layer())
        .layer(UpdatePathLayer::new("forwarder"))
        .layer(MonitorLayer::new(own.clone()))
        .and_then(slow)
        .layer(RelayLayer::new(own.clone(), behind.clone()))
        .layer(UpdatePathLayer::new("nse"))
        .layer(MonitorLayer::new(behind.clone()))
        .service(End);
    let request = chain_suite::request(chain_suite::connection("c"));
    let asked = tokio::spawn(async move { send(&chain, request).await.map(|it| (it, chain)) });
    eventually(|| behind.subscribers() == 1).await;

    let id = |name: &str| nsm_api::ConnectionId::try_from(name).unwrap();
    let known = listen_to(&behind).await;
    behind.delete(&id(&known));
    let (answer, _chain) = asked.await.unwrap().unwrap();

    let told = || own.connection(&id(&answer.id)).unwrap().state();
    eventually(|| told() == State::Down).await;
}

/// The id of the one connection that a monitor knows.
async fn listen_to(monitor: &Monitor) -> String {
    let mut events = monitor.subscribe(MonitorScopeSelector::default());
    let event = events.next().await.unwrap();
    event.connections.into_keys().next().unwrap()
}
