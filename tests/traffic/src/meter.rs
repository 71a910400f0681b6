//! What a stream comes to while something is done beside it.

use crate::Error;
use crate::counter::{Count, Counter};
use crate::figures::Slice;
use crate::sender::{Sender, Socket, Stopped, Tally};
use crate::stream::Stream;
use crate::tap::Tap;
use crate::world::{Link, World};
use std::thread;
use std::time::{Duration, Instant};

/// How long a packet may take to the far end. It takes some microseconds.
const LAG: Duration = Duration::from_millis(5);
/// How long a single one is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// A stream that flows, with everything that counts it.
#[derive(Debug)]
pub struct Meter {
    sender: Sender,
    sights: Sights,
}

/// Where it is looked.
#[derive(Debug)]
struct Sights {
    own: Counter,
    others: Vec<Tap>,
    /// What was seen there last, and of the sender.
    last: (Count, Tally),
}

impl Meter {
    /// Lets a stream flow. By any other link than its own it leaks.
    ///
    /// # Errors
    /// When it cannot be sent or counted.
    pub fn start(
        world: &World,
        stream: Stream,
        own: &'static [Link],
        mut socket: Socket,
    ) -> Result<Self, Error> {
        // Whatever the socket has to learn of its way, it learns before anything is counted.
        socket.send()?;
        thread::sleep(LAG);
        let others = Link::ALL.into_iter().filter(|link| !own.contains(link));
        let others: Result<_, Error> = others.map(|link| Tap::open(world, link, stream)).collect();
        let own = Counter::of(world, own)?;
        let last = (own.count()?, Tally::default());
        let sights = Sights {
            own,
            others: others?,
            last,
        };
        let sender = Sender::start(socket)?;
        Ok(Self { sender, sights })
    }

    /// Does something again and again for so long, and counts meanwhile. It tells each time how many
    /// changes that were. Gives the error that ended it early, if one did.
    ///
    /// # Errors
    /// When it cannot be counted.
    pub fn during(
        &mut self,
        time: Duration,
        mut change: impl FnMut() -> Result<u64, Error>,
    ) -> Result<(Slice, Option<Error>), Error> {
        let mut slice = Slice::default();
        let mut failure = None;
        let began = Instant::now();
        while failure.is_none() && began.elapsed() < time {
            match change() {
                Ok(changes) => slice.changes += changes,
                Err(error) => failure = Some(error),
            }
        }
        slice.took = began.elapsed();
        // A socket that is stuck leaks on when nothing is done any more.
        thread::sleep(LAG);
        self.sights.count(self.sender.tally(), &mut slice)?;
        Ok((slice, failure))
    }

    /// Ends the stream. Gives what is left of it, and what has come out since it was counted last.
    ///
    /// # Errors
    /// When it cannot be counted.
    pub fn stop(mut self) -> Result<(Stopped, Slice), Error> {
        let stopped = self.sender.stop();
        thread::sleep(LAG);
        let mut rest = Slice::default();
        self.sights.count(stopped.tally, &mut rest)?;
        Ok((stopped, rest))
    }
}

impl Sights {
    fn count(&mut self, tally: Tally, slice: &mut Slice) -> Result<(), Error> {
        let count = self.own.count()?;
        let last = std::mem::replace(&mut self.last, (count, tally));
        slice.own = count.out - last.0.out;
        slice.dropped = count.dropped - last.0.dropped;
        slice.sent = tally.sent - last.1.sent;
        slice.errors = tally.errors - last.1.errors;
        for tap in &self.others {
            slice.leaked.insert(tap.link(), tap.count()?);
        }
        Ok(())
    }
}

/// Sends once more, and sees by which link that comes out, if by any.
///
/// # Errors
/// When nobody can look.
pub fn comes_out(
    world: &World,
    stream: Stream,
    socket: &mut Socket,
) -> Result<Option<Link>, Error> {
    let taps = Link::ALL.map(|link| Tap::open(world, link, stream));
    let taps: Vec<Tap> = taps.into_iter().collect::<Result<_, _>>()?;
    let deadline = Instant::now() + PATIENCE;
    if socket.send().is_err() {
        return Ok(None);
    }
    while Instant::now() < deadline {
        for tap in &taps {
            if tap.count()? > 0 {
                return Ok(Some(tap.link()));
            }
        }
        thread::sleep(LAG / 50);
    }
    Ok(None)
}
