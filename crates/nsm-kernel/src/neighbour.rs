//! Which neighbours are told and forgotten: pure.

use crate::mark::Ours;
use nsm_netlink::Neighbour;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// One write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Tells a neighbour, in place of what was known of it.
    Set(IpAddr, [u8; 6]),
    /// Forgets one of ours.
    Forget(IpAddr),
}

/// What makes the neighbours of an interface as they are wanted. `standing` are those of that
/// interface. What the kernel found out by itself gives way; what somebody else told stays.
pub fn plan(wanted: &BTreeMap<IpAddr, [u8; 6]>, ours: Ours, standing: &[Neighbour]) -> Vec<Step> {
    let told = |to: &IpAddr| {
        let mut told = standing.iter().filter(|known| known.permanent);
        told.find(|known| known.address == *to)
    };
    let new = wanted.iter().filter(|(to, mac)| match told(to) {
        Some(known) => ours.told(known) && known.mac != Some(**mac),
        None => true,
    });
    let old = standing
        .iter()
        .filter(|known| ours.told(known) && !wanted.contains_key(&known.address));
    new.map(|(to, mac)| Step::Set(*to, *mac))
        .chain(old.map(|known| Step::Forget(known.address)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn ours() -> Ours {
        Ours::new(78.try_into().unwrap(), "6.1")
    }

    fn known(text: &str, mac: [u8; 6], permanent: bool, protocol: u8) -> Neighbour {
        Neighbour {
            index: 3,
            address: text.parse().unwrap(),
            mac: Some(mac),
            permanent,
            protocol,
        }
    }

    fn wanted(list: &[(&str, [u8; 6])]) -> BTreeMap<IpAddr, [u8; 6]> {
        let parsed = list.iter().map(|(to, mac)| (to.parse().unwrap(), *mac));
        parsed.collect()
    }

    #[test]
    fn what_is_known_is_not_told_again() {
        let standing = [known("172.16.1.1", MAC, true, 78)];

        assert_eq!(plan(&wanted(&[("172.16.1.1", MAC)]), ours(), &standing), []);
    }

    #[test]
    fn another_hardware_address_and_one_that_was_found_out_give_way() {
        let want = wanted(&[("172.16.1.1", MAC)]);
        for standing in [
            known("172.16.1.1", OTHER, true, 78),
            known("172.16.1.1", MAC, false, 0),
        ] {
            let expected = [Step::Set("172.16.1.1".parse().unwrap(), MAC)];
            assert_eq!(plan(&want, ours(), &[standing]), expected);
        }
    }

    #[test]
    fn ours_that_is_not_wanted_is_forgotten_and_what_others_told_stays() {
        let standing = [
            known("172.16.1.1", MAC, true, 78),
            known("172.16.1.3", MAC, true, 4),
            known("172.16.1.4", MAC, false, 0),
        ];

        let steps = plan(&wanted(&[("172.16.1.3", OTHER)]), ours(), &standing);

        assert_eq!(steps, [Step::Forget("172.16.1.1".parse().unwrap())]);
    }
}
