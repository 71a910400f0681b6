//! What an endpoint has to give.

use crate::{Caller, Mesh};
use nsm_api::mechanism::NOOP;

/// More connections than this would say that the pool of a case is too large to be counted.
const MOST: usize = 128;

/// The IPv4 addresses that an endpoint still has for clients, in order: all are asked for, until
/// there is none, and given back.
pub fn free_addresses(mesh: &Mesh, network: usize) -> Vec<String> {
    let caller = Caller::new(&mesh.url(&format!("nse-{network}")), &[]);
    let mut connections = Vec::new();
    loop {
        let count = connections.len();
        assert!(count < MOST, "the pool is too large");
        let mut request = caller.ask_for(&format!("pool-{count}"), &mesh.pods[0], "pool");
        let connection = request.connection.get_or_insert_default();
        connection.network_service = format!("net-{network}");
        // An interface would be of no use.
        for mechanism in &mut request.mechanism_preferences {
            mechanism.r#type = NOOP.to_owned();
            mechanism.parameters.clear();
        }
        match caller.request(request) {
            Ok(connection) => connections.push(connection),
            Err(refused) => {
                let kind = refused.kind();
                assert_eq!(kind, nsm_chain::ErrorKind::ResourceExhausted, "{refused:?}");
                break;
            }
        }
    }
    let first = |it: &nsm_api::connection::Connection| {
        let all = it.src_ip_addrs().iter();
        let mut own = all.filter(|it| it.starts_with("172."));
        own.next().cloned().unwrap()
    };
    let mut addresses: Vec<_> = connections.iter().map(first).collect();
    for connection in connections {
        caller.close(connection).unwrap();
    }
    addresses.sort();
    addresses
}
