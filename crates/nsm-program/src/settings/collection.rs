//! Lists and maps.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Display};
use std::ops::Deref;
use std::str::FromStr;

use super::as_text;

/// Items that are separated by commas: `a,b,c`. The empty text is the empty list.
///
/// Blanks around an item do not belong to it. An empty item is refused: it is a comma too many,
/// or a variable that was not filled in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct List<T = String>(Vec<T>);

/// Why a text is no list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError<E: Error + 'static> {
    /// Nothing between two commas, before the first or behind the last one.
    #[error("item {place} of the list is empty")]
    Empty {
        /// The item, counted from 1.
        place: usize,
    },
    /// An item that cannot be read.
    #[error("item {place} of the list, {item:?}")]
    Item {
        /// The item, counted from 1.
        place: usize,
        /// The item.
        item: String,
        /// What is wrong with it.
        #[source]
        source: E,
    },
}

/// Pairs that are separated by commas, each a key and a value with a separator between them:
/// `k:v,k:v`, or with `Map<String, '='>` `k=v,k=v`. The empty text is the empty map.
///
/// The first separator ends the key, so that a value may have it too. Blanks around keys and values
/// do not belong to them. A value may be empty, a key may not, and no key may come twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Map<T = String, const SEPARATOR: char = ':'>(BTreeMap<String, T>);

/// Why a text is no map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError<E: Error + 'static> {
    /// Not a key, a separator and a value.
    #[error("{pair:?} is no key{separator}value")]
    Pair {
        /// The pair.
        pair: String,
        /// What lies between key and value.
        separator: char,
    },
    /// Two values for one key.
    #[error("the key {key:?} comes twice")]
    Repeated {
        /// The key.
        key: String,
    },
    /// A value that cannot be read.
    #[error("the value of {key:?}, {value:?}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        #[source]
        source: E,
    },
}

impl<T> List<T> {
    /// The items.
    pub fn into_inner(self) -> Vec<T> {
        self.0
    }
}

impl<T, const SEPARATOR: char> Map<T, SEPARATOR> {
    /// The pairs.
    pub fn into_inner(self) -> BTreeMap<String, T> {
        self.0
    }
}

impl<T: FromStr<Err: Error + 'static>> FromStr for List<T> {
    type Err = ListError<T::Err>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let item = |(index, item): (usize, &str)| {
            let place = index + 1;
            match item.trim() {
                "" => Err(ListError::Empty { place }),
                item => item.parse().map_err(|source| ListError::Item {
                    place,
                    item: item.to_owned(),
                    source,
                }),
            }
        };
        split(text)
            .enumerate()
            .map(item)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl<T: FromStr<Err: Error + 'static>, const SEPARATOR: char> FromStr for Map<T, SEPARATOR> {
    type Err = MapError<T::Err>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut map = BTreeMap::new();
        for pair in split(text) {
            let no_pair = || MapError::Pair {
                pair: pair.to_owned(),
                separator: SEPARATOR,
            };
            let (key, value) = pair.split_once(SEPARATOR).ok_or_else(no_pair)?;
            let (key, value) = (key.trim(), value.trim());
            if key.is_empty() {
                return Err(no_pair());
            }
            let read = value.parse().map_err(|source| MapError::Value {
                key: key.to_owned(),
                value: value.to_owned(),
                source,
            })?;
            if map.insert(key.to_owned(), read).is_some() {
                let key = key.to_owned();
                return Err(MapError::Repeated { key });
            }
        }
        Ok(Self(map))
    }
}

/// What lies between commas; nothing if there is nothing at all.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim();
    let parts = (!text.is_empty()).then(|| text.split(','));
    parts.into_iter().flatten()
}

impl<T: Display> Display for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.pad(&items.join(","))
    }
}

impl<T: Display, const SEPARATOR: char> Display for Map<T, SEPARATOR> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = |(key, value): (&String, &T)| format!("{key}{SEPARATOR}{value}");
        let pairs: Vec<_> = self.0.iter().map(pair).collect();
        f.pad(&pairs.join(","))
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const SEPARATOR: char> Default for Map<T, SEPARATOR> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const SEPARATOR: char> Deref for Map<T, SEPARATOR> {
    type Target = BTreeMap<String, T>;

    fn deref(&self) -> &BTreeMap<String, T> {
        &self.0
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

impl<T, const SEPARATOR: char> FromIterator<(String, T)> for Map<T, SEPARATOR> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

as_text!(List<T: Sized;>);
as_text!(Map<T: Sized; const SEPARATOR: char>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{DurationError, GoDuration};

    fn list(text: &str) -> Result<Vec<String>, String> {
        let list = text.parse::<List>().map_err(|error| error.to_string())?;
        Ok(list.into_inner())
    }

    fn map(text: &str) -> Result<Vec<(String, String)>, String> {
        let map = text.parse::<Map>().map_err(|error| error.to_string())?;
        Ok(map.into_inner().into_iter().collect())
    }

    #[test]
    fn a_list_is_what_lies_between_commas_and_has_no_empty_items() {
        assert_eq!(list(""), Ok(vec![]));
        assert_eq!(list(" "), Ok(vec![]));
        assert_eq!(list("a"), Ok(vec!["a".into()]));
        assert_eq!(
            list("a, b c ,d"),
            Ok(vec!["a".into(), "b c".into(), "d".into()])
        );
        assert_eq!(list(","), Err("item 1 of the list is empty".into()));
        assert_eq!(list("a,"), Err("item 2 of the list is empty".into()));
        assert_eq!(list("a,,b"), Err("item 2 of the list is empty".into()));
    }

    #[test]
    fn an_item_that_cannot_be_read_is_named() {
        let error = "1s,2d".parse::<List<GoDuration>>().unwrap_err();

        assert_eq!(error.to_string(), "item 2 of the list, \"2d\"");
        assert_eq!(
            error.source().unwrap().to_string(),
            "unknown unit \"d\" (ns, us, ms, s, m, h)"
        );
    }

    #[test]
    fn a_map_is_keys_and_values_and_no_key_comes_twice() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(map(""), Ok(vec![]));
        assert_eq!(map("p2p:true"), Ok(vec![pair("p2p", "true")]));
        assert_eq!(map("b : 2,a:1"), Ok(vec![pair("a", "1"), pair("b", "2")]));
        assert_eq!(map("a:b:c,d:"), Ok(vec![pair("a", "b:c"), pair("d", "")]));
        assert_eq!(map("a"), Err("\"a\" is no key:value".into()));
        assert_eq!(map(":a"), Err("\":a\" is no key:value".into()));
        assert_eq!(map("a:1,"), Err("\"\" is no key:value".into()));
        assert_eq!(map("a:1,a:2"), Err("the key \"a\" comes twice".into()));
    }

    #[test]
    fn a_map_may_have_another_separator() {
        let endpoints: Map<String, '='> = "svc=tcp://[::1]:5000".parse().unwrap();
        assert_eq!(endpoints["svc"], "tcp://[::1]:5000");
        assert_eq!(endpoints.to_string(), "svc=tcp://[::1]:5000");

        let error = "svc:a".parse::<Map<String, '='>>().unwrap_err();
        assert_eq!(error.to_string(), "\"svc:a\" is no key=value");
    }

    #[test]
    fn a_value_that_cannot_be_read_is_named() {
        let error = "a:1s,b:-1s".parse::<Map<GoDuration>>().unwrap_err();

        assert_eq!(error.to_string(), "the value of \"b\", \"-1s\"");
        let source = error.source().unwrap().downcast_ref();
        assert_eq!(source, Some(&DurationError::Negative));
    }

    #[test]
    fn what_is_shown_is_read_as_the_same_and_so_by_serde() {
        let list: List<GoDuration> = "1h,2m".parse().unwrap();
        assert_eq!(list.to_string().parse(), Ok(list.clone()));
        let map: Map = "b:2,a:1".parse().unwrap();
        assert_eq!(map.to_string(), "a:1,b:2");

        let json = serde_json::to_string(&(&list, &map)).unwrap();
        assert_eq!(json, r#"["1h0m0s,2m0s","a:1,b:2"]"#);
        assert_eq!(
            serde_json::from_str::<(List<GoDuration>, Map)>(&json).unwrap(),
            (list, map)
        );
    }
}
