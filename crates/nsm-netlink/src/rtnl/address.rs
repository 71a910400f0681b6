//! Addresses on the wire: `struct ifaddrmsg` and `IFA_*` (linux/if_addr.h).

use super::wire::{self, Malformed, Requests, read_u8, read_u32};
use super::{Rtnl, SetupError};
use crate::{Family, InterfaceAddress, KernelError, OpKind};
use ipnet::IpNet;
use nix::libc;

const IFA_PROTO: u16 = 11;

impl Rtnl {
    /// All addresses of the namespace, each with what is known of it.
    ///
    /// # Errors
    /// When the dump is refused, is cut short, or can't be read.
    pub fn interface_addresses(&mut self) -> Result<Vec<InterfaceAddress>, KernelError> {
        let dump = self.dump(
            OpKind::DumpAddresses,
            libc::RTM_NEWADDR,
            dump,
            |payload, addresses| {
                addresses.extend(decode(payload)?);
                Ok(())
            },
        )?;
        Ok(dump.items)
    }

    /// Puts an address on an interface under a protocol number that tells who did (ignored before
    /// Linux 5.18), and uses it at once: nobody is asked whether he has it.
    ///
    /// # Errors
    /// When it is there already (EEXIST), there is no such interface (ENODEV), or IPv6 is switched
    /// off on it (EACCES).
    pub fn add_marked_address(
        &mut self,
        index: u32,
        address: IpNet,
        protocol: u8,
    ) -> Result<(), SetupError> {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        let subject = format_args!("{address} to interface {index}");
        self.set_up("add address", subject, |requests| {
            requests.message(libc::RTM_NEWADDR, flags, |requests| {
                put(requests, index, address, libc::IFA_F_NODAD as u8);
                requests.attribute(IFA_PROTO, &[protocol]);
            });
        })
    }
}

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
pub(crate) fn decode(payload: &[u8]) -> Result<Option<InterfaceAddress>, Malformed> {
    let (head, attrs) = wire::head::<8>(payload)?;
    let &[family, len, flags, scope, i0, i1, i2, i3] = head;
    if !Family::ALL.map(wire::af).contains(&family) {
        return Ok(None);
    }
    let mut flags = u32::from(flags);
    let (mut local, mut address, mut protocol) = (None, None, 0);
    for attr in attrs {
        match attr? {
            (libc::IFA_LOCAL, payload) => local = Some(wire::read_address(payload)?),
            (libc::IFA_ADDRESS, payload) => address = Some(wire::read_address(payload)?),
            (libc::IFA_FLAGS, payload) => flags = read_u32(payload)?,
            (IFA_PROTO, payload) => protocol = read_u8(payload)?,
            _ => {}
        }
    }
    let address = local
        .or(address)
        .ok_or(Malformed("an address is not there"))?;
    let net =
        IpNet::new(address, len).map_err(|_| Malformed("an address is shorter than its net"))?;
    Ok(Some(InterfaceAddress {
        index: u32::from_ne_bytes([i0, i1, i2, i3]),
        net,
        protocol,
        global: scope == libc::RT_SCOPE_UNIVERSE,
        permanent: flags & libc::IFA_F_PERMANENT != 0,
    }))
}
