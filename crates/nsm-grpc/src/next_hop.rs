//! Transports to the next hops, by address.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

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

/// One transport for each address.
#[derive(Debug)]
pub(crate) struct NextHops {
    dial_timeout: Duration,
    transports: Mutex<HashMap<Address, Transport>>,
}

impl NextHops {
    pub(crate) fn new(dial_timeout: Duration) -> Self {
        Self {
            dial_timeout,
            transports: Mutex::default(),
        }
    }

    /// The transport to an address, for a call. Those that are at rest are forgotten.
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

    fn known(hops: &NextHops) -> usize {
        hops.transports.lock().unwrap().len()
    }

    #[test]
    fn a_transport_that_is_at_rest_is_forgotten_and_one_with_a_call_is_not() {
        let hops = NextHops::new(Duration::from_secs(1));
        let (_first, busy) = hops.transport(&hop("/1"));
        let (_second, _) = hops.transport(&hop("/2"));
        assert_eq!(known(&hops), 2);

        let (_third, _busy) = hops.transport(&hop("/3"));
        assert_eq!(known(&hops), 2, "2 is gone");

        drop(busy);
        hops.transport(&hop("/3"));
        assert_eq!(known(&hops), 1);
    }
}
