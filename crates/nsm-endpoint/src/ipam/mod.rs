//! Gives each connection its addresses.
//!
//! A connection gets one pair of addresses from each [group](CidrGroups) of prefixes: the lower
//! one for the endpoint's interface (`dst` in the IP context), the other one for the client's
//! (`src`), each as a host prefix, and to each a route at the other end. In the mesh's Go endpoints
//! these are the elements `groupipam`, `point2pointipam` and `strictipam`.
//!
//! * **Stable.** A connection keeps its pairs until it is closed. After a restart of the endpoint
//!   nothing is known here, but a client that returns brings the addresses that it has, and gets
//!   them when they are free, in whatever order clients return. A client that was given addresses
//!   and lost the answer, because a hop between died, comes again by another id: it is known by
//!   the first segment of the path, and takes its pairs along. Two clients that share a name by
//!   mistake end with pairs of their own once both have asked again.
//! * **Exclusive.** No address is in two pairs, whatever clients bring, and however the groups
//!   overlap. An address of the endpoint's prefixes that a client brings without having been given
//!   it is removed from the context, with the route to it.
//! * **Free again.** A close frees the pairs, also when it fails below. A request that fails below
//!   gives back what it took and nothing else: what stood before it stands again.
//!
//! An address that the request excludes is not assigned; when a connection's own is excluded
//! later, it gets another pair. A pair that was free for a while may have been given to a new
//! client: an address is kept for nobody who has not returned. Who so has lost his own gets one
//! from the other end of the prefix, away from those of others who have not returned yet.
//!
//! The layer sits below `begin`, which lets one call at a time at a connection, and above
//! [`PoliciesLayer`](crate::PoliciesLayer), whose addresses may lie in the same prefixes.

mod claims;
mod context;
mod pool;
mod prefixes;
mod ranges;

#[cfg(test)]
mod claims_tests;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use nsm_api::ConnectionId;
use nsm_api::connection::Connection;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};
use thiserror::Error as ThisError;
use tower::{Layer, Service};

use claims::{Claims, Client, Grant};
pub(crate) use context::has_route;
pub use prefixes::{CidrGroups, CidrGroupsError};

const ELEMENT: &str = "ipam";

/// What becomes of addresses and routes that a client brings and that are not of the endpoint's
/// prefixes (`NSM_IPAM_POLICY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpamPolicy {
    /// They stay.
    #[default]
    Polite,
    /// They go, and so do neighbours: the client ends with what this endpoint gives, whichever
    /// endpoint it was connected to before.
    Strict,
}

/// A text is no [`IpamPolicy`].
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[error("{0:?} is no IPAM policy: there are polite and strict")]
pub struct UnknownIpamPolicy(String);

impl FromStr for IpamPolicy {
    type Err = UnknownIpamPolicy;

    /// In any case, as the mesh's Go endpoints read it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "polite" => Ok(Self::Polite),
            "strict" => Ok(Self::Strict),
            _ => Err(UnknownIpamPolicy(text.to_owned())),
        }
    }
}

impl fmt::Display for IpamPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Polite => "polite",
            Self::Strict => "strict",
        })
    }
}

/// Gives each connection its addresses. See the [module](self).
///
/// The layer holds the claims: services made by one layer, or by its clones, share them.
#[derive(Clone, Debug)]
pub struct IpamLayer {
    addresses: Arc<Addresses>,
}

impl IpamLayer {
    /// Assigns from `groups`, with every address free.
    pub fn new(groups: CidrGroups, policy: IpamPolicy) -> Self {
        let claims = Mutex::new(Claims::new(&groups));
        Self {
            addresses: Arc::new(Addresses {
                claims,
                groups,
                policy,
            }),
        }
    }

    /// How many connections have addresses.
    pub fn connections(&self) -> usize {
        self.addresses.claims().len()
    }
}

impl<S> Layer<S> for IpamLayer {
    type Service = Ipam<S>;

    fn layer(&self, inner: S) -> Ipam<S> {
        Ipam {
            inner,
            addresses: Arc::clone(&self.addresses),
        }
    }
}

/// The service of [`IpamLayer`].
///
/// # Errors
///
/// * [`ErrorKind::ResourceExhausted`]: a group has no two free addresses. The message names its
///   prefixes. The call does not go on.
/// * [`ErrorKind::InvalidArgument`]: the connection has no id, or the request excludes something
///   that is no prefix. The call does not go on.
///
/// # Cancellation
///
/// A request that is dropped counts as one that failed.
#[derive(Clone, Debug)]
pub struct Ipam<S> {
    inner: S,
    addresses: Arc<Addresses>,
}

impl<S: NetworkService> Service<Call> for Ipam<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let addresses = Arc::clone(&self.addresses);
        Box::pin(async move {
            let invalid = |empty| Error::new(ErrorKind::InvalidArgument, ELEMENT, empty);
            let id = call.connection_id().map_err(invalid)?;
            match call.operation {
                Operation::Request(_) => {
                    let given = addresses.give(id, call.connection_mut())?;
                    let connection = inner.call(call).await?;
                    given.keep();
                    Ok(connection)
                }
                Operation::Close(_) => {
                    // Freed when the rest has done its part, and also if that panics.
                    let _released = Released { addresses, id };
                    inner.call(call).await
                }
            }
        })
    }
}

#[derive(Debug)]
struct Addresses {
    claims: Mutex<Claims>,
    groups: CidrGroups,
    policy: IpamPolicy,
}

impl Addresses {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a connection's addresses into its context, and gives what takes them back.
    fn give(
        self: Arc<Self>,
        id: ConnectionId,
        connection: &mut Connection,
    ) -> Result<Given, Error> {
        let client = client(connection);
        let ip = connection.ip_context_mut();
        let asked = context::asked(ip)
            .map_err(|wrong| Error::new(ErrorKind::InvalidArgument, ELEMENT, wrong))?;
        let grant = self
            .claims()
            .claim(id, client, &asked)
            .map_err(|full| Error::new(ErrorKind::ResourceExhausted, ELEMENT, full))?;
        context::assign(ip, &grant.pairs, &self.groups, self.policy);
        Ok(Given {
            addresses: self,
            grant: Some(grant),
        })
    }
}

/// The client whose connection it is: where its path begins.
fn client(connection: &Connection) -> Option<Client> {
    let first = connection.path.as_ref()?.path_segments.first()?;
    // Nobody in particular: whoever comes so would have the addresses of all who do.
    if first.id.is_empty() {
        return None;
    }
    Some(Client {
        name: first.name.clone(),
        id: first.id.clone(),
    })
}

/// Takes back what a request was given, unless it is kept.
struct Given {
    addresses: Arc<Addresses>,
    grant: Option<Grant>,
}

impl Given {
    fn keep(mut self) {
        if let Some(grant) = self.grant.take() {
            self.addresses.claims().keep(grant);
        }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            self.addresses.claims().give_back(grant);
        }
    }
}

/// Frees the addresses of a connection in the end.
struct Released {
    addresses: Arc<Addresses>,
    id: ConnectionId,
}

impl Drop for Released {
    fn drop(&mut self) {
        self.addresses.claims().release(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::connection::{Path, PathSegment};

    #[test]
    fn a_client_is_known_by_the_first_segment_of_its_path_if_that_has_an_id() {
        let of = |name: &str, id: &str| {
            let segment = PathSegment {
                name: name.to_owned(),
                id: id.to_owned(),
                ..PathSegment::default()
            };
            let path = Path {
                path_segments: vec![segment, PathSegment::default()],
                ..Path::default()
            };
            client(&Connection {
                path: Some(path),
                ..Connection::default()
            })
        };

        assert_eq!(of("nsc", "nsc-0"), of("nsc", "nsc-0"));
        assert_ne!(of("nsc", "nsc-0"), of("nsc", "nsc-1"));
        assert_ne!(of("nsc-a", "0"), of("nsc-b", "0"));
        assert_eq!(of("nsc", ""), None);
        assert_eq!(client(&Connection::default()), None);
    }

    #[test]
    fn a_policy_is_read_in_any_case_and_shown_as_it_is_configured() {
        for policy in [IpamPolicy::Polite, IpamPolicy::Strict] {
            assert_eq!(policy.to_string().to_uppercase().parse(), Ok(policy));
        }
        let refusal = "loose".parse::<IpamPolicy>().unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "\"loose\" is no IPAM policy: there are polite and strict"
        );
    }
}
