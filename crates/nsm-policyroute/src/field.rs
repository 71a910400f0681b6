//! The fields of a policy, from text to value.

use crate::policy::Reason;
use crate::protocol_names;
use ipnet::IpNet;
use nsm_api::parse_net;
use nsm_netlink::{PortRange, PortRangeError};
use std::net::IpAddr;

/// A field that may be empty.
pub fn optional<T>(
    text: &str,
    read: impl FnOnce(&str) -> Result<T, Reason>,
) -> Result<Option<T>, Reason> {
    if text.is_empty() {
        Ok(None)
    } else {
        read(text).map(Some)
    }
}

/// An address or a prefix, with its host bits.
pub fn prefix(text: &str) -> Result<IpNet, Reason> {
    let net = parse_net(text).ok_or_else(|| Reason::NotAPrefix(text.to_owned()))?;
    let address = net.addr();
    not_mapped(address)?;
    if address.is_unspecified() && net.prefix_len() == net.max_prefix_len() {
        return Err(Reason::Nobody(address));
    }
    Ok(net)
}

/// An address.
pub fn address(text: &str) -> Result<IpAddr, Reason> {
    let address = text
        .parse()
        .map_err(|_| Reason::NotAnAddress(text.to_owned()))?;
    not_mapped(address)?;
    Ok(address)
}

fn not_mapped(address: IpAddr) -> Result<(), Reason> {
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(Reason::MappedAddress(address)),
        IpAddr::V4(_) | IpAddr::V6(_) => Ok(()),
    }
}

/// A protocol by number, 1 to 255, or by name.
pub fn protocol(text: &str) -> Result<u8, Reason> {
    let number = match decimal(text) {
        Some(number) => u8::try_from(number).ok(),
        None => protocol_names::number(text),
    };
    // 0 is the kernel's "any": it would widen the policy.
    number
        .filter(|number| *number != 0)
        .ok_or_else(|| Reason::NotAProtocol(text.to_owned()))
}

/// A port or a range of ports.
pub fn ports(text: &str) -> Result<PortRange, Reason> {
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    let (Some(start), Some(end)) = (decimal(start), decimal(end)) else {
        return Err(Reason::NotAPort(text.to_owned()));
    };
    let limit = |_| PortRangeError::Limit;
    u16::try_from(start)
        .map_err(limit)
        .and_then(|start| PortRange::new(start, u16::try_from(end).map_err(limit)?))
        .map_err(|reason| Reason::Ports {
            text: text.to_owned(),
            reason,
        })
}

/// A number in plain decimal digits: no sign, no blank.
fn decimal(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than fit are a number all the same, and out of every range.
    plain.then(|| text.parse().unwrap_or(u32::MAX))
}
