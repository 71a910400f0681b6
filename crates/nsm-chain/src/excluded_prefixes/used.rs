//! What connections use, and what that excludes. Pure.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use nsm_api::connection::Connection;
use nsm_api::connectioncontext::IpContext;
use nsm_api::{ConnectionId, parse_net};

/// What each connection uses.
#[derive(Debug, Default)]
pub(super) struct Used(HashMap<ConnectionId, ByOne>);

#[derive(Debug)]
struct ByOne {
    group: Option<usize>,
    prefixes: BTreeSet<IpNet>,
}

/// Prefixes that a connection must not have.
#[derive(Debug)]
pub(super) struct Excluded(BTreeSet<IpNet>);

/// What was added to the prefixes that a request excludes.
#[derive(Debug)]
pub(super) struct Added(BTreeSet<String>);

impl Used {
    pub(super) fn connections(&self) -> usize {
        self.0.len()
    }

    /// What all connections use but that one, and those of its group.
    pub(super) fn by_others(&self, id: &ConnectionId, group: Option<usize>) -> Excluded {
        let others = self.0.iter();
        let others = others.filter(|(other, by)| {
            let aware = group.is_some() && by.group == group;
            *other != id && !aware
        });
        Excluded(others.flat_map(|(_, by)| &by.prefixes).copied().collect())
    }

    pub(super) fn remember(
        &mut self,
        id: ConnectionId,
        group: Option<usize>,
        connection: &Connection,
    ) {
        let Some(ip) = connection.ip_context() else {
            self.forget(&id);
            return;
        };
        let routes = ip.src_routes.iter().chain(&ip.dst_routes);
        let routes = routes.filter_map(|route| parse_net(&route.prefix));
        let mut prefixes: BTreeSet<IpNet> = addresses(ip)
            .map(IpNet::from)
            .chain(routes.filter(is_host))
            .collect();
        if group.is_none() {
            prefixes.extend(
                ip.excluded_prefixes
                    .iter()
                    .filter_map(|text| parse_net(text)),
            );
        }
        self.0.insert(id, ByOne { group, prefixes });
    }

    pub(super) fn forget(&mut self, id: &ConnectionId) {
        self.0.remove(id);
    }
}

impl Excluded {
    /// Adds these to what the request excludes, but for addresses that it has already.
    pub(super) fn add_to(self, connection: &mut Connection) -> Added {
        if self.0.is_empty() {
            return Added(BTreeSet::new());
        }
        let ip = connection.ip_context_mut();
        let own: BTreeSet<IpNet> = addresses(ip).map(IpNet::from).collect();
        let texts = self.0.difference(&own).map(IpNet::to_string);
        let added: BTreeSet<String> = texts
            .filter(|text| !ip.excluded_prefixes.contains(text))
            .collect();
        ip.excluded_prefixes.extend(added.iter().cloned());
        Added(added)
    }

    /// An address of the connection that is one of these.
    pub(super) fn conflict(&self, connection: &Connection) -> Option<IpAddr> {
        let mut all = connection.ip_context().into_iter().flat_map(addresses);
        all.find(|address| self.0.contains(&IpNet::from(*address)))
    }
}

impl Added {
    /// Takes them out of an answer, which has what the request had: they are no wish of the client,
    /// and the next request has its own.
    pub(super) fn take_from(self, connection: &mut Connection) {
        if !self.0.is_empty() {
            let excluded = &mut connection.ip_context_mut().excluded_prefixes;
            excluded.retain(|text| !self.0.contains(text));
        }
    }
}

/// The addresses of both ends, but for sources that are there for a policy's sake.
fn addresses(ip: &IpContext) -> impl Iterator<Item = IpAddr> {
    let policies = ip.policies.iter();
    let named: BTreeSet<_> = policies
        .filter_map(|policy| address(&policy.from))
        .collect();
    let sources = ip.src_ip_addrs.iter().filter_map(|text| address(text));
    let sources = sources.filter(move |source| !named.contains(source));
    let destinations = ip.dst_ip_addrs.iter().filter_map(|text| address(text));
    sources.chain(destinations)
}

fn address(text: &str) -> Option<IpAddr> {
    // What is none is refused by whoever has to do with it.
    parse_net(text).map(|net| net.addr())
}

fn is_host(net: &IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
}
