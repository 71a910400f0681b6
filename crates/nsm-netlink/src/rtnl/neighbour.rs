//! Neighbours on the wire: `struct ndmsg` and `NDA_*` (linux/neighbour.h).

use super::wire::{self, Malformed, Requests, read_address, read_u8};
use super::{Rtnl, SetupError};
use crate::{Family, KernelError, Neighbour, OpKind};
use nix::libc;
use std::net::IpAddr;

const NDA_PROTOCOL: u16 = 12;

impl Rtnl {
    /// What the namespace knows of the neighbours of an interface.
    ///
    /// # Errors
    /// When the dump is refused, is cut short, or can't be read.
    pub fn neighbours(&mut self, index: u32) -> Result<Vec<Neighbour>, KernelError> {
        let dump = self.dump(
            OpKind::DumpNeighbours,
            libc::RTM_NEWNEIGH,
            |requests| {
                requests.message(libc::RTM_GETNEIGH, libc::NLM_F_DUMP as u16, |requests| {
                    requests.put(&[0; 12]);
                    requests.number(libc::NDA_IFINDEX, index);
                })
            },
            |payload, neighbours| {
                // Kernels that don't know the filter give all.
                neighbours.extend(decode(payload)?.filter(|found| found.index == index));
                Ok(())
            },
        )?;
        Ok(dump.items)
    }

    /// Makes a neighbour known for good, in place of what was known of it, under a protocol number
    /// that tells who did.
    ///
    /// # Errors
    /// When there is no such interface (ENODEV).
    pub fn set_marked_neighbour(
        &mut self,
        index: u32,
        neighbour: IpAddr,
        mac: [u8; 6],
        protocol: u8,
    ) -> Result<(), SetupError> {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        let subject = format_args!("{neighbour} of interface {index}");
        self.set_up("set neighbour", subject, |requests| {
            requests.message(libc::RTM_NEWNEIGH, flags, |requests| {
                put(requests, index, neighbour, mac);
                requests.attribute(NDA_PROTOCOL, &[protocol]);
            });
        })
    }

    /// Forgets a neighbour.
    ///
    /// # Errors
    /// When it is not known (ENOENT), or there is no such interface (ENODEV).
    pub fn delete_neighbour(&mut self, index: u32, neighbour: IpAddr) -> Result<(), SetupError> {
        let subject = format_args!("{neighbour} of interface {index}");
        self.set_up("delete neighbour", subject, |requests| {
            requests.message(libc::RTM_DELNEIGH, 0, |requests| {
                head(requests, index, neighbour);
            });
        })
    }
}

/// Puts a neighbour that is known for good.
pub(crate) fn put(requests: &mut Requests, index: u32, neighbour: IpAddr, mac: [u8; 6]) {
    head(requests, index, neighbour);
    requests.attribute(libc::NDA_LLADDR, &mac);
}

/// `struct ndmsg`: family, padding (3), interface (4), state (2), flags, type.
fn head(requests: &mut Requests, index: u32, neighbour: IpAddr) {
    requests.put(&[wire::af(Family::of(&neighbour)), 0, 0, 0]);
    requests.put(&index.to_ne_bytes());
    requests.put(&libc::NUD_PERMANENT.to_ne_bytes());
    requests.put(&[0, 0]);
    requests.address(libc::NDA_DST, &neighbour);
}

/// Reads a neighbour, unless it is of another family than ours.
pub(crate) fn decode(payload: &[u8]) -> Result<Option<Neighbour>, Malformed> {
    let (head, attrs) = wire::head::<12>(payload)?;
    let &[family, _, _, _, i0, i1, i2, i3, s0, s1, _, _] = head;
    if !Family::ALL.map(wire::af).contains(&family) {
        return Ok(None);
    }
    let (mut address, mut mac, mut protocol) = (None, None, 0);
    for attr in attrs {
        match attr? {
            (libc::NDA_DST, payload) => address = Some(read_address(payload)?),
            (libc::NDA_LLADDR, payload) => mac = payload.try_into().ok(),
            (NDA_PROTOCOL, payload) => protocol = read_u8(payload)?,
            _ => {}
        }
    }
    Ok(Some(Neighbour {
        index: u32::from_ne_bytes([i0, i1, i2, i3]),
        address: address.ok_or(Malformed("a neighbour has no address"))?,
        mac,
        permanent: u16::from_ne_bytes([s0, s1]) & libc::NUD_PERMANENT != 0,
        protocol,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_is_read_as_it_was_put() {
        for address in ["172.16.1.1", "2001:db8::1"] {
            let address: IpAddr = address.parse().unwrap();
            let mut requests = Requests::default();
            put(&mut requests, 5, address, [2, 0, 0, 0, 0, 9]);
            requests.attribute(NDA_PROTOCOL, &[78]);

            let expected = Neighbour {
                index: 5,
                address,
                mac: Some([2, 0, 0, 0, 0, 9]),
                permanent: true,
                protocol: 78,
            };
            assert_eq!(decode(requests.bytes()), Ok(Some(expected)));
        }
    }

    #[test]
    fn a_neighbour_without_an_address_and_one_that_is_cut_short_are_refused() {
        let mut head = [0; 12];
        head[0] = libc::AF_INET as u8;

        assert!(decode(&head).is_err());
        assert!(decode(&head[..11]).is_err());
        assert_eq!(decode(&[0; 12]), Ok(None), "of another family");
    }
}
