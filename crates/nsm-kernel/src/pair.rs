//! Which pair of interfaces is a connection's, and what is to be done until it stands: pure.

use crate::mark::{Mark, Ours, Side};
use crate::wanted::{End, Wanted};
use nsm_netlink::{Interface, InterfaceChange, LinkState, Peer};

const VETH: &str = "veth";

/// What is there.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The interfaces in the client's namespace.
    pub client: &'a [Interface],
    /// The interfaces in the endpoint's namespace.
    pub endpoint: &'a [Interface],
    /// The number that the client's namespace has for the endpoint's, if it has one.
    pub number: Option<i32>,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The pair stands.
    Stands {
        /// The client's end.
        client: Box<Interface>,
        /// The endpoint's end.
        endpoint: Box<Interface>,
    },
    /// An interface is to go, and with it its other end.
    Remove(Side, u32),
    /// A pair is to be made, with these names.
    Make {
        /// Of the client's end.
        client: String,
        /// Of the endpoint's end.
        endpoint: String,
    },
}

/// Why there will be no pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Somebody else's interface has the name.
    Foreign(Side, String),
    /// Every name of the endpoint's end is taken.
    NoFreeName,
}

/// What is to be done next, until the pair stands.
///
/// A pair is known by the mark on the client's end. Where a process was killed before it could put
/// the mark, by the hardware address that only we would have chosen. One that is not right in full
/// is made anew; a name that another connection of ours has is taken from it, for the caller has
/// seen to it that it is ours to take.
///
/// # Errors
/// When somebody else's interface is in the way. It is never touched.
pub fn next(wanted: &Wanted, ours: Ours, seen: &Seen<'_>) -> Result<Step, Refused> {
    let unmarked = wanted.unmarked(ours);
    let is_of = |it: &Interface| has_mark(it, wanted) || unmarked.is(it);
    let mine = seen.client.iter().filter(|it| is_of(it));
    let right = mine.clone().find_map(|client| {
        let endpoint = other_end(client, wanted, seen)?;
        Some((client, endpoint))
    });
    let wrong = mine
        .clone()
        .find(|it| right.is_none_or(|(client, _)| client.index != it.index));
    if let (Some((client, endpoint)), None) = (right, wrong) {
        return Ok(Step::Stands {
            client: Box::new(client.clone()),
            endpoint: Box::new(endpoint.clone()),
        });
    }
    let name = wanted.client.name();
    let holder = find(seen.client, name).filter(|holder| !is_of(holder));
    // Strangers first, so that what stands is not given up for what cannot be had.
    if holder.is_some_and(|holder| !ours.has_made(holder)) {
        return Err(Refused::Foreign(Side::Client, name.to_owned()));
    }
    let going = wrong.and_then(|it| peer_index(it, seen));
    let endpoint_name = free_name(wanted, ours, seen.endpoint, going)?;
    if let Some(in_the_way) = wrong.or(holder) {
        return Ok(Step::Remove(Side::Client, in_the_way.index));
    }
    // An end whose other end was lost to us, by a hand that took its mark or its place.
    let half = seen.endpoint.iter().find(|it| has_mark(it, wanted));
    if let Some(half) = half {
        return Ok(Step::Remove(Side::Endpoint, half.index));
    }
    Ok(Step::Make {
        client: name.to_owned(),
        endpoint: endpoint_name,
    })
}

fn has_mark(interface: &Interface, wanted: &Wanted) -> bool {
    interface.alias.as_deref() == Some(wanted.mark.as_str())
}

/// The client's end of a connection that has lost its mark, or was not marked yet by somebody who
/// was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmarked {
    /// The name that it should have.
    pub name: String,
    /// Its hardware address, which only we would have chosen.
    pub mac: [u8; 6],
    /// The group of those that are not marked yet: it may have a former name then.
    pub group: u32,
}

impl Unmarked {
    /// Whether an interface is that end.
    pub fn is(&self, interface: &Interface) -> bool {
        interface.alias.is_none()
            && interface.kind.as_deref() == Some(VETH)
            && interface.mac == Some(self.mac)
            && (interface.name == self.name || interface.group == self.group)
    }
}

impl Wanted {
    /// The client's end without its mark.
    pub fn unmarked(&self, ours: Ours) -> Unmarked {
        Unmarked {
            name: self.client.name().to_owned(),
            mac: self.client.hardware_address(&self.mark),
            group: ours.unmarked(),
        }
    }
}

/// The other end, if the pair is right in full.
fn other_end<'a>(interface: &Interface, wanted: &Wanted, seen: &Seen<'a>) -> Option<&'a Interface> {
    let index = peer_index(interface, seen)?;
    let other = seen.endpoint.iter().find(|it| it.index == index)?;
    let leads_back = matches!(other.peer, Some(Peer { index, .. }) if index == interface.index);
    let fits = fits(interface, &wanted.client) && fits(other, &wanted.endpoint);
    (leads_back && fits).then_some(other)
}

fn fits(interface: &Interface, end: &End) -> bool {
    // Where nobody asks for a name the endpoint's end keeps the one it has, whoever gave it: the
    // mark and the other end say that it is ours. The client goes by the name of its own end.
    let any_name = end.side == Side::Endpoint && !end.asked;
    interface.kind.as_deref() == Some(VETH)
        && (any_name || end.names.contains(&interface.name))
        && end.mac.is_none_or(|mac| interface.mac == Some(mac))
}

/// The index of the other end of an interface that leads to the endpoint's namespace.
fn peer_index(interface: &Interface, seen: &Seen<'_>) -> Option<u32> {
    let peer = interface.peer.filter(|peer| peer.netns == seen.number)?;
    // Without a number nothing here leads there.
    seen.number.map(|_| peer.index)
}

/// A name for the endpoint's end. That of one that is about to go counts as free.
fn free_name(
    wanted: &Wanted,
    ours: Ours,
    interfaces: &[Interface],
    going: Option<u32>,
) -> Result<String, Refused> {
    let end = &wanted.endpoint;
    for name in &end.names {
        match find(interfaces, name) {
            None => return Ok(name.clone()),
            Some(holder) if has_mark(holder, wanted) || Some(holder.index) == going => {
                return Ok(name.clone());
            }
            // What the endpoint asked for is not silently given up for a stranger's sake.
            Some(holder) if !ours.has_made(holder) && end.asked && name == end.name() => {
                return Err(Refused::Foreign(end.side, name.clone()));
            }
            Some(_) => {}
        }
    }
    Err(Refused::NoFreeName)
}

fn find<'a>(interfaces: &'a [Interface], name: &str) -> Option<&'a Interface> {
    interfaces.iter().find(|interface| interface.name == name)
}

/// What is to be changed of an end that stands.
pub fn change<'a>(interface: &Interface, wanted: &'a Wanted, ours: Ours) -> InterfaceChange<'a> {
    let mark = wanted.mark.as_str();
    InterfaceChange {
        group: (interface.group == ours.unmarked()).then_some(0),
        alias: Some(mark).filter(|_| interface.alias.as_deref() != Some(mark)),
        mtu: wanted.mtu.filter(|mtu| interface.mtu != *mtu),
        state: (!interface.up).then_some(LinkState::Up),
    }
}

impl End {
    /// The name that it should have.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// The hardware address that it is made with.
    pub fn hardware_address(&self, mark: &Mark) -> [u8; 6] {
        self.mac.unwrap_or_else(|| mark.mac(self.side))
    }
}

#[cfg(test)]
#[path = "pair_tests.rs"]
mod tests;
