//! A name for an interface that nobody has named.

use nsm_api::InterfaceName;

/// The name of the interface of a connection of that id: the same in each process and release, and
/// another one for another id.
pub(crate) fn interface_name(id: &str) -> String {
    // FNV-1a, which changes the high bits least.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut rest = hash ^ (hash >> 29);
    let mut name = String::from("nse-");
    while name.len() < InterfaceName::LONGEST {
        name.push(char::from(
            b"0123456789abcdefghijklmnopqrstuv"[(rest % 32) as usize],
        ));
        rest /= 32;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_id_has_a_name_of_its_own_that_an_interface_can_have() {
        let names: BTreeSet<_> = (0..10_000)
            .map(|number| interface_name(&number.to_string()))
            .collect();

        assert_eq!(names.len(), 10_000);
        for name in names {
            assert_eq!(InterfaceName::check(&name), Ok(()));
        }
    }

    #[test]
    fn names_never_change_between_releases() {
        assert_eq!(interface_name("1"), "nse-o4uphu79cto");
        assert_eq!(interface_name("7d4f-client"), "nse-pepf3si48tj");
    }
}
