//! Addresses and prefixes as texts.

use std::net::IpAddr;

use ipnet::IpNet;

/// Reads an address, or a prefix with its host bits: all that a message may mean by an address, a
/// prefix or a source. An address alone is the prefix that holds nothing else.
///
/// Each part has one spelling: there are programs to which `010` is eight, so a zero in front is
/// refused, and so is a sign. An address of IPv4 that is written as one of IPv6 is read as it is
/// written.
///
/// ```
/// use nsm_api::parse_net;
///
/// assert_eq!(parse_net("10.1.0.1").unwrap().to_string(), "10.1.0.1/32");
/// assert_eq!(parse_net("10.1.0.1/16").unwrap().to_string(), "10.1.0.1/16");
/// assert_eq!(parse_net("010.1.0.1/16"), None);
/// ```
pub fn parse_net(text: &str) -> Option<IpNet> {
    let Some((address, length)) = text.split_once('/') else {
        return text.parse::<IpAddr>().ok().map(IpNet::from);
    };
    let is_plain = length.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain || (length.len() > 1 && length.starts_with('0')) {
        return None;
    }
    // Not by `ipnet`, which takes zeros in front.
    IpNet::new(address.parse().ok()?, length.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stands_for_itself_and_a_prefix_keeps_its_host_bits() {
        for (text, read) in [
            ("10.1.0.1", "10.1.0.1/32"),
            ("10.1.0.1/0", "10.1.0.1/0"),
            ("10.1.0.1/32", "10.1.0.1/32"),
            ("2001:db8::1", "2001:db8::1/128"),
            ("2001:DB8:0::1/64", "2001:db8::1/64"),
            ("::ffff:10.1.0.1/100", "::ffff:10.1.0.1/100"),
        ] {
            let net = parse_net(text).map(|net| net.to_string());
            assert_eq!(net.as_deref(), Some(read), "{text}");
        }
    }

    #[test]
    fn what_others_may_read_in_another_way_is_nothing() {
        for text in [
            "",
            "/",
            "/8",
            "ten",
            "10.1.0",
            "010.1.0.1",
            "010.1.0.1/16",
            "10.1.0.01/32",
            "10.1.00.0/16",
            "0x0a.1.0.1",
            "::ffff:010.1.0.1",
            "10.1.0.1/",
            "10.1.0.1/+8",
            "10.1.0.1/-1",
            "10.1.0.1/08",
            "10.1.0.1/00",
            "10.1.0.1/33",
            "10.1.0.1/256",
            "10.1.0.1/8/8",
            "10.1.0.1/255.0.0.0",
            "10.1.0.1/\u{663}",
            " 10.1.0.1",
            "10.1.0.1/8 ",
            "2001:db8::1/129",
            "2001:db8::1/064",
            "fe80::1%eth0",
            "fe80::1%eth0/64",
        ] {
            assert_eq!(parse_net(text), None, "{text}");
        }
    }
}
