//! Who has which addresses. Pure: no clock, no chain, no locks.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use nsm_api::ConnectionId;
use thiserror::Error;

use super::prefixes::CidrGroups;
use super::ranges::Ranges;

/// The two addresses of a connection: "dst" and "src" in the mesh's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pair {
    /// The address of the endpoint's interface.
    pub(super) dst: IpAddr,
    /// The address of the client's interface.
    pub(super) src: IpAddr,
}

/// The client at the other end of a path, by its name and its own id for the connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) id: String,
}

/// What a request brings.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// Addresses that the client has, the likeliest first.
    pub(super) src: Vec<IpAddr>,
    /// Addresses that the endpoint had for it.
    pub(super) dst: Vec<IpAddr>,
    /// Addresses that must not be assigned.
    pub(super) excluded: Ranges,
}

/// No pair is left for a client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no two free addresses in {}{}", list(.prefixes), outside(.excluded))]
pub(super) struct Exhausted {
    /// The prefixes of the group that has none.
    prefixes: Vec<IpNet>,
    /// Whether the request excludes any.
    excluded: bool,
}

/// The claims of all connections.
#[derive(Debug)]
pub(super) struct Claims {
    groups: Vec<Vec<IpNet>>,
    /// What nobody has. Groups may overlap: an address is given once all the same.
    free: Ranges,
    claims: HashMap<ConnectionId, Claim>,
    /// The connection that each client came by last.
    clients: HashMap<Client, ConnectionId>,
    /// Claims that a request not yet done has taken over: by the connection that had it, the
    /// ticket that it had it by.
    moved: HashMap<ConnectionId, Ticket>,
    tickets: Ticket,
}

/// Tells the requests of a connection apart.
type Ticket = u64;

#[derive(Debug)]
struct Claim {
    client: Option<Client>,
    /// A pair of each group.
    pairs: Vec<Pair>,
    /// What the connection had before a request that is not yet done.
    former: Vec<Pair>,
    ticket: Ticket,
}

/// What a request was given. It is ended by [`Claims::keep`] or by [`Claims::give_back`].
#[derive(Debug)]
#[must_use = "a request ends one way or the other"]
pub(super) struct Grant {
    /// A pair of each group.
    pub(super) pairs: Vec<Pair>,
    connection: ConnectionId,
    ticket: Ticket,
    /// The pairs before, if there was a claim.
    had: Option<Vec<Pair>>,
    /// The connection from which the claim was taken over.
    moved_from: Option<ConnectionId>,
}

#[cfg(test)]
impl Grant {
    /// Whose it is.
    pub(super) fn connection(&self) -> &ConnectionId {
        &self.connection
    }
}

impl Claims {
    pub(super) fn new(groups: &CidrGroups) -> Self {
        let mut free = Ranges::default();
        groups.prefixes().for_each(|prefix| free.insert_net(prefix));
        Self {
            groups: groups.groups().to_vec(),
            free,
            claims: HashMap::new(),
            clients: HashMap::new(),
            moved: HashMap::new(),
            tickets: 0,
        }
    }

    /// How many connections have addresses.
    pub(super) fn len(&self) -> usize {
        self.claims.len()
    }

    /// Gives a connection its pairs, one of each group: those it has, where they are not excluded;
    /// else those that it brings, where they are free; else the lowest that are free.
    ///
    /// A client whose connection comes by another id than before (a hop lost its memory on the
    /// way) takes its claim along.
    pub(super) fn claim(
        &mut self,
        connection: ConnectionId,
        client: Option<Client>,
        asked: &Asked,
    ) -> Result<Grant, Exhausted> {
        let before = self.claim_before(&connection, client.as_ref());
        let had = before.as_ref().map(|(_, pairs)| pairs.clone());
        let pairs = self.choose(had.as_deref(), asked)?;

        let moved_from = before
            .map(|(owner, _)| owner)
            .filter(|owner| *owner != connection);
        self.tickets += 1;
        let ticket = self.tickets;
        let mut client = client;
        if let Some(claim) = self.remove(moved_from.as_ref().unwrap_or(&connection)) {
            self.free(&claim.former);
            client = client.or(claim.client);
            if let Some(owner) = &moved_from {
                self.moved.insert(owner.clone(), claim.ticket);
            }
        }
        let differs = |pair: &Pair| !pairs.contains(pair);
        let former = had.iter().flatten().copied().filter(differs).collect();
        let granted = pairs.clone();
        self.set(
            &connection,
            Claim {
                client,
                pairs,
                former,
                ticket,
            },
        );
        Ok(Grant {
            pairs: granted,
            connection,
            ticket,
            had,
            moved_from,
        })
    }

    /// The connection that has the claim of this one, and its pairs.
    fn claim_before(
        &self,
        connection: &ConnectionId,
        client: Option<&Client>,
    ) -> Option<(ConnectionId, Vec<Pair>)> {
        let by_client = || self.clients.get(client?);
        let owner = match self.claims.contains_key(connection) {
            true => connection,
            false => by_client()?,
        };
        let claim = self.claims.get(owner)?;
        Some((owner.clone(), claim.pairs.clone()))
    }

    fn set(&mut self, connection: &ConnectionId, claim: Claim) {
        if let Some(client) = &claim.client {
            self.clients.insert(client.clone(), connection.clone());
        }
        self.claims.insert(connection.clone(), claim);
    }

    /// Takes a pair of each group, or none at all.
    fn choose(&mut self, had: Option<&[Pair]>, asked: &Asked) -> Result<Vec<Pair>, Exhausted> {
        let mut pairs = Vec::with_capacity(self.groups.len());
        let mut taken = Vec::new();
        for index in 0..self.groups.len() {
            let stays = had.and_then(|had| had.get(index)).filter(|pair| {
                !asked.excluded.contains(pair.src) && !asked.excluded.contains(pair.dst)
            });
            if let Some(pair) = stays {
                pairs.push(*pair);
                continue;
            }
            let Some(pair) = self.find(&self.groups[index], asked) else {
                self.free(&taken);
                return Err(Exhausted {
                    prefixes: self.groups[index].clone(),
                    excluded: !asked.excluded.is_empty(),
                });
            };
            self.free.remove(pair.src);
            self.free.remove(pair.dst);
            taken.push(pair);
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// A free pair of a group: what the request brings, else the lowest.
    fn find(&self, group: &[IpNet], asked: &Asked) -> Option<Pair> {
        let returned = group.iter().find_map(|prefix| {
            let src = self.brought(prefix, &asked.src, asked)?;
            let mut except = asked.excluded.clone();
            except.insert(src);
            let brought = self
                .brought(prefix, &asked.dst, asked)
                .filter(|dst| *dst != src);
            let dst = brought.or_else(|| self.free.lowest(prefix, &except))?;
            Some(Pair { dst, src })
        });
        returned.or_else(|| {
            group.iter().find_map(|prefix| {
                let dst = self.free.lowest(prefix, &asked.excluded)?;
                let mut except = asked.excluded.clone();
                except.insert(dst);
                let src = self.free.lowest(prefix, &except)?;
                Some(Pair { dst, src })
            })
        })
    }

    /// The first of some addresses that this prefix can give.
    fn brought(&self, prefix: &IpNet, addresses: &[IpAddr], asked: &Asked) -> Option<IpAddr> {
        let given = |address: &&IpAddr| {
            prefix.contains(*address)
                && self.free.contains(**address)
                && !asked.excluded.contains(**address)
        };
        addresses.iter().find(given).copied()
    }

    /// Ends a request that succeeded: what the connection had otherwise is free.
    pub(super) fn keep(&mut self, grant: Grant) {
        if let Some(owner) = &grant.moved_from {
            self.moved.remove(owner);
        }
        let claim = self.claims.get_mut(&grant.connection);
        if let Some(claim) = claim.filter(|claim| claim.ticket == grant.ticket) {
            let former = std::mem::take(&mut claim.former);
            self.free(&former);
        }
    }

    /// Ends a request that failed: what it took is free, and what there was before is again.
    pub(super) fn give_back(&mut self, grant: Grant) {
        let owner_before = grant.moved_from.as_ref().and_then(|owner| {
            let ticket = self.moved.remove(owner)?;
            Some((owner.clone(), ticket))
        });
        let has = self.claims.get(&grant.connection);
        if has.is_none_or(|claim| claim.ticket != grant.ticket) {
            // It was taken over meanwhile. A connection that never stood gets nothing back.
            let stood = grant.had.is_some() && grant.moved_from.is_none();
            if !stood && self.moved.get(&grant.connection) == Some(&grant.ticket) {
                self.moved.remove(&grant.connection);
            }
            return;
        }
        let Some(claim) = self.remove(&grant.connection) else {
            return;
        };
        let had = grant.had.unwrap_or_default();
        let fresh: Vec<Pair> = claim
            .pairs
            .into_iter()
            .filter(|pair| !had.contains(pair))
            .collect();
        self.free(&fresh);
        let (owner, ticket) = match (grant.moved_from, owner_before) {
            (None, _) => (grant.connection, grant.ticket),
            (Some(_), Some(before)) => before,
            // The connection that had it has been closed meanwhile.
            (Some(_), None) => return self.free(&had),
        };
        if had.is_empty() {
            return;
        }
        if self.claims.contains_key(&owner) {
            return self.free(&had);
        }
        let former = Vec::new();
        self.set(
            &owner,
            Claim {
                client: claim.client,
                pairs: had,
                former,
                ticket,
            },
        );
    }

    /// Ends a connection. One that has nothing may be ended too.
    pub(super) fn release(&mut self, connection: &ConnectionId) {
        self.moved.remove(connection);
        if let Some(claim) = self.remove(connection) {
            self.free(&claim.pairs);
            self.free(&claim.former);
        }
    }

    fn remove(&mut self, connection: &ConnectionId) -> Option<Claim> {
        let claim = self.claims.remove(connection)?;
        if let Some(client) = &claim.client
            && self.clients.get(client) == Some(connection)
        {
            self.clients.remove(client);
        }
        Some(claim)
    }

    fn free(&mut self, pairs: &[Pair]) {
        for pair in pairs {
            self.free.insert(pair.src);
            self.free.insert(pair.dst);
        }
    }

    /// The claims as they stand, for tests: each connection with its pairs.
    #[cfg(test)]
    pub(super) fn standing(&self) -> impl Iterator<Item = (&ConnectionId, &[Pair], &[Pair])> {
        self.claims
            .iter()
            .map(|(id, claim)| (id, claim.pairs.as_slice(), claim.former.as_slice()))
    }

    /// What nobody has, for tests.
    #[cfg(test)]
    pub(super) fn unclaimed(&self) -> &Ranges {
        &self.free
    }
}

fn outside(excluded: &bool) -> &'static str {
    if *excluded {
        " outside of the prefixes that the request excludes"
    } else {
        ""
    }
}

fn list(prefixes: &[IpNet]) -> String {
    let list: Vec<String> = prefixes.iter().map(IpNet::to_string).collect();
    list.join(" and ")
}
