//! A policy as it is written in a file.

use std::collections::BTreeMap;

use nsm_api::connectioncontext::{PolicyRoute, Route};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Location, Spanned};

use super::list::Labels;

/// What a policy file looks like, for those whose file does not.
pub(super) const SHAPE: &str = ": the file is a list of policies with the keys from, proto, dstport, \
                                srcport, routes and labels; routes is a list of routes with the \
                                keys prefix and nexthop, labels a map of text";

/// A value with its place, `None` where the key stands without one.
type Value<T> = Spanned<Option<T>>;

/// Something that has no value: where, and what it is.
pub(super) type Missing = (Location, String);

/// A policy as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Item {
    #[serde(default, deserialize_with = "present")]
    from: Option<Value<String>>,
    #[serde(default, deserialize_with = "present")]
    proto: Option<Value<String>>,
    #[serde(default, deserialize_with = "present")]
    dstport: Option<Value<String>>,
    #[serde(default, deserialize_with = "present")]
    srcport: Option<Value<String>>,
    #[serde(default, deserialize_with = "present")]
    routes: Option<Value<Vec<Value<ItemRoute>>>>,
    #[serde(default, deserialize_with = "present")]
    labels: Option<Value<BTreeMap<String, Value<String>>>>,
}

/// A route as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemRoute {
    prefix: Value<String>,
    #[serde(default, deserialize_with = "present")]
    nexthop: Option<Value<String>>,
}

/// Tells a key without a value from a key that is not there.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

impl Item {
    /// The policy, as it is written.
    pub(super) fn policy(&self) -> Result<PolicyRoute, Missing> {
        let routes = match &self.routes {
            Some(routes) => value(routes, "routes")?.as_slice(),
            None => &[],
        };
        Ok(PolicyRoute {
            from: text(&self.from, "from")?,
            proto: text(&self.proto, "proto")?,
            dst_port: text(&self.dstport, "dstport")?,
            src_port: text(&self.srcport, "srcport")?,
            routes: routes
                .iter()
                .map(|route| value(route, "the route")?.read())
                .collect::<Result<_, _>>()?,
        })
    }

    /// Which connections it is for.
    pub(super) fn labels(&self) -> Result<Labels, Missing> {
        let Some(labels) = &self.labels else {
            return Ok(Labels::new());
        };
        let labels = value(labels, "labels")?.iter();
        let pairs = labels.map(|(key, text)| {
            let text = value(text, &format!("label {key:?}"))?;
            Ok((key.clone(), text.clone()))
        });
        pairs.collect()
    }

    /// Where a field stands that is named as errors name it: `dstport`, `routes[0].nexthop`.
    pub(super) fn place(&self, field: &str) -> Option<Location> {
        let scalar = match field {
            "from" => &self.from,
            "proto" => &self.proto,
            "dstport" => &self.dstport,
            "srcport" => &self.srcport,
            _ => &None,
        };
        if let Some(scalar) = scalar {
            return Some(scalar.referenced);
        }
        let routes = self.routes.as_ref()?;
        let Some((index, name)) = field
            .strip_prefix("routes[")
            .and_then(|rest| rest.split_once("]."))
        else {
            return (field == "routes").then_some(routes.referenced);
        };
        let route = routes.value.as_ref()?.get(index.parse::<usize>().ok()?)?;
        let read = route.value.as_ref()?;
        match name {
            "prefix" => Some(read.prefix.referenced),
            "nexthop" => read.nexthop.as_ref().map(|nexthop| nexthop.referenced),
            _ => None,
        }
        .or(Some(route.referenced))
    }
}

impl ItemRoute {
    fn read(&self) -> Result<Route, Missing> {
        Ok(Route {
            prefix: value(&self.prefix, "prefix")?.clone(),
            next_hop: text(&self.nexthop, "nexthop")?,
        })
    }
}

fn text(scalar: &Option<Value<String>>, name: &str) -> Result<String, Missing> {
    match scalar {
        Some(scalar) => value(scalar, name).cloned(),
        None => Ok(String::new()),
    }
}

fn value<'a, T>(value: &'a Value<T>, name: &str) -> Result<&'a T, Missing> {
    let missing = || (value.referenced, name.to_owned());
    value.value.as_ref().ok_or_else(missing)
}
