//! Those who live in the pods too: whatever happens to the element, nothing of theirs changes.

use nsm_netlink::{Route, Rule};
use policyroute_suite::{Machine, Pod, rule};

/// The administrator's mark (`RTPROT_STATIC`).
const STATIC: u8 = 4;
/// Our mark, on what is not ours because its table is not.
const OUR_PROTOCOL: u8 = 78;
/// A table of ours that somebody else has put a route into: it is not handed out.
const TAKEN: u32 = 20000;
/// A table of ours that somebody else looks up: it is not handed out either.
const LOOKED_UP: u32 = 20002;

/// Lets them move in.
pub fn move_in<M: Machine>(pod: &Pod<M>) {
    pod.add_link("eth0");
    // No IPv6 address: the kernel adds its routes later, when nobody expects it.
    pod.add_address("eth0", "192.0.2.2/24");
    for (table, protocol) in [(254, STATIC), (100, OUR_PROTOCOL), (TAKEN, STATIC)] {
        for via in ["192.0.2.1", "fe80::f"] {
            let route = pod.foreign_default(table, "eth0", via);
            pod.add_route(&Route { protocol, ..route });
        }
    }
    pod.add_rules(&rules());
}

/// Rules that look like ours and are not: of one selector and at one priority with ours, without
/// our mark or with our mark on a table that is not ours.
fn rules() -> [Rule; 6] {
    [
        rule(50, "10.8.8.8/32", 100, STATIC),
        rule(31745, "10.1.0.1/32", 100, 0),
        rule(31745, "10.1.0.2/32", 100, OUR_PROTOCOL),
        rule(31999, "10.9.9.0/24", LOOKED_UP, STATIC),
        rule(30017, "2001:db8::1/128", 100, 0),
        rule(30017, "2001:db8::2/128", 100, OUR_PROTOCOL),
    ]
}
