//! All flows. What stands after each is pinned by its clean run, on both kernels.

mod close;
mod first;
mod leftover;
mod refresh;
mod restart;

use crate::flow::Flow;
use policyroute_suite::{Draft, PolicyDraft, connection, policy};

/// All flows.
pub fn all() -> Vec<Flow> {
    [
        first::flows(),
        refresh::flows(),
        restart::flows(),
        close::flows(),
        leftover::flows(),
    ]
    .concat()
}

/// The connection at hand.
fn c(policies: impl IntoIterator<Item = PolicyDraft>) -> Draft {
    connection("c").policies(policies)
}

/// Two policies: one with two routes, and one that is narrower.
fn ipv4() -> Draft {
    c([
        policy()
            .from("10.1.0.1")
            .via("172.16.1.1")
            .route("10.9.0.0/16", ""),
        policy().from("10.1.0.2").tcp(443).via("172.16.1.1"),
    ])
}

/// Two policies: one with two routes, and one without any, so by default on the link.
fn ipv6() -> Draft {
    c([
        policy()
            .from("2001:db8::1")
            .via("fe80::1")
            .route("2001:db8:9::/48", ""),
        policy().from("2001:db8::2"),
    ])
}

/// One policy of each family.
fn dual() -> Draft {
    dual_via("172.16.1.1", "fe80::1")
}

fn dual_via(v4: &str, v6: &str) -> Draft {
    c([
        policy().from("10.1.0.1").via(v4),
        policy().from("2001:db8::1").via(v6),
    ])
}

/// What [`dual`] makes.
const DUAL: &[&str] = &[
    "30017: from 2001:db8::1 -> default via fe80::1 dev nsm-0",
    "31745: from 10.1.0.1 -> default via 172.16.1.1 dev nsm-0",
];
