//! What one piece of an element's work is about.

use crate::claims::{Claim, Claims};
use crate::wants::Want;
use ipnet::IpNet;
use nsm_netlink::Selector;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The claims as they are to be, and what has just ended.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// The claims before.
    pub former: Claims,
    /// The claims after.
    pub claims: Claims,
    /// The connection whose request it is.
    pub own: Option<&'static str>,
    /// The link of the connection that asks or ends.
    pub interface: Option<&'static str>,
    /// Whether it is a request.
    pub is_request: bool,
    /// Selectors that this connection has given up and nobody else wants.
    pub given_up: BTreeSet<Selector>,
    /// Selectors that the request names, its answer does not, and nobody wants.
    pub unanswered: BTreeSet<Selector>,
    /// What of each selector this connection had, or asked for.
    pub ended: BTreeMap<Selector, BTreeSet<(IpNet, Option<IpAddr>)>>,
}

impl Turn {
    /// Nobody has asked for anything: a timer.
    pub fn timer(claims: &Claims) -> Self {
        Self {
            former: claims.clone(),
            claims: claims.clone(),
            ..Self::default()
        }
    }

    /// A connection is to have what `claim` says, and the request itself still said `asked`.
    pub fn request(claims: &Claims, claim: Claim, asked: &[Want]) -> Self {
        let mut turn = Self::timer(claims);
        let former = claims.of(claim.connection).cloned();
        turn.own = (!claim.wants.is_empty()).then_some(claim.connection);
        turn.interface = Some(claim.interface);
        turn.is_request = true;
        turn.claims.set(claim);
        turn.end(former.as_ref());
        turn.note_ended(asked);
        turn.unanswered = turn.unwanted(asked);
        turn
    }

    /// A connection that has a claim ends.
    pub fn close(claims: &Claims, connection: &str) -> Self {
        let mut turn = Self::timer(claims);
        let former = turn.claims.end(connection);
        turn.interface = former.as_ref().map(|former| former.interface);
        turn.end(former.as_ref());
        turn
    }

    fn end(&mut self, former: Option<&Claim>) {
        if let Some(former) = former {
            self.given_up = self.unwanted(&former.wants);
            self.note_ended(&former.wants);
        }
    }

    /// The selectors of these that nobody wants.
    pub fn unwanted(&self, wants: &[Want]) -> BTreeSet<Selector> {
        let selectors = wants.iter().map(|want| &want.selector);
        selectors
            .filter(|selector| !self.claims.has(selector))
            .cloned()
            .collect()
    }

    fn note_ended(&mut self, wants: &[Want]) {
        for want in wants {
            let routes = want.routes.iter().map(|(prefix, via)| (*prefix, *via));
            self.ended
                .entry(want.selector.clone())
                .or_default()
                .extend(routes);
        }
    }

    /// Whether a route of a policy's table has just ended.
    pub fn has_ended(&self, selector: &Selector, way: (IpNet, Option<IpAddr>)) -> bool {
        self.ended
            .get(selector)
            .is_some_and(|ways| ways.contains(&way))
    }

    /// The selectors that are wanted before and after, with the prefixes that are.
    pub fn lasting(&self) -> Vec<(&Selector, IpNet)> {
        let selectors = self.claims.selectors().into_iter();
        selectors
            .flat_map(|selector| {
                let former = self.former.prefixes(selector);
                let both = self.claims.prefixes(selector).into_iter();
                both.filter(move |prefix| former.contains(prefix))
                    .map(move |it| (selector, it))
            })
            .collect()
    }
}
