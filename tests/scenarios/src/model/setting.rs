//! The settings of elements and the links of pods.

use super::words::{NumberRange, Parsed, Time};
use ipnet::IpNet;
use nsm_netlink::{Owner, TableRange};
use nsm_policyroute::{Band, Config};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::num::NonZeroU8;

/// The settings of an element. What is absent has the default of the forwarder's binary.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElementConfig {
    protocol: Option<NonZeroU8>,
    tables: Option<Parsed<TableRange>>,
    priorities: Option<NumberRange>,
    #[serde(default)]
    fail_closed: bool,
    #[serde(default)]
    strict: bool,
    grace: Option<Time>,
    max_policies: Option<usize>,
}

impl ElementConfig {
    /// As the middleware takes it.
    ///
    /// # Errors
    /// When the priorities are no band.
    pub fn to_config(&self) -> Result<Config, String> {
        const FORWARDER: NonZeroU8 = NonZeroU8::new(78).unwrap();
        let tables = match &self.tables {
            Some(tables) => tables.0,
            None => TableRange::new(20000, 24999).map_err(|error| error.to_string())?,
        };
        let owner = Owner {
            protocol: self.protocol.unwrap_or(FORWARDER),
            tables,
        };
        let mut config = Config::new(owner);
        if let Some(numbers) = self.priorities {
            config.priorities = Band::new(numbers.first)
                .filter(|band| band.top() == numbers.last)
                .ok_or_else(|| {
                    format!(
                        "priorities: {numbers} is no band: it has {} numbers between 1 and 32765",
                        Band::SIZE
                    )
                })?;
        }
        config.fail_closed = self.fail_closed;
        config.strict = self.strict;
        config.grace = self.grace.map_or(config.grace, |grace| grace.0);
        config.max_policies = self.max_policies.unwrap_or(config.max_policies);
        Ok(config)
    }
}

/// The links of a pod, in order, each with its addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links(pub Vec<(String, Vec<IpNet>)>);

impl Links {
    /// The addresses of the link at a position, counted from 1, where the file gives none.
    fn default_addresses(position: usize) -> Vec<IpNet> {
        [
            format!("172.16.{position}.1/24"),
            format!("fd00:{position}::1/64"),
        ]
        .iter()
        .filter_map(|address| address.parse().ok())
        .collect()
    }
}

impl<'de> Deserialize<'de> for Links {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LinksVisitor;

        impl<'de> Visitor<'de> for LinksVisitor {
            type Value = Links;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of names of links, or a map from name to addresses")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Links, A::Error> {
                let mut links = Vec::new();
                while let Some(name) = names.next_element()? {
                    links.push((name, Links::default_addresses(links.len() + 1)));
                }
                checked(links)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Links, A::Error> {
                let mut links = Vec::new();
                while let Some(link) = map.next_entry()? {
                    links.push(link);
                }
                checked(links)
            }
        }

        fn checked<E: de::Error>(links: Vec<(String, Vec<IpNet>)>) -> Result<Links, E> {
            // IFNAMSIZ counts the zero behind the name.
            match links
                .iter()
                .find(|(name, _)| name.is_empty() || name.len() > 15)
            {
                Some((name, _)) => Err(E::custom(format!("{name:?} is no name of a link"))),
                None => Ok(Links(links)),
            }
        }

        deserializer.deserialize_any(LinksVisitor)
    }
}

/// A pod beside the first.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPod {
    /// What `in:` calls it.
    pub name: String,
    /// Its links.
    #[serde(default)]
    pub links: Links,
}

/// An element beside the first.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewElement {
    /// What requests call it.
    pub name: String,
    /// Its settings.
    #[serde(default)]
    pub config: ElementConfig,
}
