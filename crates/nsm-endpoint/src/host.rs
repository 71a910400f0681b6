//! Addresses as they stand in messages.

use std::net::IpAddr;

use ipnet::IpNet;

/// The prefix that holds only this address: `10.0.0.1/32`.
pub(crate) fn host_route(address: IpAddr) -> String {
    IpNet::from(address).to_string()
}
