//! Interfaces in full, each with what tells whose it is and where it leads.

use super::setup::LinkState;
use super::wire::{self, Attrs, Malformed, Requests, read_text, read_u8, read_u32};
use super::{Rtnl, SetupError, link};
use crate::{Interface, InterfaceChange, KernelError, OpKind, Peer};
use nix::libc;
use std::os::fd::{AsFd, AsRawFd};

/// The namespace of the other end, by number (linux/if_link.h).
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
/// What becomes of what is sent (RFC 2863, linux/if.h).
const IFLA_OPERSTATE: u16 = 16;
const IF_OPER_UP: u8 = 6;
/// Numbers of namespaces (linux/net_namespace.h).
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;
const UP: u32 = libc::IFF_UP as u32;

impl Rtnl {
    /// All interfaces of the namespace, in full.
    ///
    /// # Errors
    /// When the dump is refused, is cut short, or can't be read.
    pub fn interfaces(&mut self) -> Result<Vec<Interface>, KernelError> {
        let dump = self.dump(
            OpKind::DumpLinks,
            libc::RTM_NEWLINK,
            link::dump,
            |payload, interfaces| {
                interfaces.push(decode(payload)?);
                Ok(())
            },
        )?;
        Ok(dump.items)
    }

    /// Whether what an interface is given to send goes out (`IF_OPER_UP`): it is up, has a carrier,
    /// and the kernel has noticed that. Between a carrier and its notice the kernel drops what is
    /// sent (`linkwatch_do_dev`, net/core/link_watch.c). Since Linux 6.8 this question makes it
    /// notice.
    ///
    /// # Errors
    /// When there is no such interface (ENODEV), or the answer can't be read.
    pub fn is_operational(&mut self, index: u32) -> Result<bool, KernelError> {
        let dump = self.dump(
            OpKind::DumpLinks,
            libc::RTM_NEWLINK,
            |requests| {
                requests.message(libc::RTM_GETLINK, libc::NLM_F_ACK as u16, |requests| {
                    link::head(requests, index, None);
                    requests.number(libc::IFLA_EXT_MASK, libc::RTEXT_FILTER_SKIP_STATS as u32);
                })
            },
            |payload, states| {
                let (_, attrs) = wire::head::<16>(payload)?;
                for attr in attrs {
                    if let (IFLA_OPERSTATE, payload) = attr? {
                        states.push(read_u8(payload)?);
                    }
                }
                Ok(())
            },
        )?;
        Ok(dump.items.first() == Some(&IF_OPER_UP))
    }

    /// The number that this namespace has for another, as [`Peer::netns`] gives it. There is none
    /// as long as nothing here leads there.
    ///
    /// # Errors
    /// When the kernel refuses (EPERM, EINVAL), or the answer can't be read.
    pub fn number_of(&mut self, other: impl AsFd) -> Result<Option<i32>, KernelError> {
        let other = other.as_fd().as_raw_fd() as u32;
        let dump = self.dump(
            OpKind::DumpLinks,
            libc::RTM_NEWNSID,
            // One answer comes, and its end is told as that of a dump.
            |requests| {
                requests.message(libc::RTM_GETNSID, libc::NLM_F_ACK as u16, |requests| {
                    // `struct rtgenmsg`: family, and padding.
                    requests.put(&[0; 4]);
                    requests.number(NETNSA_FD, other);
                })
            },
            |payload, numbers| {
                let (_, attrs) = wire::head::<4>(payload)?;
                for attr in attrs {
                    if let (NETNSA_NSID, payload) = attr? {
                        numbers.push(read_u32(payload)? as i32);
                    }
                }
                Ok(())
            },
        )?;
        Ok(dump.items.first().copied().filter(|number| *number >= 0))
    }

    /// Changes an interface in one step.
    ///
    /// # Errors
    /// When there is no such interface (ENODEV), or a value is none that it takes (EINVAL).
    pub fn change_interface(
        &mut self,
        index: u32,
        change: &InterfaceChange<'_>,
    ) -> Result<(), SetupError> {
        self.set_up("change interface", index, |requests| {
            requests.message(libc::RTM_NEWLINK, 0, |requests| {
                put(requests, index, change)
            });
        })
    }
}

fn put(requests: &mut Requests, index: u32, change: &InterfaceChange<'_>) {
    link::head(requests, index, change.state);
    if let Some(mtu) = change.mtu {
        requests.number(libc::IFLA_MTU, mtu);
    }
    if let Some(group) = change.group {
        requests.number(link::IFLA_GROUP, group);
    }
    if let Some(alias) = change.alias {
        // Without a NUL: the kernel takes the payload as it is.
        requests.attribute(IFLA_IFALIAS, alias.as_bytes());
    }
}

/// Reads an interface.
pub(crate) fn decode(payload: &[u8]) -> Result<Interface, Malformed> {
    let (head, attrs) = wire::head::<16>(payload)?;
    let &[_, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] = head;
    let mut interface = Interface {
        index: u32::from_ne_bytes([i0, i1, i2, i3]),
        name: String::new(),
        up: u32::from_ne_bytes([f0, f1, f2, f3]) & UP != 0,
        kind: None,
        alias: None,
        mac: None,
        mtu: 0,
        group: 0,
        peer: None,
    };
    let (mut leads_to, mut netns) = (None, None);
    for attr in attrs {
        match attr? {
            (libc::IFLA_IFNAME, payload) => interface.name = read_text(payload),
            (libc::IFLA_ADDRESS, payload) => interface.mac = payload.try_into().ok(),
            (libc::IFLA_MTU, payload) => interface.mtu = read_u32(payload)?,
            (link::IFLA_GROUP, payload) => interface.group = read_u32(payload)?,
            (IFLA_IFALIAS, payload) => interface.alias = Some(read_text(payload)),
            (IFLA_LINKINFO, payload) => interface.kind = kind(payload)?,
            (libc::IFLA_LINK, payload) => leads_to = Some(read_u32(payload)?),
            (IFLA_LINK_NETNSID, payload) => netns = Some(read_u32(payload)? as i32),
            _ => {}
        }
    }
    if interface.name.is_empty() {
        return Err(Malformed("an interface has no name"));
    }
    interface.peer = leads_to
        .filter(|index| *index != 0)
        .map(|index| Peer { index, netns });
    Ok(interface)
}

fn kind(info: &[u8]) -> Result<Option<String>, Malformed> {
    for attr in Attrs(info) {
        if let (libc::IFLA_INFO_KIND, payload) = attr? {
            return Ok(Some(read_text(payload)));
        }
    }
    Ok(None)
}

impl InterfaceChange<'_> {
    /// Sets it up.
    pub const UP: InterfaceChange<'static> = InterfaceChange {
        alias: None,
        mtu: None,
        group: None,
        state: Some(LinkState::Up),
    };

    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        *self == InterfaceChange::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(change: &InterfaceChange<'_>) -> Vec<u8> {
        let mut requests = Requests::default();
        requests.message(libc::RTM_NEWLINK, 0, |requests| {
            put(requests, 7, change);
            requests.text(libc::IFLA_IFNAME, "nsm-1");
            requests.number(libc::IFLA_LINK, 3);
            requests.number(IFLA_LINK_NETNSID, 0);
            requests.attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]);
            requests.nested(IFLA_LINKINFO, |requests| {
                requests.text(libc::IFLA_INFO_KIND, "veth");
            });
        });
        requests.bytes()[16..].to_vec()
    }

    #[test]
    fn an_interface_is_read_as_it_was_changed() {
        let change = InterfaceChange {
            alias: Some("nsm:78:1:nsc-0"),
            mtu: Some(1400),
            group: Some(78),
            state: Some(LinkState::Up),
        };

        let expected = Interface {
            index: 7,
            name: "nsm-1".to_owned(),
            up: true,
            kind: Some("veth".to_owned()),
            alias: Some("nsm:78:1:nsc-0".to_owned()),
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: 1400,
            group: 78,
            peer: Some(Peer {
                index: 3,
                netns: Some(0),
            }),
        };
        assert_eq!(decode(&built(&change)), Ok(expected));
    }

    #[test]
    fn an_interface_that_is_cut_short_is_refused() {
        let whole = built(&InterfaceChange::UP);
        for len in 0..16 {
            assert!(decode(&whole[..len]).is_err(), "{len}");
        }
        assert!(decode(&whole[..whole.len() - 1]).is_err());
        assert_eq!(
            decode(&whole[..16]),
            Err(Malformed("an interface has no name"))
        );
    }

    #[test]
    fn what_changes_nothing_is_empty() {
        assert!(InterfaceChange::default().is_empty());
        assert!(!InterfaceChange::UP.is_empty());
    }
}
