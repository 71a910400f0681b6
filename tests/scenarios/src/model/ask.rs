//! What a client asks for.

use super::Pattern;
use serde::Deserialize;

/// What a client asks for and the endpoint answers with. All as text: what is wrong with it is for
/// the element to say.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// The connection's id.
    pub id: String,
    /// The name of the pod's link.
    pub interface: Option<String>,
    /// The addresses that NSM put on it.
    pub sources: Option<Vec<String>>,
    /// The policies of the connection.
    pub policies: Option<Vec<PolicyText>>,
    /// The element that is asked, where it is not the first.
    pub element: Option<String>,
    /// How the reference to the pod's namespace is broken, if it is.
    pub netns: Option<NetnsReference>,
    /// The call must fail with a message that matches.
    pub error: Option<Pattern>,
}

/// What a reference to a namespace is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetnsReference {
    /// It leads nowhere any more.
    Gone,
}

/// A policy as a request writes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
pub struct PolicyText {
    /// A source address or prefix.
    pub from: String,
    /// An IP protocol.
    pub proto: String,
    /// A destination port or range.
    pub dstport: String,
    /// A source port or range.
    pub srcport: String,
    /// The routes of that traffic.
    pub routes: Vec<PolicyRouteText>,
}

/// A route of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRouteText {
    /// The destination.
    pub prefix: String,
    /// The next hop; none is on-link.
    #[serde(default)]
    pub nexthop: String,
}
