//! Who has which addresses. Pure: no clock, no chain, no locks.

use std::collections::HashMap;

use nsm_api::ConnectionId;

use super::pool::{Asked, Exhausted, Pair, Pool};
use super::prefixes::CidrGroups;

/// The client at the other end of a path, by its name and its own id for the connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) id: String,
}

/// The claims of all connections.
#[derive(Debug)]
pub(super) struct Claims {
    pool: Pool,
    claims: HashMap<ConnectionId, Claim>,
    /// The connection that each client came by last.
    clients: HashMap<Client, ConnectionId>,
    /// Claims that a request not yet done has taken over, by the connection that had them.
    moved: HashMap<ConnectionId, Moved>,
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
    standing: Standing,
}

/// How a connection came to its claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Standing {
    /// The last request.
    ticket: Ticket,
    /// The connection from which the claim was taken over, for it seemed to be lost.
    origin: Option<ConnectionId>,
    /// The connection that had taken it over, while this one was not lost.
    rival: Option<ConnectionId>,
}

/// A claim that was taken over, to be had again if the request fails that took it.
///
/// The taker's claim stands as long as this does, and has what the two have in common.
#[derive(Debug)]
struct Moved {
    claim: Claim,
    to: ConnectionId,
    by: Ticket,
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
        Self {
            pool: Pool::new(groups),
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

    /// Gives a connection its pairs, one of each group.
    ///
    /// A client whose connection comes by another id than before takes its claim along: a hop
    /// between has lost its memory, and nobody will ask by the former id again. If somebody does,
    /// there are two clients of one name: the first has its claim again, the second gets another
    /// with its next request.
    pub(super) fn claim(
        &mut self,
        connection: ConnectionId,
        client: Option<Client>,
        asked: &Asked,
    ) -> Result<Grant, Exhausted> {
        let owner = self.owner(&connection, client.as_ref());
        let before = owner.as_ref().and_then(|owner| self.claims.get(owner));
        let had = before.map(|claim| claim.pairs.clone());
        let pairs = self.pool.take(had.as_deref(), asked)?;

        self.tickets += 1;
        let ticket = self.tickets;
        let mut claim = Claim {
            client,
            pairs: pairs.clone(),
            former: Vec::new(),
            standing: Standing {
                ticket,
                ..Standing::default()
            },
        };
        let mut moved_from = None;
        if let Some(owner) = owner {
            self.settle(&owner);
            if let Some(before) = self.remove(&owner) {
                claim.client = claim.client.or(before.client.clone());
                if owner == connection {
                    self.pool.give(&before.former);
                    claim.former = without(&before.pairs, &pairs);
                    claim.standing = Standing {
                        ticket,
                        ..before.standing
                    };
                } else {
                    if before.standing.origin.as_ref() == Some(&connection) {
                        claim.standing.rival = Some(owner.clone());
                    } else {
                        claim.standing.origin = Some(owner.clone());
                    }
                    let moved = Moved {
                        claim: before,
                        to: connection.clone(),
                        by: ticket,
                    };
                    self.forget_moved(&owner);
                    self.moved.insert(owner.clone(), moved);
                    moved_from = Some(owner);
                }
            }
        }
        self.insert(connection.clone(), claim);
        Ok(Grant {
            pairs,
            connection,
            ticket,
            had,
            moved_from,
        })
    }

    /// The connection whose claim this one goes on with: its own, or that of its client.
    fn owner(&self, connection: &ConnectionId, client: Option<&Client>) -> Option<ConnectionId> {
        if self.claims.contains_key(connection) {
            return Some(connection.clone());
        }
        let owner = self.clients.get(client?)?;
        let rival = &self.claims.get(owner)?.standing.rival;
        (rival.as_ref() != Some(connection)).then(|| owner.clone())
    }

    /// Ends a request that succeeded: what the connection had otherwise is free.
    pub(super) fn keep(&mut self, grant: Grant) {
        let claim = self.claims.get_mut(&grant.connection);
        if let Some(claim) = claim.filter(|claim| claim.standing.ticket == grant.ticket) {
            self.pool.give(&std::mem::take(&mut claim.former));
            self.settle(&grant.connection);
        }
    }

    /// Ends a request that failed: what it took is free, and what there was before is again.
    pub(super) fn give_back(&mut self, grant: Grant) {
        let claim = self.claims.get(&grant.connection);
        if claim.is_none_or(|claim| claim.standing.ticket != grant.ticket) {
            return self.give_back_moved(grant);
        }
        let lost = grant.moved_from.as_ref().filter(|owner| {
            let moved = self.moved.get(*owner);
            moved.is_some_and(|moved| moved.by == grant.ticket)
        });
        let lost = lost.and_then(|owner| self.moved.remove_entry(owner));
        let Some(claim) = self.remove(&grant.connection) else {
            return;
        };
        match (lost, grant.had) {
            (Some((owner, moved)), _) => {
                self.pool.give(&without(&claim.pairs, &moved.claim.pairs));
                if self.claims.contains_key(&owner) {
                    self.pool.give(&moved.claim.pairs);
                    self.pool.give(&moved.claim.former);
                } else {
                    self.insert(owner, moved.claim);
                }
            }
            (None, Some(had)) if grant.moved_from.is_none() => {
                self.pool.give(&without(&claim.pairs, &had));
                let claim = Claim {
                    pairs: had,
                    former: Vec::new(),
                    ..claim
                };
                self.insert(grant.connection, claim);
            }
            // A first request, or the connection that had the claim has been closed meanwhile.
            (None, _) => self.pool.give(&claim.pairs),
        }
    }

    /// The same for a request whose claim has been taken over: the taker has what it took, and the
    /// rest is as it was before, in case the taker fails.
    fn give_back_moved(&mut self, grant: Grant) {
        let Some(moved) = self.moved.get_mut(&grant.connection) else {
            return;
        };
        if moved.claim.standing.ticket != grant.ticket {
            return;
        }
        match grant.had.filter(|_| grant.moved_from.is_none()) {
            Some(had) => {
                let fresh = without(&moved.claim.pairs, &had);
                moved.claim.pairs = had;
                moved.claim.former.clear();
                let taken = pairs_of(&self.claims, &moved.to);
                self.pool.give(&without(&fresh, taken));
            }
            // It never stood: the taker's claim is all that there is.
            None => self.forget_moved(&grant.connection),
        }
    }

    /// Ends a connection. One that has nothing may be ended too.
    pub(super) fn release(&mut self, connection: &ConnectionId) {
        self.forget_moved(connection);
        self.settle(connection);
        if let Some(claim) = self.remove(connection) {
            self.pool.give(&claim.pairs);
            self.pool.give(&claim.former);
        }
    }

    /// Makes a take-over final that a connection's last request has begun.
    fn settle(&mut self, taker: &ConnectionId) {
        let Some(claim) = self.claims.get(taker) else {
            return;
        };
        let Standing {
            ticket,
            origin,
            rival,
        } = claim.standing.clone();
        for owner in origin.into_iter().chain(rival) {
            if self
                .moved
                .get(&owner)
                .is_some_and(|moved| moved.by == ticket)
            {
                self.forget_moved(&owner);
            }
        }
    }

    /// Frees what is left of a claim that was taken over.
    fn forget_moved(&mut self, owner: &ConnectionId) {
        if let Some(moved) = self.moved.remove(owner) {
            let taken = pairs_of(&self.claims, &moved.to);
            self.pool.give(&without(&moved.claim.pairs, taken));
            self.pool.give(&moved.claim.former);
        }
    }

    fn insert(&mut self, connection: ConnectionId, claim: Claim) {
        if let Some(client) = &claim.client {
            self.clients.insert(client.clone(), connection.clone());
        }
        self.claims.insert(connection, claim);
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

    /// The claims as they stand: each connection with what it has and what is held for it.
    #[cfg(test)]
    pub(super) fn standing(&self) -> impl Iterator<Item = (&ConnectionId, Vec<Pair>)> {
        let claims = self.claims.iter().map(|(id, claim)| {
            let held = claim.pairs.iter().chain(&claim.former);
            (id, held.copied().collect())
        });
        let moved = self.moved.values().map(|moved| {
            let mut held = without(&moved.claim.pairs, pairs_of(&self.claims, &moved.to));
            held.extend(&moved.claim.former);
            (&moved.to, held)
        });
        claims.chain(moved)
    }

    /// What nobody has.
    #[cfg(test)]
    pub(super) fn unclaimed(&self) -> &super::ranges::Ranges {
        self.pool.free()
    }

    /// Whether nothing at all is remembered.
    #[cfg(test)]
    pub(super) fn is_forgotten(&self) -> bool {
        self.claims.is_empty() && self.clients.is_empty() && self.moved.is_empty()
    }
}

fn pairs_of<'a>(claims: &'a HashMap<ConnectionId, Claim>, connection: &ConnectionId) -> &'a [Pair] {
    claims.get(connection).map_or(&[], |claim| &claim.pairs)
}

/// Those of some pairs that are not among others.
fn without(pairs: &[Pair], others: &[Pair]) -> Vec<Pair> {
    let rest = pairs.iter().filter(|pair| !others.contains(pair));
    rest.copied().collect()
}
