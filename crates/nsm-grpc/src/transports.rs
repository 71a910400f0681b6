//! Transports to the next hops, by address.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Duration;

use crate::transport::Busy;
use crate::{Address, Transport};

/// How long a transport that nobody uses is kept. Refreshes come more often, as long as tokens
/// have the usual life of ten minutes.
const UNUSED: Duration = Duration::from_secs(300);

/// Where a call goes from here. An element above [`Connect`](crate::Connect) puts it into the
/// call's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop(pub Address);

/// One transport for each address that is called. Clones share them.
///
/// The connection of a transport is closed after five minutes in which nothing was under way over
/// it, and at the latest with the last clone and the last call.
#[derive(Clone, Debug)]
pub struct Transports {
    dial_timeout: Duration,
    transports: Arc<Mutex<HashMap<Address, Transport>>>,
}

impl Transports {
    /// None yet. `dial_timeout` is the time for one attempt to connect, from the first packet to the
    /// other side's first word.
    pub fn new(dial_timeout: Duration) -> Self {
        Self {
            dial_timeout,
            transports: Arc::default(),
        }
    }

    /// The transport to an address, for as long as the other half of the pair is held: for a call
    /// or a stream. Those that are at rest are forgotten.
    pub(crate) fn transport(&self, NextHop(address): &NextHop) -> (Transport, Busy) {
        let mut transports = self
            .transports
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        transports.retain(|known, transport| known == address || !transport.is_at_rest());
        let transport = transports.entry(address.clone()).or_insert_with(|| {
            Transport::resting(address.clone(), self.dial_timeout, Some(UNUSED))
        });
        // Announced before anybody else can find it at rest.
        let busy = transport.busy();
        (transport.clone(), busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(path: &str) -> NextHop {
        NextHop(Address::Unix(path.into()))
    }

    fn known(transports: &Transports) -> usize {
        transports.transports.lock().unwrap().len()
    }

    #[test]
    fn a_transport_that_is_at_rest_is_forgotten_and_one_with_a_call_is_not() {
        let transports = Transports::new(Duration::from_secs(1));
        let (_first, busy) = transports.transport(&hop("/1"));
        let (_second, _) = transports.transport(&hop("/2"));
        assert_eq!(known(&transports), 2);

        let (_third, _busy) = transports.transport(&hop("/3"));
        assert_eq!(known(&transports), 2, "2 is gone");

        drop(busy);
        transports.transport(&hop("/3"));
        assert_eq!(known(&transports), 1);
    }

    #[test]
    fn clones_share_their_transports() {
        let transports = Transports::new(Duration::from_secs(1));
        let (_first, _busy) = transports.transport(&hop("/1"));

        assert_eq!(known(&transports.clone()), 1);
    }
}
