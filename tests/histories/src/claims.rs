//! Who wants what, and who holds it.

use crate::picture::Picture;
use crate::wants::{Routes, Want};
use ipnet::IpNet;
use nsm_netlink::Selector;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What one connection wants.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Whose it is.
    pub connection: &'static str,
    /// The link that it uses.
    pub interface: &'static str,
    /// In list order.
    pub wants: Vec<Want>,
}

impl Claim {
    fn routes(&self, selector: &Selector) -> Option<&Routes> {
        self.wants
            .iter()
            .find(|want| want.selector == *selector)
            .map(|want| &want.routes)
    }
}

/// The claims of an element, in the order in which they were made.
#[derive(Debug, Clone, Default)]
pub struct Claims(Vec<Claim>);

impl Claims {
    /// Makes a claim, or changes it where it stands. Who wants nothing has none.
    pub fn set(&mut self, claim: Claim) {
        let at = self
            .0
            .iter()
            .position(|other| other.connection == claim.connection);
        match at {
            Some(at) if claim.wants.is_empty() => drop(self.0.remove(at)),
            Some(at) => self.0[at] = claim,
            None if claim.wants.is_empty() => {}
            None => self.0.push(claim),
        }
    }

    /// Ends a claim.
    pub fn end(&mut self, connection: &str) -> Option<Claim> {
        let at = self
            .0
            .iter()
            .position(|claim| claim.connection == connection)?;
        Some(self.0.remove(at))
    }

    /// The claim of a connection.
    pub fn of(&self, connection: &str) -> Option<&Claim> {
        self.0.iter().find(|claim| claim.connection == connection)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.0.iter()
    }

    /// Whether nobody wants anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The selectors that somebody wants: by age of the claims, and in list order.
    pub fn selectors(&self) -> Vec<&Selector> {
        let mut selectors = Vec::new();
        for want in self.0.iter().flat_map(|claim| &claim.wants) {
            if !selectors.contains(&&want.selector) {
                selectors.push(&want.selector);
            }
        }
        selectors
    }

    /// Whether somebody wants a selector.
    pub fn has(&self, selector: &Selector) -> bool {
        self.claimants(selector).next().is_some()
    }

    /// Who wants a selector, oldest first, and by which routes.
    pub fn claimants(&self, selector: &Selector) -> impl Iterator<Item = (&Claim, &Routes)> {
        self.0
            .iter()
            .filter_map(move |claim| Some((claim, claim.routes(selector)?)))
    }

    /// The prefixes that somebody wants of a selector.
    pub fn prefixes(&self, selector: &Selector) -> BTreeSet<IpNet> {
        self.claimants(selector)
            .flat_map(|(_, routes)| routes.keys().copied())
            .collect()
    }

    /// Where each prefix of a selector leads: by the claim made last whose interface can be used.
    pub fn content(
        &self,
        selector: &Selector,
        picture: &Picture,
    ) -> BTreeMap<IpNet, (u32, Option<IpAddr>)> {
        let mut content = BTreeMap::new();
        for (claim, routes) in self.claimants(selector) {
            if let Some(dev) = picture.usable(claim.interface) {
                content.extend(routes.iter().map(|(prefix, via)| (*prefix, (dev, *via))));
            }
        }
        content
    }

    /// The interfaces of those who want a selector.
    pub fn devs(&self, selector: &Selector, picture: &Picture) -> BTreeSet<u32> {
        self.claimants(selector)
            .filter_map(|(claim, _)| picture.usable(claim.interface))
            .collect()
    }

    /// Whether two want one prefix differently.
    pub fn conflict(&self) -> bool {
        self.selectors().into_iter().any(|selector| {
            let mut ways: BTreeMap<IpNet, BTreeSet<(&str, Option<IpAddr>)>> = BTreeMap::new();
            for (claim, routes) in self.claimants(selector) {
                for (prefix, via) in routes {
                    ways.entry(*prefix)
                        .or_default()
                        .insert((claim.interface, *via));
                }
            }
            ways.values().any(|ways| ways.len() > 1)
        })
    }
}
