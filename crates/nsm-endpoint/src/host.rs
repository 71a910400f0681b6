//! Addresses as they stand in messages.

use std::net::IpAddr;

use ipnet::IpNet;

/// An address or a prefix, with its host bits.
pub(crate) fn net(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse::<IpNet>().or_else(|_| address()).ok()
}

/// The prefix that holds only this address: `10.0.0.1/32`.
pub(crate) fn host_route(address: IpAddr) -> String {
    IpNet::from(address).to_string()
}
