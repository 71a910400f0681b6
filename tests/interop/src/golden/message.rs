//! The messages of the mesh, whichever it is.

use nsm_api::connection::{Connection, ConnectionEvent, Mechanism, MonitorScopeSelector};
use nsm_api::mechanism::NETNS_URL;
use nsm_api::networkservice::NetworkServiceRequest;
use prost::{DecodeError, Message as _};
use serde::Deserialize;

/// Which messages there are. A recording that has others is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Kind {
    /// `networkservice.NetworkServiceRequest`
    #[serde(rename = "networkservice.NetworkServiceRequest")]
    Request,
    /// `connection.Connection`
    #[serde(rename = "connection.Connection")]
    Connection,
    /// `connection.MonitorScopeSelector`
    #[serde(rename = "connection.MonitorScopeSelector")]
    Selector,
    /// `connection.ConnectionEvent`
    #[serde(rename = "connection.ConnectionEvent")]
    Event,
    /// `google.protobuf.Empty`
    #[serde(rename = "google.protobuf.Empty")]
    Empty,
}

/// A message that was recorded, as our types have it.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// What a request asks for.
    Request(NetworkServiceRequest),
    /// The answer to a request, or what is closed.
    Connection(Connection),
    /// Who watches what.
    Selector(MonitorScopeSelector),
    /// What becomes of connections.
    Event(ConnectionEvent),
    /// The answer to a close.
    Empty,
}

impl Message {
    /// Reads a message of that kind.
    ///
    /// # Errors
    /// When the bytes are no such message.
    pub fn decode(kind: Kind, bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(match kind {
            Kind::Request => Self::Request(NetworkServiceRequest::decode(bytes)?),
            Kind::Connection => Self::Connection(Connection::decode(bytes)?),
            Kind::Selector => Self::Selector(MonitorScopeSelector::decode(bytes)?),
            Kind::Event => Self::Event(ConnectionEvent::decode(bytes)?),
            Kind::Empty => {
                <()>::decode(bytes)?;
                Self::Empty
            }
        })
    }

    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Request(request) => request.encode_to_vec(),
            Self::Connection(connection) => connection.encode_to_vec(),
            Self::Selector(selector) => selector.encode_to_vec(),
            Self::Event(event) => event.encode_to_vec(),
            Self::Empty => Vec::new(),
        }
    }

    /// The same without what is another one every time: the names of network namespaces.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        match &mut self {
            Self::Request(request) => {
                request.mechanism_preferences.iter_mut().for_each(mask);
                request.connection.iter_mut().for_each(mask_connection);
            }
            Self::Connection(connection) => mask_connection(connection),
            Self::Event(event) => event.connections.values_mut().for_each(mask_connection),
            Self::Selector(_) | Self::Empty => {}
        }
        self
    }
}

fn mask_connection(connection: &mut Connection) {
    connection.mechanism.iter_mut().for_each(mask);
}

/// Keeps the scheme.
fn mask(mechanism: &mut Mechanism) {
    if let Some(url) = mechanism.parameters.get_mut(NETNS_URL)
        && let Some((scheme, _)) = url.split_once("://")
    {
        *url = format!("{scheme}://");
    }
}
