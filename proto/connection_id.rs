//! A connection's name at one hop.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use uuid::Uuid;

use crate::connection::Connection;

/// The name that one hop gives a connection. Never empty, otherwise any text: a peer chooses its
/// own form. Cheap to clone.
///
/// Every hop has its own id for the same connection; [`Connection::id`] is the one of the hop
/// that handles the message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(Arc<str>);

/// A connection id is empty, so it names no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the connection id is empty")]
pub struct EmptyConnectionId;

impl ConnectionId {
    /// A new id: a random UUID (version 4), as the mesh's own components use.
    pub fn random() -> Self {
        Self(Uuid::new_v4().to_string().into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Connection {
    /// The connection's id, checked.
    ///
    /// # Errors
    ///
    /// [`EmptyConnectionId`] if the message carries none.
    pub fn connection_id(&self) -> Result<ConnectionId, EmptyConnectionId> {
        self.id.as_str().try_into()
    }
}

impl TryFrom<&str> for ConnectionId {
    type Error = EmptyConnectionId;

    fn try_from(id: &str) -> Result<Self, Self::Error> {
        if id.is_empty() {
            return Err(EmptyConnectionId);
        }
        Ok(Self(id.into()))
    }
}

impl TryFrom<String> for ConnectionId {
    type Error = EmptyConnectionId;

    fn try_from(id: String) -> Result<Self, Self::Error> {
        id.as_str().try_into()
    }
}

impl From<ConnectionId> for String {
    fn from(id: ConnectionId) -> Self {
        id.as_str().to_owned()
    }
}

impl AsRef<str> for ConnectionId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

/// Finds an entry in a map that is keyed by id, from the text of a message.
impl Borrow<str> for ConnectionId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    #[test]
    fn an_id_is_any_text_but_the_empty_one() {
        for text in ["nsc-1", "0b6ef6a5-8a2c-4a3b-9d61-1f5d3c1d8a11", " ", "ö/.."] {
            let id = ConnectionId::try_from(text).unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(String::from(id), text);
        }
        assert_eq!(ConnectionId::try_from(""), Err(EmptyConnectionId));
        assert_eq!(
            ConnectionId::try_from(String::new()),
            Err(EmptyConnectionId)
        );
        assert_eq!(
            Connection::default().connection_id(),
            Err(EmptyConnectionId)
        );
    }

    #[test]
    fn a_connection_has_the_id_that_it_carries() {
        let connection = Connection {
            id: "nsc-1".to_owned(),
            ..Connection::default()
        };
        assert_eq!(connection.connection_id().unwrap().as_ref(), "nsc-1");
    }

    #[test]
    fn maps_that_are_keyed_by_id_are_searched_by_text() {
        let id = ConnectionId::try_from("nsc-1").unwrap();
        assert_eq!(HashMap::from([(id.clone(), 1)]).get("nsc-1"), Some(&1));
        assert_eq!(BTreeMap::from([(id, 1)]).get("nsc-1"), Some(&1));
    }

    #[test]
    fn random_ids_differ() {
        assert_ne!(ConnectionId::random(), ConnectionId::random());
    }
}
