//! What must stand.

use super::{Lookup, NamedSelector, NumberRange, Pattern, RouteText};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use std::fmt;

/// What must stand when the step is reached.
#[derive(Debug, Deserialize)]
#[serde(try_from = "ExpectationFields")]
pub struct Expectation {
    /// How many rules are ours.
    pub rules: Option<usize>,
    /// For each: one rule of ours has that selector.
    pub policies: Vec<ExpectedPolicy>,
    /// What a table holds and does not hold.
    pub table: Option<ExpectedTable>,
    /// Everything is as in that snapshot.
    pub same_as: Option<String>,
    /// Everything that is not ours is as in that snapshot.
    pub foreign_same_as: Option<String>,
    /// Rules of ours that stood in a snapshot stand unmoved.
    pub kept: Option<Kept>,
    /// The order in which rules of ours are evaluated.
    pub order: Vec<NamedSelector>,
    /// What the kernel answers.
    pub lookup: Vec<Lookup>,
    /// A warning of the element matches.
    pub reported: Option<Pattern>,
    /// Nothing of ours is left.
    pub no_own: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectationFields {
    rules: Option<usize>,
    policies: Option<Vec<ExpectedPolicy>>,
    table: Option<ExpectedTable>,
    same_as: Option<String>,
    foreign_same_as: Option<String>,
    kept: Option<Kept>,
    order: Option<Vec<NamedSelector>>,
    lookup: Option<Vec<Lookup>>,
    reported: Option<Pattern>,
    no_own: Option<bool>,
}

impl TryFrom<ExpectationFields> for Expectation {
    type Error = &'static str;

    fn try_from(fields: ExpectationFields) -> Result<Self, Self::Error> {
        // Expectations that would always hold are slips of the pen.
        if fields.no_own == Some(false) {
            return Err("`no_own` is true or absent");
        }
        if fields.order.as_ref().is_some_and(|order| order.len() < 2) {
            return Err("an order has two selectors or more");
        }
        let expectation = Self {
            rules: fields.rules,
            policies: fields.policies.unwrap_or_default(),
            table: fields.table,
            same_as: fields.same_as,
            foreign_same_as: fields.foreign_same_as,
            kept: fields.kept,
            order: fields.order.unwrap_or_default(),
            lookup: fields.lookup.unwrap_or_default(),
            reported: fields.reported,
            no_own: fields.no_own.unwrap_or(false),
        };
        if expectation.is_empty() {
            return Err("an expectation that expects nothing");
        }
        Ok(expectation)
    }
}

impl Expectation {
    fn is_empty(&self) -> bool {
        self.rules.is_none()
            && self.policies.is_empty()
            && self.table.is_none()
            && self.same_as.is_none()
            && self.foreign_same_as.is_none()
            && self.kept.is_none()
            && self.order.is_empty()
            && self.lookup.is_empty()
            && self.reported.is_none()
            && !self.no_own
    }

    /// The snapshots that are named.
    pub fn snapshots(&self) -> impl Iterator<Item = &str> {
        let kept = self.kept.as_ref().map(|kept| &kept.snapshot);
        [&self.same_as, &self.foreign_same_as]
            .into_iter()
            .flatten()
            .chain(kept)
            .map(String::as_str)
    }
}

/// A policy that must stand.
#[derive(Debug, Deserialize)]
#[serde(try_from = "PolicyFields")]
pub struct ExpectedPolicy {
    /// Which.
    pub selector: NamedSelector,
    /// The routes of ours in its table, exactly; `None` does not look at them.
    pub routes: Option<Vec<RouteText>>,
    /// Its table.
    pub table: Option<u32>,
    /// The priority of its rule.
    pub priority: Option<NumberRange>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFields {
    #[serde(default)]
    from: String,
    #[serde(default)]
    proto: String,
    #[serde(default)]
    dstport: String,
    #[serde(default)]
    srcport: String,
    routes: Option<Vec<RouteText>>,
    table: Option<u32>,
    priority: Option<NumberRange>,
}

impl TryFrom<PolicyFields> for ExpectedPolicy {
    type Error = String;

    fn try_from(fields: PolicyFields) -> Result<Self, String> {
        let mut selector = NamedSelector::read(
            &fields.from,
            &fields.proto,
            &fields.dstport,
            &fields.srcport,
        )?;
        let routes = fields.routes.iter().flatten();
        selector.family = selector
            .family
            .or(routes.flat_map(RouteText::family).next());
        let routes = fields.routes.iter().flatten();
        if let Some(family) = selector.family
            && routes
                .flat_map(RouteText::family)
                .any(|other| other != family)
        {
            return Err(format!(
                "a policy of {family} with a route of the other family"
            ));
        }
        Ok(Self {
            selector,
            routes: fields.routes,
            table: fields.table,
            priority: fields.priority,
        })
    }
}

/// A table, whoever its routes belong to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedTable {
    /// Its number.
    pub id: u32,
    /// Routes that it must hold.
    #[serde(default)]
    pub has: Vec<RouteText>,
    /// Routes that it must not hold.
    #[serde(default)]
    pub lacks: Vec<RouteText>,
}

/// Rules that must stand as they stood.
#[derive(Debug, PartialEq, Eq)]
pub struct Kept {
    /// The snapshot in which they stood.
    pub snapshot: String,
    /// Which rules; `None` is all of ours.
    pub only: Option<Vec<NamedSelector>>,
}

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct KeptFields {
            r#in: String,
            only: Vec<NamedSelector>,
        }

        struct KeptVisitor;

        impl<'de> Visitor<'de> for KeptVisitor {
            type Value = Kept;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a snapshot, or { in: NAME, only: [ SELECTOR, ... ] }")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Kept, E> {
                Ok(Kept {
                    snapshot: name.to_owned(),
                    only: None,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Kept, A::Error> {
                let fields = KeptFields::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Kept {
                    snapshot: fields.r#in,
                    only: Some(fields.only),
                })
            }
        }

        deserializer.deserialize_any(KeptVisitor)
    }
}
