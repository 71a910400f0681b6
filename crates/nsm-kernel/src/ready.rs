//! When a pair that was just made carries packets.
//!
//! What is set up works an instant after the kernel has said that it is done: two things are left
//! to workers of its own. Until then an answer about a neighbour is dropped, and whoever asked for
//! it asks again a second later. Packets may come with the first route, so it is waited for that
//! before there are any.
//!
//! * The end that was set up first has a carrier when the second one is, and sends when that was
//!   noticed (`linkwatch_do_dev`, net/core/link_watch.c).
//! * An IPv6 address is shown at once. Who asks for it is heard, and what comes for it is taken, when
//!   it has its route in the local table (`addrconf_dad_begin`, net/ipv6/addrconf.c: it joins the
//!   solicited-node group first, and adds the route when nobody else has the address).

use crate::error::Error;
use crate::site::Site;
use crate::time::Time;
use ipnet::IpNet;
use nsm_netlink::{
    Family, Interface, InterfaceAddress, Kernel, KernelError, Namespace, Route, Rtnl,
};
use std::thread::sleep;
use std::time::Duration;
use tokio::time::Instant;

/// The routes to what the namespace has itself (`RT_TABLE_LOCAL`).
const LOCAL: u32 = 255;
/// How long is waited at most. Where it takes longer somebody wants it so: the carrier was taken,
/// or link-local addresses are tried for duplicates in the whole namespace.
const PATIENCE: Duration = Duration::from_millis(300);
/// The first pause. Each is twice as long as the one before.
const PAUSE: Duration = Duration::from_micros(100);

/// Waits until both ends are ready, on a thread that may block. If they do not become so in time,
/// it is left at that.
///
/// # Errors
/// When the kernel cannot be asked, or an end has gone.
pub fn wait(ends: [(&mut Site<'_>, &Interface); 2], time: Time) -> Result<(), Error> {
    let end = time.end.min(Instant::now() + PATIENCE);
    let mut pause = PAUSE;
    for (site, interface) in ends {
        while !site.is_ready(interface)? {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::debug!(
                    interface = interface.name,
                    netns = %site.netns.id(),
                    "the interface does not carry packets yet"
                );
                return Ok(());
            }
            sleep(pause.min(left));
            pause *= 2;
        }
    }
    Ok(())
}

/// Whether an interface sends and hears.
///
/// # Errors
/// When there is no such interface (ENODEV), or the kernel cannot be asked.
pub fn is_ready(kernel: &mut Rtnl, index: u32) -> Result<bool, KernelError> {
    if !kernel.is_operational(index)? {
        return Ok(false);
    }
    // After the carrier was noticed: a link-local address comes with that.
    let mut addresses = kernel.interface_addresses()?;
    addresses.retain(|address| address.index == index && address.net.addr().is_ipv6());
    if addresses.is_empty() {
        return Ok(true);
    }
    let local = kernel.routes(Family::V6, LOCAL..=LOCAL)?.items;
    Ok(takes_all(&addresses, &local))
}

/// Whether each of an interface's addresses has its local route.
fn takes_all(addresses: &[InterfaceAddress], local: &[Route]) -> bool {
    addresses.iter().all(|address| {
        let own = IpNet::from(address.net.addr());
        let takes = |route: &Route| route.prefix == own && route.dev() == Some(address.index);
        local.iter().any(takes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_when_its_interface_has_the_route_to_it() {
        let address = |net: &str| InterfaceAddress {
            index: 3,
            net: net.parse().unwrap(),
            protocol: 78,
            global: true,
            permanent: true,
        };
        let route = |to: &str, dev| Route::unicast(LOCAL, to.parse().unwrap(), dev, None, 2);
        let addresses = ["2001:db8::2/64", "fe80::1/64"].map(address);
        let own = [route("2001:db8::2/128", 3), route("fe80::1/128", 3)];

        assert!(takes_all(&addresses, &own));
        assert!(!takes_all(&addresses, &own[..1]));
        // A link-local address may stand on each of them.
        let another = [own[0].clone(), route("fe80::1/128", 4)];
        assert!(!takes_all(&addresses, &another));
    }
}
