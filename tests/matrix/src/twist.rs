//! What happens at an asking that [`nsm_netlink::fault`] does not know: a namespace that does not
//! open, a dump that shows an entry twice, and a real death.

use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;
use nsm_netlink::fault::Times;
use nsm_netlink::{Errno, OpKind};

/// One twist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twist {
    /// The namespace does not open.
    Closed(Errno),
    /// A dump of this kind took several reads and shows the entry at this place twice.
    Twice(OpKind, usize),
}

/// On which side of a send the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Nothing of it is sent.
    Before,
    /// All of it is done.
    After,
}

/// All twists of a world, and its death.
#[derive(Debug, Default)]
pub(crate) struct Twists {
    pending: Vec<Pending>,
    sends: usize,
    death: Option<(usize, Side)>,
}

#[derive(Debug)]
struct Pending {
    twist: Twist,
    pod: usize,
    left: usize,
    times: Times,
    met: bool,
}

impl Twists {
    pub(crate) fn add(&mut self, pod: usize, nth: usize, times: Times, twist: Twist) {
        self.pending.push(Pending {
            twist,
            pod,
            left: nth,
            times,
            met: false,
        });
    }

    pub(crate) fn unmet(&self) -> Vec<Twist> {
        self.pending
            .iter()
            .filter(|it| !it.met)
            .map(|it| it.twist)
            .collect()
    }

    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }

    /// A namespace is opened: why it does not open.
    pub(crate) fn closed(&mut self, pod: usize) -> Option<Errno> {
        self.meet(pod, |twist| match twist {
            Twist::Closed(errno) => Some(errno),
            Twist::Twice(..) => None,
        })
    }

    /// Something is read: which entry shows twice.
    pub(crate) fn twice(&mut self, pod: usize, kind: OpKind) -> Option<usize> {
        self.meet(pod, |twist| match twist {
            Twist::Twice(of, at) if of == kind => Some(at),
            _ => None,
        })
    }

    fn meet<T>(&mut self, pod: usize, matches: impl Fn(Twist) -> Option<T>) -> Option<T> {
        let mut met = None;
        for pending in self.pending.iter_mut().filter(|it| it.pod == pod) {
            let Some(what) = matches(pending.twist) else {
                continue;
            };
            let due = match pending.times {
                Times::Once => pending.left == 1,
                Times::Forever => pending.left <= 1,
            };
            pending.left = pending.left.saturating_sub(1);
            if due {
                pending.met = true;
                met = Some(what);
            }
        }
        met
    }

    pub(crate) fn die_at(&mut self, nth: usize, side: Side) {
        self.sends = 0;
        self.death = Some((nth, side));
    }

    pub(crate) fn before_a_send(&mut self) {
        self.sends += 1;
        self.die(Side::Before);
    }

    pub(crate) fn after_a_send(&self) {
        self.die(Side::After);
    }

    fn die(&self, side: Side) {
        if self.death == Some((self.sends, side)) {
            kill(getpid(), Signal::SIGKILL).unwrap();
        }
    }
}
