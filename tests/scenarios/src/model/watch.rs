//! What is observed while steps run.

use super::{Lookup, Step};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use std::fmt;

/// Steps under observation.
#[derive(Debug, Deserialize)]
#[serde(try_from = "WatchFields")]
pub struct Watch {
    /// What happens meanwhile.
    pub steps: Vec<Step>,
    /// How many notifications about objects of ours there are.
    pub events: Option<Events>,
    /// What the kernel answers at every moment.
    pub throughout: Vec<Lookup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchFields {
    steps: Vec<Step>,
    events: Option<Events>,
    #[serde(default)]
    throughout: Vec<Lookup>,
}

impl TryFrom<WatchFields> for Watch {
    type Error = &'static str;

    fn try_from(fields: WatchFields) -> Result<Self, Self::Error> {
        let WatchFields {
            steps,
            events,
            throughout,
        } = fields;
        if events.is_none() && throughout.is_empty() {
            return Err("a watch looks at `events` or at lookups `throughout`");
        }
        Ok(Self {
            steps,
            events,
            throughout,
        })
    }
}

/// How many notifications there must be; what is absent is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events {
    /// In sum.
    pub all: Option<usize>,
    /// About rules.
    pub rules: Option<usize>,
    /// About routes.
    pub routes: Option<usize>,
    /// That say that something was deleted.
    pub deleted: Option<usize>,
    /// IPv6 probes, which count for nothing else.
    pub probes: Option<usize>,
}

impl<'de> Deserialize<'de> for Events {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct EventsFields {
            rules: Option<usize>,
            routes: Option<usize>,
            deleted: Option<usize>,
            probes: Option<usize>,
        }

        struct EventsVisitor;

        impl<'de> Visitor<'de> for EventsVisitor {
            type Value = Events;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or { rules: N, routes: N, deleted: N, probes: N }")
            }

            fn visit_u64<E: de::Error>(self, all: u64) -> Result<Events, E> {
                let all = usize::try_from(all).map_err(E::custom)?;
                Ok(Events {
                    all: Some(all),
                    ..Events::default()
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Events, A::Error> {
                let fields = EventsFields::deserialize(MapAccessDeserializer::new(map))?;
                let EventsFields {
                    rules,
                    routes,
                    deleted,
                    probes,
                } = fields;
                Ok(Events {
                    all: None,
                    rules,
                    routes,
                    deleted,
                    probes,
                })
            }
        }

        deserializer.deserialize_any(EventsVisitor)
    }
}
