//! How much has come out of links, by the kernel's own counters: free of charge, and exact enough for
//! the links that a stream may use. What a kernel says on its own is in it.

use crate::Error;
use crate::world::{Link, World};
use nsm_netlink::Netns;
use std::fs;

/// The interfaces of the calling thread's namespace, with their counters (proc_pid_net(5)).
const FILE: &str = "/proc/thread-self/net/dev";
/// Which number behind a name counts the packets that were received.
const RECEIVED: usize = 1;
/// Which one counts those that were not sent.
const NOT_SENT: usize = 11;

/// The counter of some links.
#[derive(Debug)]
pub struct Counter {
    pod: Netns,
    far: Netns,
    links: &'static [Link],
}

/// What it counts, since the links were made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    /// Packets that have come out at the far end.
    pub out: u64,
    /// Packets that a link dropped on their way, as it does where the machine is too busy to take
    /// them in at the other end.
    pub dropped: u64,
}

impl Counter {
    /// Of these links together.
    ///
    /// # Errors
    /// When the namespaces give no descriptors.
    pub fn of(world: &World, links: &'static [Link]) -> Result<Self, Error> {
        Ok(Self {
            pod: Netns::from_fd(world.pod())?,
            far: Netns::from_fd(world.far())?,
            links,
        })
    }

    /// Reads it.
    ///
    /// # Errors
    /// When the counters cannot be read.
    pub fn count(&self) -> Result<Count, Error> {
        Ok(Count {
            out: self.sum(&self.far, RECEIVED)?,
            dropped: self.sum(&self.pod, NOT_SENT)?,
        })
    }

    fn sum(&self, netns: &Netns, which: usize) -> Result<u64, Error> {
        let text = netns.enter(|| fs::read_to_string(FILE))??;
        let links = self.links.iter();
        let sum: Option<u64> = links.map(|link| number(&text, link.name(), which)).sum();
        Ok(sum.ok_or_else(|| format!("a link is missing in {FILE}"))?)
    }
}

/// A number of an interface.
fn number(text: &str, name: &str, which: usize) -> Option<u64> {
    let line = |line: &str| {
        let (head, numbers) = line.split_once(':')?;
        (head.trim() == name).then(|| numbers.split_whitespace().nth(which)?.parse().ok())?
    };
    text.lines().find_map(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_link_are_found_by_its_name() {
        let text = "Inter-|   Receive                            |  Transmit\n \
                     face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n  \
                       lo:     100       1    0    0    0     0          0         0      100       1    0    0    0\n\
                    nsm-0: 7000000   70000    0    2    0     0          0         0     5000      50    0    3    0\n";

        assert_eq!(number(text, "nsm-0", RECEIVED), Some(70_000));
        assert_eq!(number(text, "nsm-0", NOT_SENT), Some(3));
        assert_eq!(number(text, "lo", RECEIVED), Some(1));
        assert_eq!(number(text, "nsm-1", RECEIVED), None);
    }
}
