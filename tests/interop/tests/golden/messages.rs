//! Each message, there and back.

use interop::golden::{By, Kind, Message};

use crate::golden;

#[test]
fn every_message_is_understood_to_its_last_byte_and_written_as_it_came() {
    let golden = golden();
    let mut in_another_order = 0;
    for entry in golden.calls.iter().flat_map(|call| &call.messages) {
        let file = entry.file.display();
        let message = golden.message(entry).unwrap();

        // Ours are written with their maps in order. On a socket Go leaves that order to chance.
        let sorted = golden.bytes(&entry.sorted).unwrap();
        assert_eq!(message.encode(), sorted, "{file}");
        let again = Message::decode(entry.r#type, &sorted).unwrap();
        assert_eq!(again, message, "{file}");

        // What came is the same but for that order: nothing of it is missing.
        let came = golden.bytes(&entry.file).unwrap();
        in_another_order += usize::from(came != sorted);
        assert_eq!(in_order(came), in_order(sorted), "{file}");
    }
    let all = golden.calls.iter().map(|call| call.messages.len());
    let all: usize = all.sum();
    assert!(
        in_another_order < all && all > 30,
        "{in_another_order} of {all}"
    );
}

fn in_order(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.sort_unstable();
    bytes
}

#[test]
fn each_kind_of_message_is_there() {
    let golden = golden();
    let entries = golden.calls.iter().flat_map(|call| &call.messages);
    let mut kinds: Vec<_> = entries
        .map(|entry| (entry.r#type, entry.by == By::Client))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let expected = [
        (Kind::Request, true),
        (Kind::Connection, false),
        (Kind::Connection, true),
        (Kind::Selector, true),
        (Kind::Event, false),
        (Kind::Empty, false),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_message_of_an_unknown_type_is_refused() {
    serde_json::from_str::<Kind>("\"connection.Connection\"").unwrap();
    serde_json::from_str::<Kind>("\"connection.Conection\"").unwrap_err();
}
