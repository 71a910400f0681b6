//! A flow of the element, as data: what stands before, the one call under test, what is wanted
//! afterwards.

use nsm_api::connection::Connection;
use nsm_api::connectioncontext::PolicyRoute;
use nsm_chain::ErrorKind;
use policyroute_suite::Draft;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// One flow.
#[derive(Debug, Clone)]
pub struct Flow {
    /// What it is called in a report.
    pub name: &'static str,
    /// Whether the element runs with `fail_closed`.
    pub fail_closed: bool,
    /// What happens before the call, in pods in which others live already.
    pub before: Vec<Act>,
    /// The call under test.
    pub call: Call,
    /// How the call ends where nothing goes wrong but what the world does.
    pub fails: Option<ErrorKind>,
    /// What of ours stands after it: a line for each rule, without the number of its table. A
    /// line of the second pod begins with `elsewhere: `.
    pub after: &'static [&'static str],
}

/// Something that happens before the call under test, in the first pod where nothing else is said.
#[allow(clippy::large_enum_variant, reason = "there are few of them")]
#[derive(Debug, Clone)]
pub enum Act {
    /// An interface is added in every pod.
    Link(&'static str),
    /// An interface is deleted.
    Unlink(&'static str),
    /// An interface is deleted and another of its name is added.
    Relink(&'static str),
    /// IPv6 is switched off on an interface.
    ForbidIpv6(&'static str),
    /// The element is called.
    Call(Call),
    /// The process ends, and the next one knows nothing.
    Restart,
    /// Somebody deletes our rule of a source.
    LoseRule(&'static str),
    /// Somebody deletes our routes of a source.
    LoseRoutes(&'static str),
    /// Our rule of a source stands at a priority that is not its own.
    Misplace(&'static str),
    /// A second rule of a source stands, on a table with the same routes.
    Double(&'static str),
    /// The rule of the first source looks up the table of the second, and its own is empty.
    Share(&'static str, &'static str),
    /// Somebody else adds a leg by `eth0` to our IPv6 route of a source.
    ForeignLeg(&'static str, &'static str),
}

/// One call of the element.
#[allow(clippy::large_enum_variant, reason = "there are few of them")]
#[derive(Debug, Clone)]
pub enum Call {
    /// A connection is requested in a pod, and the rest of the chain answers with a connection.
    Request {
        /// Whose descriptor comes along.
        pod: usize,
        /// What the client asks for.
        asked: Draft,
        /// What the answer says.
        answered: Draft,
    },
    /// A connection is closed.
    Close {
        /// Whose descriptor comes along.
        pod: usize,
        /// The connection.
        connection: Draft,
    },
    /// Nobody calls, and the time passes that a left-over is let stand.
    Wait,
}

impl Call {
    /// A connection is requested and answered as it was asked for.
    pub fn request(connection: Draft) -> Self {
        Self::answered(connection.clone(), connection)
    }

    /// A connection is requested and answered otherwise.
    pub fn answered(asked: Draft, answered: Draft) -> Self {
        Self::Request {
            pod: 0,
            asked,
            answered,
        }
    }

    /// A connection is closed.
    pub fn close(connection: Draft) -> Self {
        Self::Close { pod: 0, connection }
    }

    /// The same call with the descriptor of another pod.
    #[must_use]
    pub fn in_pod(mut self, index: usize) -> Self {
        match &mut self {
            Self::Request { pod, .. } | Self::Close { pod, .. } => *pod = index,
            Self::Wait => {}
        }
        self
    }

    /// The connections that it names.
    pub fn connections(&self) -> Vec<&Draft> {
        match self {
            Self::Request {
                asked, answered, ..
            } => vec![asked, answered],
            Self::Close { connection, .. } => vec![connection],
            Self::Wait => Vec::new(),
        }
    }

    /// The policies that it is to install.
    pub fn wanted(&self) -> impl Iterator<Item = &PolicyRoute> {
        let answered = match self {
            Self::Request { answered, .. } => Some(answered),
            Self::Close { .. } | Self::Wait => None,
        };
        answered
            .into_iter()
            .flat_map(|connection| Connection::policies(connection))
    }

    /// Whose descriptor comes along.
    pub fn pod(&self) -> usize {
        match self {
            Self::Request { pod, .. } | Self::Close { pod, .. } => *pod,
            Self::Wait => 0,
        }
    }
}

impl Flow {
    /// A flow that goes well.
    pub fn new(
        name: &'static str,
        before: Vec<Act>,
        call: Call,
        after: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            fail_closed: false,
            before,
            call,
            fails: None,
            after,
        }
    }

    /// The same flow with `fail_closed`.
    #[must_use]
    pub fn fail_closed(self) -> Self {
        Self {
            fail_closed: true,
            ..self
        }
    }

    /// The same flow, whose call fails so.
    #[must_use]
    pub fn fails(self, kind: ErrorKind) -> Self {
        Self {
            fails: Some(kind),
            ..self
        }
    }

    fn calls(&self) -> impl Iterator<Item = &Call> {
        let before = self.before.iter().filter_map(|act| match act {
            Act::Call(call) => Some(call),
            _ => None,
        });
        before.chain([&self.call])
    }

    /// How many pods it needs.
    pub fn pods(&self) -> usize {
        self.calls().map(Call::pod).max().unwrap_or_default() + 1
    }

    /// All connections that anybody asks for.
    pub fn connections(&self) -> impl Iterator<Item = &Draft> {
        self.calls().flat_map(Call::connections)
    }

    /// All next hops that its connections ever name: by them a leg of ours is known.
    pub fn next_hops(&self) -> BTreeSet<IpAddr> {
        let policies = self.connections().flat_map(|it| Connection::policies(it));
        let routes = policies.flat_map(|policy| &policy.routes);
        routes
            .filter_map(|route| route.next_hop.parse().ok())
            .collect()
    }
}
