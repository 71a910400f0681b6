//! Interfaces on the wire: `struct ifinfomsg` and `IFLA_*` (linux/if_link.h).

use super::setup::{LinkState, VethEnd};
use super::wire::{self, Malformed, Requests, read_text};
use crate::Link;
use nix::libc;

const IFLA_LINKINFO: u16 = 18;
pub(crate) const IFLA_GROUP: u16 = 27;
/// The other end of a pair, with a structure and attributes of its own (linux/veth.h).
const VETH_INFO_PEER: u16 = 1;
const UP: u32 = libc::IFF_UP as u32;

/// Builds the question for all interfaces, without their counters: these are most of the answer.
pub(crate) fn dump(requests: &mut Requests) -> u32 {
    requests.message(libc::RTM_GETLINK, libc::NLM_F_DUMP as u16, |requests| {
        head(requests, 0, None);
        requests.number(libc::IFLA_EXT_MASK, libc::RTEXT_FILTER_SKIP_STATS as u32);
    })
}

/// Puts the structure: family, padding, type (2), interface (4), flags (4), which of the flags to
/// change (4).
pub(crate) fn head(requests: &mut Requests, index: u32, state: Option<LinkState>) {
    let (flags, change) = match state {
        None => (0, 0),
        Some(LinkState::Up) => (UP, UP),
        Some(LinkState::Down) => (0, UP),
    };
    requests.put(&[0; 4]);
    for number in [index, flags, change] {
        requests.put(&number.to_ne_bytes());
    }
}

/// Puts a pair whose far end is born in the namespace of a descriptor.
pub(crate) fn veth(requests: &mut Requests, near: &VethEnd<'_>, far: &VethEnd<'_>, far_netns: u32) {
    end(requests, near);
    requests.nested(IFLA_LINKINFO, |requests| {
        requests.text(libc::IFLA_INFO_KIND, "veth");
        requests.nested(libc::IFLA_INFO_DATA, |requests| {
            requests.nested(VETH_INFO_PEER, |requests| {
                end(requests, far);
                requests.number(libc::IFLA_NET_NS_FD, far_netns);
            });
        });
    });
}

fn end(requests: &mut Requests, end: &VethEnd<'_>) {
    head(requests, 0, None);
    requests.text(libc::IFLA_IFNAME, end.name);
    if let Some(mac) = &end.mac {
        requests.attribute(libc::IFLA_ADDRESS, mac);
    }
    if let Some(mtu) = end.mtu {
        requests.number(libc::IFLA_MTU, mtu);
    }
    if end.group != 0 {
        requests.number(IFLA_GROUP, end.group);
    }
}

/// Reads an interface.
pub(crate) fn decode(payload: &[u8]) -> Result<Link, Malformed> {
    let (head, attrs) = wire::head::<16>(payload)?;
    let &[_, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] = head;
    let mut name = None;
    for attr in attrs {
        let (kind, payload) = attr?;
        if kind == libc::IFLA_IFNAME {
            name = Some(read_text(payload));
            break;
        }
    }
    Ok(Link {
        index: u32::from_ne_bytes([i0, i1, i2, i3]),
        name: name.ok_or(Malformed("an interface has no name"))?,
        up: u32::from_ne_bytes([f0, f1, f2, f3]) & UP != 0,
    })
}
