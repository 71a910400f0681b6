//! Knows where the endpoints of network services are, and learns their names.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nsm_grpc::{Address, NextHop, Transports};
use tokio::task::JoinSet;
use tracing::debug;

/// How long an endpoint may take to say whether it has a name.
const ASKED: Duration = Duration::from_secs(2);

/// The endpoints of each network service, from the configuration. Clones share what is learned.
///
/// Of several endpoints of a service each has a name, by which connections go on to ask for it. It
/// is learned from their answers; for a name that is not known here, as after a restart, they are
/// asked, over gRPC's health service.
#[derive(Clone, Debug)]
pub struct Directory {
    services: Arc<BTreeMap<String, Service>>,
    /// One for each address at most.
    names: Arc<Mutex<HashMap<Address, String>>>,
    transports: Transports,
}

#[derive(Debug)]
struct Service {
    endpoints: Vec<Address>,
    /// Whose turn it is, as a number that only grows.
    turn: AtomicUsize,
}

impl Directory {
    /// These endpoints, and no others. Each service has one at least.
    pub fn new(services: BTreeMap<String, Vec<Address>>, transports: Transports) -> Self {
        let services = services.into_iter().map(|(name, endpoints)| {
            let turn = AtomicUsize::new(0);
            (name, Service { endpoints, turn })
        });
        Self {
            services: Arc::new(services.collect()),
            names: Arc::default(),
            transports,
        }
    }

    /// The services that there are endpoints of.
    pub fn services(&self) -> impl Iterator<Item = &String> {
        self.services.keys()
    }

    /// The endpoints of a service.
    pub(crate) fn endpoints(&self, service: &str) -> Option<&[Address]> {
        Some(&self.services.get(service)?.endpoints)
    }

    /// The endpoints of a service, from the one whose turn it is on.
    pub(crate) fn in_turn(&self, service: &str) -> Option<Vec<Address>> {
        let service = self.services.get(service)?;
        let mut endpoints = service.endpoints.clone();
        let turn = service.turn.fetch_add(1, Relaxed) % endpoints.len().max(1);
        endpoints.rotate_left(turn);
        Some(endpoints)
    }

    /// An endpoint has said what it is called.
    pub(crate) fn learn(&self, address: &Address, name: &str) {
        if !name.is_empty() {
            self.names().insert(address.clone(), name.to_owned());
        }
    }

    /// The endpoint of that name among those, as far as that is known.
    pub(crate) fn known(&self, among: &[Address], name: &str) -> Option<Address> {
        let names = self.names();
        let has_name = |it: &&Address| names.get(*it).is_some_and(|known| known == name);
        among.iter().find(has_name).cloned()
    }

    /// The endpoint of that name among those. They are asked if that is not known, all at once; one
    /// that is not reached, or says nothing for two seconds, is not the one.
    pub(crate) async fn locate(&self, among: &[Address], name: &str) -> Option<Address> {
        let known = self.known(among, name);
        // By no name at all it is the server as a whole that is asked for.
        if known.is_some() || name.is_empty() {
            return known;
        }
        let mut asked = JoinSet::new();
        for address in among {
            let (directory, address) = (self.clone(), address.clone());
            let name = name.to_owned();
            asked.spawn(async move {
                let hop = NextHop(address.clone());
                match directory.transports.serves(&hop, &name, ASKED).await {
                    Ok(serves) => serves.then_some(address),
                    Err(error) => {
                        debug!(%address, error = %error.report(), "an endpoint does not say its name");
                        None
                    }
                }
            });
        }
        while let Some(answer) = asked.join_next().await {
            if let Ok(Some(address)) = answer {
                self.learn(&address, name);
                return Some(address);
            }
        }
        None
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Address, String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
