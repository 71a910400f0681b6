//! Whether what is recorded now is what was recorded before.

use super::Descriptor;
use super::index::{Call, Golden, GoldenError};
use std::collections::BTreeMap;

/// Headers whose values depend on the time that is left, and on the version of the library.
const VOLATILE: [&str; 2] = ["grpc-timeout", "user-agent"];

/// How two recordings differ, in what is the same every time. Left out are the names of network
/// namespaces, the order within maps, and where the bytes of a connection were cut into writes.
///
/// # Errors
/// When one of them cannot be read.
pub fn differences(before: &Golden, now: &Golden) -> Result<Vec<String>, GoldenError> {
    let mut found = Vec::new();
    let names = |golden: &Golden| golden.calls.iter().map(title).collect::<Vec<_>>();
    if names(before) != names(now) {
        found.push(format!(
            "other calls: {:?}, then {:?}",
            names(before),
            names(now)
        ));
        return Ok(found);
    }
    for (old, new) in before.calls.iter().zip(&now.calls) {
        let call = title(old);
        for (of, old, new) in [
            ("headers", &old.headers, &new.headers),
            ("headers of the answer", &old.answer, &new.answer),
            ("trailers", &old.trailers, &new.trailers),
        ] {
            let (old, new) = (lasting(old), lasting(new));
            if old != new {
                found.push(format!("{call}: other {of}: {old:?}, then {new:?}"));
            }
        }
        if old.messages.len() != new.messages.len() {
            let (old, new) = (old.messages.len(), new.messages.len());
            found.push(format!("{call}: {old} messages, then {new}"));
            continue;
        }
        for (old, new) in old.messages.iter().zip(&new.messages) {
            let (was, is) = (before.message(old)?.lasting(), now.message(new)?.lasting());
            if was != is {
                let file = new.file.display();
                found.push(format!("{call}: {file}: {was:?}, then {is:?}"));
            }
        }
    }
    let rides = |golden: &Golden| {
        let count = |side: &super::Side| Descriptor::of(side.writes()).len();
        let connections = golden.connections.iter();
        connections
            .map(|it| {
                (
                    it.hop.clone(),
                    it.name.clone(),
                    count(&it.client),
                    count(&it.server),
                )
            })
            .collect::<Vec<_>>()
    };
    if rides(before) != rides(now) {
        let (old, new) = (rides(before), rides(now));
        found.push(format!("other descriptors: {old:?}, then {new:?}"));
    }
    Ok(found)
}

fn title(call: &Call) -> String {
    format!("{}: {} ({})", call.hop, call.name, call.method)
}

fn lasting(headers: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    let all = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    all.map(|(name, value)| match VOLATILE.contains(&name) {
        true => (name, ""),
        false => (name, value),
    })
    .collect()
}
