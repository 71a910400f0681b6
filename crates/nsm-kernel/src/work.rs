//! The work on one connection in its two namespaces, from the first read to the last write.

use crate::error::Error;
use crate::mark::{Mark, Ours, Side};
use crate::pair::{self, Refused, Seen, Step, Unmarked};
use crate::ping_group;
use crate::ready;
use crate::site::{Site, furnish};
use crate::time::Time;
use crate::wanted::Wanted;
use nsm_netlink::{Errno, Interface, Namespace, Netns, VethEnd};

/// How many steps it takes at most until a pair stands: one that is not right and one in the way to
/// be removed at each end, one to be made, and as many again for those who change it meanwhile.
const STEPS: usize = 12;
/// How often the work is begun anew after answers of the kernel were lost.
const TRIES: usize = 3;

/// Makes the pair, and all that stands on it, as it is wanted. What is right is only read.
pub fn establish(
    client: &Netns,
    endpoint: &Netns,
    wanted: &Wanted,
    ours: Ours,
    time: Time,
) -> Result<(), Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        match try_establish(client, endpoint, wanted, ours, time) {
            Err(Error::Kernel { source, .. }) if source.is_transient() && tries < TRIES => {
                tracing::debug!(%source, "the kernel's answers were lost, and it is read again");
            }
            done => break done?,
        }
    }
    for netns in [client, endpoint] {
        // What the connection carries does not need it, so it is no reason to refuse one.
        if let Err(error) = ping_group::allow(netns) {
            tracing::warn!(netns = %netns.id(), %error, "no group was allowed to ping");
        }
    }
    Ok(())
}

fn try_establish(
    client: &Netns,
    endpoint: &Netns,
    wanted: &Wanted,
    ours: Ours,
    time: Time,
) -> Result<(), Error> {
    let mut near = Site::open(Side::Client, client)?;
    let mut far = Site::open(Side::Endpoint, endpoint)?;
    let (here, there) = stand(&mut near, &mut far, wanted, ours, time)?;
    // The client's end last: the kernel sends from the one that finds the other up, and from the
    // other when it has noticed the carrier, an instant later.
    let changes = [&there, &here].map(|end| pair::change(end, wanted, ours));
    far.set_up(&there, &changes[0])?;
    near.set_up(&here, &changes[1])?;
    time.check()?;
    if changes.iter().any(|change| change.state.is_some()) {
        ready::wait([(&mut far, &there), (&mut near, &here)], time)?;
    }
    let ends = [
        (&mut near, &here, &wanted.client),
        (&mut far, &there, &wanted.endpoint),
    ];
    furnish(ends, ours, time)
}

/// Makes the pair stand, and gives its ends.
fn stand(
    near: &mut Site<'_>,
    far: &mut Site<'_>,
    wanted: &Wanted,
    ours: Ours,
    time: Time,
) -> Result<(Interface, Interface), Error> {
    let mut refusal = None;
    for _ in 0..STEPS {
        time.check()?;
        let client = near.interfaces()?;
        let endpoint = far.interfaces()?;
        // After the interfaces, for the kernel gives the number when it shows the first.
        let number = near.kernel.number_of(far.netns);
        let number = number.map_err(|source| near.unread(source))?;
        let seen = Seen {
            client: &client,
            endpoint: &endpoint,
            number,
        };
        match pair::next(wanted, ours, &seen) {
            Ok(Step::Stands { client, endpoint }) => return Ok((*client, *endpoint)),
            Ok(Step::Remove(Side::Client, index)) => {
                let name = client.iter().find(|it| it.index == index);
                let alias = name.and_then(|it| it.alias.as_deref());
                if alias.is_some_and(|alias| alias != wanted.mark.as_str()) {
                    tracing::warn!(
                        interface = wanted.client.name(),
                        netns = %near.netns.id(),
                        former = alias,
                        "the interface of another connection gives way to one that wants its name"
                    );
                }
                near.remove(index)?;
            }
            Ok(Step::Remove(Side::Endpoint, index)) => far.remove(index)?,
            Ok(Step::Make { client, endpoint }) => {
                match make(near, far, wanted, ours, [&client, &endpoint]) {
                    // Somebody was faster, and is seen at the next look.
                    Err(error) if is_taken(&error) => refusal = Some(error),
                    made => made?,
                }
            }
            Err(Refused::Foreign(side, name)) => {
                let netns = match side {
                    Side::Client => near.netns.id(),
                    Side::Endpoint => far.netns.id(),
                };
                return Err(Error::Foreign { name, side, netns });
            }
            Err(Refused::NoFreeName) => return Err(Error::NoFreeName(far.netns.id())),
        }
    }
    Err(refusal.unwrap_or(Error::Contended(near.netns.id())))
}

/// Makes the pair in place: both ends are born where they belong, by one message.
fn make(
    near: &mut Site<'_>,
    far: &Site<'_>,
    wanted: &Wanted,
    ours: Ours,
    names: [&str; 2],
) -> Result<(), Error> {
    let [here, there] =
        [(&wanted.client, names[0]), (&wanted.endpoint, names[1])].map(|(end, name)| VethEnd {
            name,
            mac: Some(end.hardware_address(&wanted.mark)),
            mtu: wanted.mtu,
            group: ours.unmarked(),
        });
    let made = near.kernel.add_veth(&here, &there, far.netns);
    made.map_err(|source| near.refused(source))
}

fn is_taken(error: &Error) -> bool {
    matches!(error, Error::SetUp { source, .. } if source.errno() == Some(Errno::EEXIST))
}

/// What is to be removed of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// The mark of its interfaces.
    pub mark: Mark,
    /// What it may have without a mark.
    pub unmarked: Unmarked,
}

/// Removes a connection's pair, and with it all that stands on it. What has gone already is well.
pub fn remove(client: &Netns, leaving: &Leaving) -> Result<(), Error> {
    let removed = Site::open(Side::Client, client).and_then(|mut site| {
        for interface in site.interfaces()? {
            let alias = interface.alias.as_deref();
            if alias == Some(leaving.mark.as_str()) || leaving.unmarked.is(&interface) {
                site.remove(interface.index)?;
            }
        }
        Ok(())
    });
    removed.map_err(|error| match error {
        Error::SetUp { netns, source, .. } => Error::Removal { netns, source },
        other => other,
    })
}

/// The release of the running kernel, as uname(2) gives it.
///
/// # Errors
/// When it cannot be read.
pub fn release() -> std::io::Result<String> {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
}
