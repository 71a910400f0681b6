//! Policies that change while connections stand: who is asked to refresh.

use futures_util::{FutureExt, StreamExt};
use nsm_api::connection::{ConnectionEventType, MonitorScopeSelector, State};
use nsm_chain::monitor::Subscription;

use nsm_chain::test_util::{FailOn, Fault};
use tokio::time::{Duration, sleep};

use super::{Client, Endpoint, SETTINGS, Settings, forwarder, list, works};

const SECOND: Duration = Duration::from_secs(1);

/// Hears what an endpoint tells of its connections.
fn hear(endpoint: &Endpoint) -> Subscription {
    let mut heard = endpoint.monitor.subscribe(MonitorScopeSelector::default());
    heard.next().now_or_never().unwrap().unwrap();
    heard
}

/// The clients, in order, whose connections were asked to refresh since.
fn asked(heard: &mut Subscription) -> String {
    let mut asked = Vec::new();
    while let Some(Some(event)) = heard.next().now_or_never() {
        assert_eq!(event.r#type(), ConnectionEventType::Update);
        for connection in event.connections.values() {
            if connection.state() == State::RefreshRequested {
                let path = connection.path.as_ref().unwrap();
                asked.push(path.path_segments[0].id.clone());
            }
        }
    }
    asked.sort();
    asked.concat()
}

fn labelled(name: &str, labels: &[(&str, &str)]) -> Client {
    let mut client = Client::new(name);
    let pairs = labels.iter();
    client.connection.labels = pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    client
}

fn hosts(client: &Client) -> Vec<&str> {
    let policies = client.connection.policies().iter();
    policies.map(|policy| policy.from.as_str()).collect()
}

const LIST: &str = "
- { from: 10.1.0.1 }
- { from: 10.1.0.2, labels: { app: a } }
- { from: 10.1.0.3, labels: { app: b } }
";

#[tokio::test(start_paused = true)]
async fn each_connection_gets_the_policies_for_its_labels() {
    let endpoint = Settings {
        list: LIST,
        ..SETTINGS
    }
    .start();
    let by = forwarder(&endpoint, works());

    for (labels, expected) in [
        (&[][..], &["10.1.0.1/32"][..]),
        (
            &[("app", "a"), ("zone", "1")],
            &["10.1.0.1/32", "10.1.0.2/32"],
        ),
        (&[("app", "b")], &["10.1.0.1/32", "10.1.0.3/32"]),
    ] {
        let mut client = labelled("x", labels);
        client.request(&by).await.unwrap();
        assert_eq!(hosts(&client), expected);
        assert_eq!(client.src()[2..], *expected);
        client.close(&by).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn only_connections_whose_policies_change_are_asked_to_refresh() {
    let endpoint = Settings {
        list: LIST,
        ..SETTINGS
    }
    .start();
    let by = forwarder(&endpoint, works());
    let mut a = labelled("a", &[("app", "a")]);
    let mut b = labelled("b", &[("app", "b")]);
    let mut c = labelled("c", &[]);
    for client in [&mut a, &mut b, &mut c] {
        client.request(&by).await.unwrap();
    }
    let mut heard = hear(&endpoint);

    // One policy of one of them.
    let told = endpoint
        .policies
        .set(list(&LIST.replace("10.1.0.2", "10.1.0.4")));
    assert_eq!((told, asked(&mut heard).as_str()), (1, "a"));
    a.request(&by).await.unwrap();
    assert_eq!(hosts(&a), ["10.1.0.1/32", "10.1.0.4/32"]);

    // The same again, and what is the same for everybody.
    endpoint
        .policies
        .set(list(&LIST.replace("10.1.0.2", "10.1.0.4")));
    assert_eq!(asked(&mut heard), "");
    let none_for_them = format!("{LIST}- {{ from: 10.1.0.9, labels: {{ app: c }} }}\n");
    endpoint
        .policies
        .set(list(&none_for_them.replace("10.1.0.2", "10.1.0.4")));
    assert_eq!(asked(&mut heard), "");

    // Other labels with a refresh: other policies from then on.
    b.connection.labels.insert("app".to_owned(), "a".to_owned());
    b.request(&by).await.unwrap();
    asked(&mut heard);
    endpoint.policies.set(list(LIST));
    assert_eq!(asked(&mut heard), "ab");

    // A policy of all.
    endpoint.policies.set(list(""));
    assert_eq!(asked(&mut heard), "c", "the others are asked already");
    for client in [&mut a, &mut b, &mut c] {
        client.request(&by).await.unwrap();
        assert_eq!(hosts(client), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_is_asked_no_more_and_nothing_of_it_is_remembered() {
    let endpoint = SETTINGS.start();
    let by = forwarder(&endpoint, works());
    let mut client = Client::new("a");
    client.request(&by).await.unwrap();
    assert_eq!(endpoint.policies.connections(), 1);

    client.close(&by).await.unwrap();

    assert_eq!(endpoint.policies.connections(), 0);
    let mut heard = hear(&endpoint);
    assert_eq!(endpoint.policies.set(list(LIST)), 0);
    assert_eq!(asked(&mut heard), "");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_leaves_what_the_connection_had() {
    // The second one that reaches the end, and what undoes it.
    let endpoint = SETTINGS.start_above(FailOn::request(2));
    let by = forwarder(&endpoint, works());
    let mut client = Client::new("a");
    client.request(&by).await.unwrap();
    let mut heard = hear(&endpoint);
    endpoint.policies.set(list(LIST));
    assert_eq!(asked(&mut heard), "a");

    client.request(&by).await.unwrap_err();

    // It has the first list still, so that this one is no change.
    assert_eq!(endpoint.policies.set(list("")), 0);
    assert_eq!(endpoint.policies.set(list(LIST)), 1);
    let mut stranger = Client::new("b");
    let never = SETTINGS.start_above(FailOn::request(1));
    let by = forwarder(&never, works());
    stranger.request(&by).await.unwrap_err();
    assert_eq!(never.policies.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_under_way_when_the_list_changes_is_followed_by_another() {
    let slow = FailOn::request(1).and_later().with(Fault::Delay(SECOND));
    let endpoint = SETTINGS.start_above(slow);
    let by = forwarder(&endpoint, works());
    let mut client = Client::new("a");
    let mut heard = hear(&endpoint);

    // The first request of a connection, and a refresh.
    for (text, before, after) in [
        ("[ { from: 10.1.0.1 } ]", &[][..], &["10.1.0.1/32"][..]),
        ("[ { from: 10.1.0.2 } ]", &["10.1.0.1/32"], &["10.1.0.2/32"]),
    ] {
        let change = async {
            sleep(SECOND / 2).await;
            endpoint.policies.set(list(text));
        };
        let (answer, ()) = tokio::join!(client.request(&by), change);
        answer.unwrap();

        assert_eq!(hosts(&client), before);
        assert_eq!(asked(&mut heard), "a");
        client.request(&by).await.unwrap();
        assert_eq!(hosts(&client), after);
        assert_eq!(asked(&mut heard), "");
    }
}
