//! The policy file, as the mesh's endpoints read it.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use nsm_api::connectioncontext::{PolicyRoute, Route};
use nsm_policyroute::{PolicyError, canonical};
use serde::{Deserialize, Deserializer};
use serde_saphyr::options::MergeKeyPolicy;
use serde_saphyr::{Location, MessageFormatter, Spanned};
use thiserror::Error;

/// Policies that every forwarder can install, in the order of their file. Cheap to clone.
///
/// The file is a YAML list (`NSM_PBR_CONFIG_PATH`):
///
/// ```
/// use nsm_endpoint::PolicyList;
///
/// let text = "
/// - from: 172.16.2.201/24
///   proto: tcp
///   dstport: 6666
///   routes:
///   - prefix: 172.16.3.0/24
///     nexthop: 172.16.2.200
/// - { proto: 17, dstport: 6667-6670 }
/// ";
/// let list = PolicyList::parse("config.yaml", text)?;
/// assert_eq!(list.policies()[0].proto, "6");
///
/// let wrong = PolicyList::parse("config.yaml", "- { proto: 17, dstPort: 80 }").unwrap_err();
/// assert!(wrong.to_string().starts_with("config.yaml:1:16: unknown field `dstPort`"));
/// # Ok::<(), nsm_endpoint::PolicyFileError>(())
/// ```
///
/// Values are text or numbers, protocols names or numbers. An empty file has no policies. A key
/// that there is not, an item or a value that is missing, and a value that no forwarder can
/// install are errors: a policy with less in it than was meant takes more traffic than was meant.
/// Policies that are equal are one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyList(Arc<[PolicyRoute]>);

/// A policy file that cannot be used. With its cause it reads `file:line:column: what is wrong`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PolicyFileError {
    /// The file cannot be read.
    #[error("cannot read {file}")]
    Unreadable {
        /// The file, as it was named.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The text is no list of policies.
    #[error("{file}:{place}: {message}")]
    Malformed {
        /// The file, as it was named.
        file: String,
        /// Where in the file.
        place: Place,
        /// What is wrong.
        message: String,
    },
    /// A policy makes no sense. The source names the policy, the field, and what is wrong.
    #[error("{file}:{place}")]
    Policy {
        /// The file, as it was named.
        file: String,
        /// Where in the file.
        place: Place,
        /// What is wrong.
        source: PolicyError,
    },
}

/// A position in a file: line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

impl PolicyList {
    /// Reads a file. `None` where there is no such file.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse), or when the file cannot be read.
    pub fn read(path: &Path) -> Result<Option<Self>, PolicyFileError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(PolicyFileError::Unreadable { file, source }),
        }
    }

    /// Reads the text of `file`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with its place.
    pub fn parse(file: &str, text: &str) -> Result<Self, PolicyFileError> {
        let malformed = |place, message: String| PolicyFileError::Malformed {
            file: file.to_owned(),
            place,
            message: message.replace('\n', " "),
        };
        let options = serde_saphyr::options! {
            merge_keys: MergeKeyPolicy::Error,
            strict_booleans: true,
            with_snippet: false,
        };
        let items: Option<Vec<Spanned<Option<Item>>>> =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| {
                let place = error
                    .location()
                    .map_or(Place { line: 1, column: 1 }, Place::from);
                let message = serde_saphyr::UserMessageFormatter.format_message(&error);
                // What the parser says of a value of the wrong kind names no key.
                let shape = match error {
                    serde_saphyr::Error::Unexpected { .. } => SHAPE,
                    _ => "",
                };
                malformed(place, format!("{message}{shape}"))
            })?;
        let items = items.unwrap_or_default();

        let mut policies = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let policy = match &item.value {
                Some(policy) => policy.read(),
                None => Err((item.referenced, "the item")),
            };
            policies.push(policy.map_err(|(at, what)| {
                let message = format!("policy {index}: {what} has no value");
                malformed(at.into(), message)
            })?);
        }
        let mut policies = canonical(&policies).map_err(|source| {
            let item = &items[source.index];
            let field = item.value.as_ref().and_then(|it| it.place(&source.field));
            PolicyFileError::Policy {
                file: file.to_owned(),
                place: field.unwrap_or(item.referenced).into(),
                source,
            }
        })?;
        drop_repeated(&mut policies);
        Ok(Self(policies.into()))
    }

    /// The policies, as they go onto the wire.
    pub fn policies(&self) -> &[PolicyRoute] {
        &self.0
    }
}

fn drop_repeated(policies: &mut Vec<PolicyRoute>) {
    let mut seen: Vec<PolicyRoute> = Vec::with_capacity(policies.len());
    for policy in policies.drain(..) {
        if !seen.contains(&policy) {
            seen.push(policy);
        }
    }
    *policies = seen;
}

/// What a policy file looks like, for those whose file does not.
const SHAPE: &str = ": the file is a list of policies with the keys from, proto, dstport, srcport \
                     and routes, which is a list of routes with the keys prefix and nexthop";

/// A value with its place, `None` where the key stands without one.
type Value<T> = Spanned<Option<T>>;

/// Something that has no value: where, and what it is.
type Missing = (Location, &'static str);

/// A policy as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
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
    fn read(&self) -> Result<PolicyRoute, Missing> {
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

    /// Where a field stands that is named as errors name it: `dstport`, `routes[0].nexthop`.
    fn place(&self, field: &str) -> Option<Location> {
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

fn text(scalar: &Option<Value<String>>, name: &'static str) -> Result<String, Missing> {
    match scalar {
        Some(scalar) => value(scalar, name).cloned(),
        None => Ok(String::new()),
    }
}

fn value<'a, T>(value: &'a Value<T>, name: &'static str) -> Result<&'a T, Missing> {
    value.value.as_ref().ok_or((value.referenced, name))
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
