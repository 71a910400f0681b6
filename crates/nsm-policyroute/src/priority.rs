//! The priority of a rule, a pure function of its selector: narrower is asked first.

use crate::Band;
use nsm_netlink::{PortRange, Selector};

/// The priority of a selector in a band.
///
/// `base + 18 x (128 - length of from) + 9 x (no protocol) + 3 x s + d`, where s and d say of the
/// source and the destination port: 0 one port, 1 a range, 2 any. The function never changes
/// between releases: rules that an older process made are found where they stand.
///
/// Selectors of one priority give the same fields, so a delete that names all fields is exact.
pub fn priority(band: Band, selector: &Selector) -> u32 {
    let length = selector.from.map_or(0, |net| u32::from(net.prefix_len()));
    let no_protocol = u32::from(selector.proto.is_none());
    band.base()
        + 18 * (128 - length)
        + 9 * no_protocol
        + 3 * port_class(selector.sport)
        + port_class(selector.dport)
}

fn port_class(ports: Option<PortRange>) -> u32 {
    match ports {
        Some(ports) if ports.is_single() => 0,
        Some(_) => 1,
        None => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_netlink::Family;

    fn selector(from: &str, proto: Option<u8>, dport: Option<(u16, u16)>) -> Selector {
        Selector {
            from: Some(from.parse().unwrap()),
            proto,
            dport: dport.map(|(a, b)| PortRange::new(a, b).unwrap()),
            ..Selector::any(Family::V4)
        }
    }

    #[test]
    fn the_widest_and_the_narrowest_selector_bound_the_band() {
        let one = PortRange::new(1, 1).unwrap();
        let narrowest = Selector {
            from: Some("2001:db8::1/128".parse().unwrap()),
            proto: Some(6),
            sport: Some(one),
            dport: Some(one),
            ..Selector::any(Family::V6)
        };

        assert_eq!(priority(Band::DEFAULT, &narrowest), Band::DEFAULT.base());
        assert_eq!(
            priority(Band::DEFAULT, &Selector::any(Family::V4)),
            Band::DEFAULT.top()
        );
        assert_eq!(Band::DEFAULT.top(), 32321);
    }

    #[test]
    fn narrower_is_asked_first() {
        let order = [
            selector("10.1.0.1/32", Some(6), Some((443, 443))),
            selector("10.1.0.1/32", Some(6), Some((400, 500))),
            selector("10.1.0.1/32", Some(6), None),
            selector("10.1.0.1/32", None, None),
            selector("10.1.0.0/24", Some(6), Some((443, 443))),
        ];

        let priorities: Vec<u32> = order.iter().map(|s| priority(Band::DEFAULT, s)).collect();

        assert!(priorities.is_sorted_by(|a, b| a < b), "{priorities:?}");
    }

    #[test]
    fn the_function_is_the_one_of_every_release() {
        assert_eq!(
            priority(Band::DEFAULT, &selector("10.1.0.1/32", None, None)),
            31745
        );
        assert_eq!(
            priority(
                Band::DEFAULT,
                &selector("10.1.0.1/32", Some(6), Some((443, 443)))
            ),
            31734
        );
        assert_eq!(priority(Band::DEFAULT, &Selector::any(Family::V6)), 32321);
    }
}
