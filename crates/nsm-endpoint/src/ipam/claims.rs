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
    /// What connections lose whose claims are taken over, by a request that is not yet done.
    moved: HashMap<ConnectionId, Standing>,
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
        if let Some((owner, before)) = owner.and_then(|owner| self.remove(owner)) {
            self.pool.give(&before.former);
            claim.client = claim.client.or(before.client);
            let replaced = before.pairs.into_iter().filter(|it| !pairs.contains(it));
            claim.former = replaced.collect();
            if owner == connection {
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
                self.moved.insert(owner.clone(), before.standing);
                moved_from = Some(owner);
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
        if let Some(owner) = &grant.moved_from {
            self.moved.remove(owner);
        }
        if let Some(claim) = self.claims.get_mut(&grant.connection)
            && claim.standing.ticket == grant.ticket
        {
            self.pool.give(&std::mem::take(&mut claim.former));
        }
    }

    /// Ends a request that failed: what it took is free, and what there was before is again.
    pub(super) fn give_back(&mut self, grant: Grant) {
        let lost = grant
            .moved_from
            .as_ref()
            .and_then(|owner| self.moved.remove_entry(owner));
        let claim = self.claims.get(&grant.connection);
        if claim.is_none_or(|claim| claim.standing.ticket != grant.ticket) {
            // It was taken over meanwhile. A connection that never stood gets nothing back.
            let stood = grant.had.is_some() && grant.moved_from.is_none();
            let in_turn = self.moved.get(&grant.connection);
            if !stood && in_turn.is_some_and(|standing| standing.ticket == grant.ticket) {
                self.moved.remove(&grant.connection);
            }
            return;
        }
        let Some((connection, claim)) = self.remove(grant.connection) else {
            return;
        };
        let had = grant.had.unwrap_or_default();
        let fresh: Vec<Pair> = claim
            .pairs
            .into_iter()
            .filter(|pair| !had.contains(pair))
            .collect();
        self.pool.give(&fresh);
        let (owner, standing) = match (grant.moved_from, lost) {
            (None, _) => (connection, claim.standing),
            (Some(_), Some(lost)) => lost,
            // The connection that had it has been closed meanwhile.
            (Some(_), None) => return self.pool.give(&had),
        };
        if self.claims.contains_key(&owner) {
            return self.pool.give(&had);
        }
        if !had.is_empty() {
            let claim = Claim {
                client: claim.client,
                pairs: had,
                former: Vec::new(),
                standing,
            };
            self.insert(owner, claim);
        }
    }

    /// Ends a connection. One that has nothing may be ended too.
    pub(super) fn release(&mut self, connection: &ConnectionId) {
        self.moved.remove(connection);
        if let Some((_, claim)) = self.remove(connection.clone()) {
            self.pool.give(&claim.pairs);
            self.pool.give(&claim.former);
        }
    }

    fn insert(&mut self, connection: ConnectionId, claim: Claim) {
        if let Some(client) = &claim.client {
            self.clients.insert(client.clone(), connection.clone());
        }
        self.claims.insert(connection, claim);
    }

    fn remove(&mut self, connection: ConnectionId) -> Option<(ConnectionId, Claim)> {
        let (connection, claim) = self.claims.remove_entry(&connection)?;
        if let Some(client) = &claim.client
            && self.clients.get(client) == Some(&connection)
        {
            self.clients.remove(client);
        }
        Some((connection, claim))
    }

    /// The claims as they stand: each connection with its pairs and its former ones.
    #[cfg(test)]
    pub(super) fn standing(&self) -> impl Iterator<Item = (&ConnectionId, &[Pair], &[Pair])> {
        self.claims
            .iter()
            .map(|(id, claim)| (id, claim.pairs.as_slice(), claim.former.as_slice()))
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
