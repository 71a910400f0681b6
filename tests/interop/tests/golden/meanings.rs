//! What the messages say.

use interop::golden::{By, Golden, Message};
use nsm_api::connection::{
    Connection, ConnectionEvent, ConnectionEventType, Mechanism, MonitorScopeSelector, Path,
    PathSegment, State,
};
use nsm_api::connectioncontext::ConnectionContext;
use nsm_api::networkservice::NetworkServiceRequest;

use crate::content::{FORWARDER, answered, asked, kernel, map, path, text, texts, vxlan};
use crate::golden;

const OUTER: &str = "nsc-forwarder";
const INNER: &str = "forwarder-nse";

/// The messages of a call, without the names of network namespaces.
fn said(golden: &Golden, hop: &str, name: &str, by: By) -> Vec<Message> {
    let calls = golden.calls.iter();
    let mut call = calls.filter(|call| call.hop == hop && call.name == name);
    let messages = call.next().unwrap().messages.iter();
    messages
        .filter(|entry| entry.by == by)
        .map(|entry| golden.message(entry).unwrap().lasting())
        .collect()
}

fn request(hop: &str, name: &str) -> NetworkServiceRequest {
    match said(&golden(), hop, name, By::Client).remove(0) {
        Message::Request(request) => request,
        other => panic!("{other:?}"),
    }
}

fn connection(hop: &str, name: &str, by: By) -> Connection {
    match said(&golden(), hop, name, by).remove(0) {
        Message::Connection(connection) => connection,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_first_request_of_a_client() {
    let mut own = path(0).path_segments.remove(0);
    // What its token is comes as headers, and the next hop puts it here.
    own.token.clear();
    own.expires = None;
    let expected = NetworkServiceRequest {
        connection: Some(Connection {
            mechanism: None,
            context: Some(ConnectionContext {
                ip_context: Some(asked()),
                ..ConnectionContext::default()
            }),
            path: Some(Path {
                index: 0,
                path_segments: vec![own],
            }),
            network_service_endpoint_name: String::new(),
            ..answered()
        }),
        mechanism_preferences: vec![kernel("nsm-1"), vxlan()],
    };
    assert_eq!(request(OUTER, "first request"), expected);
}

#[test]
fn an_answer_with_all_that_an_endpoint_gives() {
    assert_eq!(connection(OUTER, "first request", By::Server), answered());
}

#[test]
fn a_refresh_brings_what_was_answered() {
    for name in ["refused refresh", "refresh"] {
        let refresh = request(OUTER, name);
        assert_eq!(refresh.connection, Some(answered()), "{name}");
        assert_eq!(refresh.mechanism_preferences, [kernel("nsm-1"), vxlan()]);
    }
}

#[test]
fn a_request_in_the_middle_of_its_way() {
    // The forwarder tells its interface when the answer is on its way back.
    let mut path = path(1);
    path.path_segments[1].metrics.clear();
    let mut onwards = path.clone();
    onwards.path_segments.truncate(2);
    let expected = Connection {
        id: text(FORWARDER),
        path: Some(onwards),
        ..request(OUTER, "first request").connection.unwrap()
    };
    assert_eq!(request(INNER, "first request").connection, Some(expected));

    let own = map([("inodeURL", "inode://"), ("name", "nse-1")]);
    let expected = Connection {
        id: text(FORWARDER),
        mechanism: Some(Mechanism {
            parameters: own,
            ..kernel("nse-1")
        }),
        path: Some(path),
        ..answered()
    };
    let answer = connection(INNER, "first request", By::Server);
    assert_eq!(answer, expected);
}

#[test]
fn a_close_brings_what_stands_and_is_answered_with_nothing() {
    for name in ["close to reselect", "close"] {
        assert_eq!(connection(OUTER, name, By::Client), answered(), "{name}");
        assert_eq!(said(&golden(), OUTER, name, By::Server), [Message::Empty]);
    }
}

#[test]
fn who_wants_another_endpoint_says_so_and_brings_all_the_rest() {
    let expected = Connection {
        mechanism: None,
        network_service_endpoint_name: String::new(),
        state: State::ReselectRequested.into(),
        ..answered()
    };
    assert_eq!(request(OUTER, "reselect").connection, Some(expected));
}

#[test]
fn selectors_by_id_by_a_piece_of_a_path_and_by_service() {
    let part = |name: &str, id: &str| PathSegment {
        name: text(name),
        id: text(id),
        ..PathSegment::default()
    };
    let selector = |path_segments, network_services| {
        Message::Selector(MonitorScopeSelector {
            path_segments,
            network_services,
        })
    };
    let golden = golden();
    let by = |hop, name| said(&golden, hop, name, By::Client);
    let id = selector(vec![part("", "nsc-0")], Vec::new());
    assert_eq!(by(OUTER, "watch an id"), [id]);
    let pieces = vec![part("nsc", "nsc-0"), part("forwarder", "")];
    let piece = selector(pieces, texts(["other", "policy-based-routing"]));
    assert_eq!(by(OUTER, "watch a path"), [piece]);
    let relay = selector(vec![part("forwarder", FORWARDER)], Vec::new());
    assert_eq!(by(INNER, "relay"), [relay]);
}

#[test]
fn events_of_each_type_and_state() {
    use ConnectionEventType::{Delete, InitialStateTransfer, Update};
    let golden = golden();
    let events = |name| -> Vec<ConnectionEvent> {
        let said = said(&golden, OUTER, name, By::Server).into_iter();
        said.map(|it| match it {
            Message::Event(event) => event,
            other => panic!("{other:?}"),
        })
        .collect()
    };
    let told = |event: &ConnectionEvent| {
        // By the id that the forwarder has for it.
        let connections = event.connections.iter();
        let states: Vec<_> = connections
            .map(|(key, connection)| {
                assert_eq!(
                    (key.as_str(), connection.id.as_str()),
                    (FORWARDER, FORWARDER)
                );
                connection.state()
            })
            .collect();
        (event.r#type(), states)
    };

    let watched = events("watch an id");
    let all: Vec<_> = watched.iter().map(told).collect();
    let first = [
        (InitialStateTransfer, vec![]),
        (Update, vec![State::Up]),
        (Update, vec![State::RefreshRequested]),
        (Update, vec![State::Down]),
        (Update, vec![State::Up]),
        (Delete, vec![State::Up]),
        (Update, vec![State::Up]),
    ];
    assert_eq!(all[..7], first);
    assert_eq!(all.last(), Some(&(Delete, vec![State::Up])));
    let connection = watched[1].connections.values().next().unwrap();
    let expected = Connection {
        id: text(FORWARDER),
        path: Some(path(1)),
        ..answered()
    };
    assert_eq!(*connection, expected);

    let joined = events("watch a path");
    assert_eq!(told(&joined[0]), (InitialStateTransfer, vec![State::Up]));
}

#[test]
fn the_index_says_of_events_what_ours_reads() {
    let golden = golden();
    for entry in golden.calls.iter().flat_map(|call| &call.messages) {
        if let Message::Event(event) = golden.message(entry).unwrap() {
            let mut words = vec![event.r#type().as_str_name()];
            let connections = event.connections.values();
            words.extend(connections.map(|it| it.state().as_str_name()));
            assert_eq!(words.join(" "), entry.event, "{}", entry.file.display());
        }
    }
}
