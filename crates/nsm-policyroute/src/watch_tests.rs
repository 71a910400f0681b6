use super::*;
use crate::Band;
use crate::claims::Claims;
use nsm_netlink::Owner;
use std::collections::BTreeMap;

/// Misses something with each reading.
#[derive(Debug)]
struct Deaf;

impl Notifications for Deaf {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Result<Vec<Notification>, KernelError>> {
        Poll::Ready(self.drain())
    }

    fn drain(&mut self) -> Result<Vec<Notification>, KernelError> {
        Err(KernelError::AnswersLost)
    }
}

fn nothing() -> Concern {
    let owner = Owner {
        protocol: 78.try_into().unwrap(),
        tables: "20000-20019".parse().unwrap(),
    };
    Concern::of(&Claims::default(), &BTreeMap::new(), owner, Band::DEFAULT)
}

/// The first attempt was in vain, the second one comes to no end.
#[test]
fn what_an_attempt_has_missed_is_looked_at_when_the_next_one_fails() {
    let netns = NetnsId { dev: 1, ino: 1 };
    let ears = Ears::new(netns, nothing());
    ears.hold();
    ears.lock().source = Some(Deaf);
    ears.hold();

    ears.go_on(nothing());

    assert!(ears.lock().pace.next().is_some());
}
