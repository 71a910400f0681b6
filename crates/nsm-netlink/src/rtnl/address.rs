//! Addresses and neighbours on the wire: `IFA_*` (linux/if_addr.h), `NDA_*` (linux/neighbour.h).

use super::wire::{self, Malformed, Requests};
use crate::Family;
use ipnet::IpNet;
use nix::libc;
use std::net::IpAddr;

/// Builds the question for all addresses.
pub(crate) fn dump(requests: &mut Requests) -> u32 {
    requests.message(libc::RTM_GETADDR, libc::NLM_F_DUMP as u16, |requests| {
        requests.put(&[0; 8])
    })
}

/// `struct ifaddrmsg`: family, prefix length, flags, scope, interface (4).
pub(crate) fn put(requests: &mut Requests, index: u32, address: IpNet, flags: u8) {
    requests.put(&[
        wire::af(Family::of_net(&address)),
        address.prefix_len(),
        flags,
        0,
    ]);
    requests.put(&index.to_ne_bytes());
    requests.address(libc::IFA_LOCAL, &address.addr());
    requests.address(libc::IFA_ADDRESS, &address.addr());
}

/// Reads an address, unless it is of another family than ours.
///
/// Of a point-to-point interface `IFA_ADDRESS` is the other end's address and `IFA_LOCAL` its own;
/// else IPv6 names only the first.
pub(crate) fn decode(payload: &[u8]) -> Result<Option<(u32, IpNet)>, Malformed> {
    let (head, attrs) = wire::head::<8>(payload)?;
    let &[family, len, _, _, i0, i1, i2, i3] = head;
    if !Family::ALL.map(wire::af).contains(&family) {
        return Ok(None);
    }
    let (mut local, mut address) = (None, None);
    for attr in attrs {
        match attr? {
            (libc::IFA_LOCAL, payload) => local = Some(wire::read_address(payload)?),
            (libc::IFA_ADDRESS, payload) => address = Some(wire::read_address(payload)?),
            _ => {}
        }
    }
    let address = local
        .or(address)
        .ok_or(Malformed("an address is not there"))?;
    let net =
        IpNet::new(address, len).map_err(|_| Malformed("an address is shorter than its net"))?;
    Ok(Some((u32::from_ne_bytes([i0, i1, i2, i3]), net)))
}

/// `struct ndmsg`: family, padding (3), interface (4), state (2), flags, type.
pub(crate) fn put_neighbour(requests: &mut Requests, index: u32, neighbour: IpAddr, mac: [u8; 6]) {
    requests.put(&[wire::af(Family::of(&neighbour)), 0, 0, 0]);
    requests.put(&index.to_ne_bytes());
    requests.put(&libc::NUD_PERMANENT.to_ne_bytes());
    requests.put(&[0, 0]);
    requests.address(libc::NDA_DST, &neighbour);
    requests.attribute(libc::NDA_LLADDR, &mac);
}
