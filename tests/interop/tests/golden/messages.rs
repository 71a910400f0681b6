//! Each message, there and back.

use std::collections::BTreeMap;

use interop::golden::{By, Message};
use nsm_api::connection::{Connection, Mechanism};

use crate::golden;

#[test]
fn every_message_is_understood_to_its_last_byte_and_written_as_it_came() {
    let golden = golden();
    let (mut equal, mut other_order) = (0, 0);
    for entry in golden.calls.iter().flat_map(|call| &call.messages) {
        let file = entry.file.display();
        let bytes = golden.bytes(&entry.file).unwrap();
        let message = golden.message(entry).unwrap();
        let ours = message.encode();

        if ours == bytes {
            equal += 1;
            continue;
        }
        // Go writes a map in another order every time, and ours are sorted. Then, and only then, the
        // same bytes stand in another order: none is missing, so there is nothing that we drop.
        assert!(has_a_map(&message), "{file}");
        let sorted = |mut bytes: Vec<u8>| {
            bytes.sort_unstable();
            bytes
        };
        assert_eq!(sorted(ours.clone()), sorted(bytes), "{file}");
        let again = Message::decode(&entry.r#type, &ours).unwrap();
        assert_eq!(again, message, "{file}");
        other_order += 1;
    }
    assert!(
        equal > 0 && equal + other_order > 30,
        "{equal} and {other_order}"
    );
}

/// Whether there is a map with an order.
fn has_a_map(message: &Message) -> bool {
    match message {
        Message::Request(request) => {
            let connection = request.connection.as_ref();
            connection.is_some_and(in_connection)
                || request.mechanism_preferences.iter().any(in_mechanism)
        }
        Message::Connection(connection) => in_connection(connection),
        Message::Event(event) => event.connections.values().any(in_connection),
        Message::Selector(_) | Message::Empty => false,
    }
}

fn in_connection(connection: &Connection) -> bool {
    let context = connection.context.as_ref();
    several(&connection.labels)
        || connection.mechanism.as_ref().is_some_and(in_mechanism)
        || context.is_some_and(|it| several(&it.extra_context))
}

fn in_mechanism(mechanism: &Mechanism) -> bool {
    several(&mechanism.parameters)
}

fn several(map: &BTreeMap<String, String>) -> bool {
    map.len() > 1
}

#[test]
fn each_kind_of_message_is_there() {
    let golden = golden();
    let entries = golden.calls.iter().flat_map(|call| &call.messages);
    let mut kinds: Vec<_> = entries
        .map(|entry| (entry.r#type.as_str(), entry.by == By::Client))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let expected = [
        ("connection.Connection", false),
        ("connection.Connection", true),
        ("connection.ConnectionEvent", false),
        ("connection.MonitorScopeSelector", true),
        ("google.protobuf.Empty", false),
        ("networkservice.NetworkServiceRequest", true),
    ];
    assert_eq!(kinds, expected);
}
