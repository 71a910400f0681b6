//! Which addresses are given and taken: pure.

use crate::mark::Ours;
use ipnet::IpNet;
use nsm_netlink::InterfaceAddress;

/// One write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Gives an address.
    Add(IpNet),
    /// Takes one of ours.
    Remove(IpNet),
}

/// What makes the addresses of an interface as they are wanted. `standing` are those of that
/// interface.
///
/// What is new comes before what is old goes: the kernel takes all routes of an interface with its
/// last IPv4 address. Only the same address in a network of another length goes first, since IPv6
/// has no room for both.
pub fn plan(wanted: &[IpNet], ours: Ours, standing: &[InterfaceAddress]) -> Vec<Step> {
    let stands = |net: &&IpNet| {
        standing.iter().any(|standing| match net {
            // In IPv6 an address stands once, whatever its network.
            IpNet::V6(net) if !ours.gave(standing) => standing.net.addr() == net.addr(),
            net => standing.net == **net,
        })
    };
    let old = standing.iter().filter(|standing| ours.gave(standing));
    let old = old
        .map(|standing| standing.net)
        .filter(|net| !wanted.contains(net));
    let (in_the_way, others): (Vec<IpNet>, Vec<IpNet>) =
        old.partition(|old| wanted.iter().any(|net| net.addr() == old.addr()));
    let new = wanted.iter().filter(|net| !stands(net));
    in_the_way
        .into_iter()
        .map(Step::Remove)
        .chain(new.copied().map(Step::Add))
        .chain(others.into_iter().map(Step::Remove))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(release: &str) -> Ours {
        Ours::new(78.try_into().unwrap(), release)
    }

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn standing(text: &str, protocol: u8) -> InterfaceAddress {
        InterfaceAddress {
            index: 3,
            net: net(text),
            protocol,
            global: true,
            permanent: true,
        }
    }

    #[test]
    fn what_stands_is_not_given_again() {
        let wanted = [net("172.16.1.2/32"), net("2001:db8::2/128")];
        let standing = [
            standing("172.16.1.2/32", 78),
            standing("2001:db8::2/128", 78),
        ];

        assert_eq!(plan(&wanted, ours("6.1"), &standing), []);
    }

    #[test]
    fn the_new_address_comes_before_the_old_one_goes() {
        let steps = plan(
            &[net("172.16.1.3/32")],
            ours("6.1"),
            &[standing("172.16.1.2/32", 78)],
        );

        let expected = [
            Step::Add(net("172.16.1.3/32")),
            Step::Remove(net("172.16.1.2/32")),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn an_address_in_another_network_goes_first() {
        let steps = plan(
            &[net("2001:db8::2/64")],
            ours("6.1"),
            &[standing("2001:db8::2/128", 78)],
        );

        let expected = [
            Step::Remove(net("2001:db8::2/128")),
            Step::Add(net("2001:db8::2/64")),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn what_others_gave_stays_and_serves() {
        let foreign = [standing("172.16.1.9/24", 0), standing("2001:db8::2/64", 3)];

        assert_eq!(plan(&[], ours("6.1"), &foreign), []);
        assert_eq!(plan(&[net("2001:db8::2/128")], ours("6.1"), &foreign), []);
    }

    #[test]
    fn an_empty_list_takes_all_of_ours() {
        let steps = plan(&[], ours("6.1"), &[standing("172.16.1.2/32", 78)]);

        assert_eq!(steps, [Step::Remove(net("172.16.1.2/32"))]);
    }

    #[test]
    fn a_kernel_that_keeps_no_mark_has_ours_by_what_they_are() {
        let mut link_local = standing("fe80::1/64", 0);
        link_local.global = false;
        let mut found = standing("2001:db8::5/64", 0);
        found.permanent = false;
        let given = standing("172.16.1.2/32", 0);

        let steps = plan(&[], ours("5.4"), &[link_local, found, given]);

        assert_eq!(steps, [Step::Remove(net("172.16.1.2/32"))]);
    }
}
