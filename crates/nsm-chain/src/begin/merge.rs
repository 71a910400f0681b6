//! What a client that asks again may change.

use std::collections::BTreeMap;

use nsm_api::connection::Connection;

/// Merges what a client asks for into the connection as it is known here.
///
/// The client has the connection that it was told last, `told`, and the one that is `known` may
/// be newer: refreshes and heals go on without the client. So only what the client changed since
/// it was told counts, and only where a change makes sense: the endpoint's name and the context.
pub(super) fn merge(known: &Connection, told: &Connection, asked: &Connection) -> Connection {
    let mut merged = known.clone();
    take_change(
        &mut merged.network_service_endpoint_name,
        &told.network_service_endpoint_name,
        &asked.network_service_endpoint_name,
    );
    if asked.context == told.context {
        return merged;
    }
    let told = told.context.clone().unwrap_or_default();
    let asked = asked.context.clone().unwrap_or_default();
    let context = merged.context.get_or_insert_default();
    take_change(&mut context.ip_context, &told.ip_context, &asked.ip_context);
    take_change(
        &mut context.dns_context,
        &told.dns_context,
        &asked.dns_context,
    );
    take_change(
        &mut context.ethernet_context,
        &told.ethernet_context,
        &asked.ethernet_context,
    );
    take_change(&mut context.mtu, &told.mtu, &asked.mtu);
    take_changes(
        &mut context.extra_context,
        &told.extra_context,
        &asked.extra_context,
    );
    merged
}

fn take_change<T: Clone + PartialEq>(known: &mut T, told: &T, asked: &T) {
    if asked != told {
        known.clone_from(asked);
    }
}

/// Key by key: what was changed or added is taken, what was removed is removed, and what the
/// client was never told of stays.
fn take_changes(
    known: &mut BTreeMap<String, String>,
    told: &BTreeMap<String, String>,
    asked: &BTreeMap<String, String>,
) {
    for (key, value) in asked {
        if told.get(key) != Some(value) {
            known.insert(key.clone(), value.clone());
        }
    }
    for key in told.keys() {
        if !asked.contains_key(key) {
            known.remove(key);
        }
    }
}
