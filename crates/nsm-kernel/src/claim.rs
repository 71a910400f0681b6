//! What each connection has where: remembered in its store, worked on in its namespace's turn.

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::mark::{Mark, Ours, Side};
use crate::pair::Unmarked;
use crate::service::Config;
use crate::space::{Names, Owner, Space, Spaces};
use crate::time::Time;
use crate::wanted::{Wanted, client_mac, client_names};
use crate::work::{self, Leaving};
use nsm_api::connection::Connection;
use nsm_api::mechanism::INTERFACE_NAME;
use nsm_chain::ErrorChain;
use nsm_chain::metadata::Store;
use nsm_netlink::{Namespace, Netns};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Duration, Instant, sleep_until, timeout_at};
use tracing::{Instrument, Span};

/// What a pair is made with when nobody asks for an MTU (`ETH_DATA_LEN`).
const DEFAULT_MTU: u32 = 1500;
/// The pauses between attempts to remove an interface: each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What a connection has.
#[derive(Debug, Clone)]
pub struct Claim {
    place: Place,
    /// Where it was, and something may have stayed.
    former: Vec<Place>,
    /// Whether its MTU was asked for, so that it goes back to the usual one without.
    mtu: bool,
}

/// Where a connection has its pair. The client's end is enough: the other goes with it.
#[derive(Debug, Clone)]
struct Place {
    space: Arc<Space>,
    name: String,
    leaving: Leaving,
    /// Who has it. Without one, it is whoever comes for it.
    owner: Option<Owner>,
}

impl Place {
    fn is_same_pair(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.space, &other.space) && self.leaving.mark == other.leaving.mark
    }
}

/// A request whose answer has come.
#[derive(Debug)]
pub struct Request {
    /// The client's id of the connection.
    pub id: String,
    /// The client's namespace.
    pub client: Option<Arc<Netns>>,
    /// Where the endpoint's end goes.
    pub endpoint: Option<Endpoint>,
    /// What is remembered of the connection.
    pub store: Store,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
}

/// All claims of a layer.
#[derive(Debug)]
pub struct Claims {
    config: Config,
    ours: Ours,
    spaces: Spaces,
}

impl Claims {
    pub fn new(config: Config) -> std::io::Result<Self> {
        let ours = Ours::new(config.protocol, &work::release()?);
        Ok(Self {
            config,
            ours,
            spaces: Spaces::default(),
        })
    }

    pub fn held(&self) -> usize {
        self.spaces.held()
    }

    /// The name of the endpoint's end if the endpoint asks for none.
    pub fn endpoint_name(&self, client: &Netns, id: &str) -> Option<String> {
        let mark = Mark::new(self.config.protocol, client.id(), id);
        mark.names(Side::Endpoint).next()
    }

    /// Makes what an answer says.
    pub async fn establish(
        &self,
        request: Request,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        let former: Option<Claim> = request.store.get();
        let kernel = connection.kernel_mechanism();
        let Some(kernel) = kernel.filter(|kernel| kernel.vlan() == 0) else {
            // It may have been a kernel interface before, here or in a former process.
            let Request {
                id, client, store, ..
            } = request;
            return self.close(&id, client, &store, connection).await;
        };
        let is_named = kernel.interface_name().is_some();
        let client = request.client.ok_or(Error::NoClientNamespace)?;
        let endpoint = request.endpoint.ok_or(Error::NoEndpointNamespace)?;
        if client.id() == endpoint.netns.id() {
            return Err(Error::SameNamespace(client.id()));
        }
        let mark = Mark::new(self.config.protocol, client.id(), &request.id);
        let mut wanted = Wanted::parse(connection, mark, endpoint.interface.as_deref())?;
        let owner = former.as_ref().and_then(|former| former.place.owner);
        let owner = owner.unwrap_or_else(Owner::new);
        let place = self.place(&client, &wanted, owner);
        let mut claim = Claim::follow(former.as_ref(), place, wanted.mtu.is_some());
        if claim.mtu {
            wanted.mtu.get_or_insert(DEFAULT_MTU);
        }
        let had = former.is_some_and(|former| {
            former.place.is_same_pair(&claim.place) && former.place.name == claim.place.name
        });
        // Before the first write, so that a close knows what there may be.
        request.store.insert(claim.clone());

        let time = Time::of(self.config.timeout, request.deadline);
        let space = Arc::clone(&claim.place.space);
        let turn = timeout_at(time.end, Arc::clone(&space.turn).lock_owned());
        let names = turn.await.map_err(|_| Error::TimedOut(time.given))?;
        let name = claim.place.name.clone();
        let ours = self.ours;
        blocking(names, move |names| {
            names.take(&name, &wanted.mark, had, space.netns.id())?;
            names.own(&wanted.mark, owner);
            work::establish(&space.netns, &endpoint.netns, &wanted, ours, time)
        })
        .await?;

        self.leave_former(&mut claim).await;
        if !is_named && let Some(mechanism) = &mut connection.mechanism {
            let name = claim.place.name.clone();
            mechanism.parameters.insert(INTERFACE_NAME.to_owned(), name);
        }
        request.store.insert(claim);
        Ok(())
    }

    /// Removes what a connection has: where its claims were made, whatever namespace the close
    /// brings. Of one that is not known here, what a former process left in the one it brings.
    ///
    /// What stays is remembered, and tried again by the next close.
    pub async fn close(
        &self,
        id: &str,
        client: Option<Arc<Netns>>,
        store: &Store,
        connection: &Connection,
    ) -> Result<(), Error> {
        if let Some(claim) = store.get::<Claim>() {
            self.leave(&claim).await?;
            store.remove::<Claim>();
            return Ok(());
        }
        let Some(client) = client else {
            return Ok(());
        };
        let mark = Mark::new(self.config.protocol, client.id(), id);
        let kernel = connection.kernel_mechanism();
        let asked = kernel.and_then(|kernel| kernel.interface_name());
        let name = client_names(asked, &mark).ok().and_then(|mut it| it.pop());
        let unmarked = Unmarked {
            name: name.unwrap_or_default(),
            mac: client_mac(connection).unwrap_or_else(|| mark.mac(Side::Client)),
            group: self.ours.unmarked(),
        };
        let place = Place {
            space: self.spaces.of(&client),
            name: unmarked.name.clone(),
            leaving: Leaving { mark, unmarked },
            owner: None,
        };
        leave(place, self.config.timeout).await
    }

    fn place(&self, client: &Arc<Netns>, wanted: &Wanted, owner: Owner) -> Place {
        Place {
            space: self.spaces.of(client),
            name: wanted.client.name().to_owned(),
            leaving: Leaving {
                mark: wanted.mark.clone(),
                unmarked: wanted.unmarked(self.ours),
            },
            owner: Some(owner),
        }
    }

    /// Removes what a claim has everywhere, and gives the first failure.
    async fn leave(&self, claim: &Claim) -> Result<(), Error> {
        let mut result = Ok(());
        for place in claim.former.iter().chain([&claim.place]) {
            result = result.and(leave(place.clone(), self.config.timeout).await);
        }
        result
    }

    /// Removes what a connection had elsewhere. What stays is tried again.
    async fn leave_former(&self, claim: &mut Claim) {
        for place in std::mem::take(&mut claim.former) {
            if let Err(error) = leave(place.clone(), self.config.timeout).await {
                tracing::warn!(
                    error = %ErrorChain(&error),
                    "a connection's former interface could not be removed yet"
                );
                claim.former.push(place);
            }
        }
    }
}

impl Claim {
    /// The claim of a connection that had another one.
    fn follow(former: Option<&Self>, place: Place, mtu: bool) -> Self {
        let mut claim = Self {
            place,
            former: Vec::new(),
            mtu,
        };
        if let Some(former) = former {
            claim.mtu |= former.mtu;
            let places = former.former.iter().chain([&former.place]);
            let elsewhere = places.filter(|place| !place.is_same_pair(&claim.place));
            claim.former = elsewhere.cloned().collect();
        }
        claim
    }
}

/// Removes what a connection has at one place. It waits for its turn as long as it takes, and does
/// not end with its caller: nobody else would remove it. What may pass, such as a want of
/// descriptors, is tried again for that long.
async fn leave(place: Place, patience: Duration) -> Result<(), Error> {
    let work = async move {
        let end = Instant::now() + patience;
        let mut pause = FIRST_PAUSE;
        loop {
            match try_leave(&place).await {
                Err(error) if error.may_pass() && Instant::now() < end => {
                    tracing::debug!(
                        interface = place.name,
                        netns = %place.space.netns.id(),
                        error = %ErrorChain(&error),
                        "the interface cannot be removed yet"
                    );
                    sleep_until(end.min(Instant::now() + pause)).await;
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
                done => return done,
            }
        }
    };
    let done = tokio::spawn(work.in_current_span()).await;
    done.map_err(Error::Lost)?
}

async fn try_leave(place: &Place) -> Result<(), Error> {
    let names = Arc::clone(&place.space.turn).lock_owned().await;
    let place = place.clone();
    blocking(names, move |names| {
        if !names.disown(&place.leaving.mark, place.owner) {
            tracing::debug!(
                interface = place.name,
                netns = %place.space.netns.id(),
                "the client has come for its interface by another way, and so it stays"
            );
            return Ok(());
        }
        names.release(&place.leaving.mark);
        work::remove(&place.space.netns, &place.leaving)
    })
    .await
}

/// Works on a thread of its own, for the kernel makes whoever asks it wait. It runs to its end, and
/// keeps its turn so long.
async fn blocking<T: Send + 'static>(
    mut names: OwnedMutexGuard<Names>,
    work: impl FnOnce(&mut Names) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let span = Span::current();
    let work = move || span.in_scope(|| work(&mut names));
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(Error::Lost)?
}
