//! A peer that is bound to nothing: it sends the bytes, headers and descriptors that a case wants.

use crate::until;
use h2::client::SendRequest;
use http::Request;
use nsm_api::connection::{Connection, Mechanism, Path, PathSegment};
use nsm_api::mechanism::{INTERFACE_NAME, NETNS_URL};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::token::{EXPIRES, TOKEN};
use nsm_grpc::Inode;
use nsm_grpc::fd::FdStream;
use prost::Message;
use prost_types::Timestamp;
use std::fmt;
use std::io::Cursor;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path as FilePath;
use std::time::{Duration, SystemTime};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::{Code, Status};

/// The path of a request, and that of a close.
pub const REQUEST: &str = "/networkservice.NetworkService/Request";
/// See [`REQUEST`].
pub const CLOSE: &str = "/networkservice.NetworkService/Close";

/// How long a connection of a raw peer stands that it does not ask for again.
pub const RAW_LIFE: Duration = Duration::from_secs(4);

/// How long an answer may take, in any case.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection to a program.
pub struct RawPeer {
    runtime: Runtime,
    sender: SendRequest<Cursor<Vec<u8>>>,
    descriptors: nsm_grpc::Peer,
    connection: JoinHandle<()>,
}

/// What goes out with one call.
#[derive(Debug, Clone)]
pub struct Sent<'a> {
    /// `:path`.
    pub method: &'a str,
    /// Headers, in place of the usual ones of that name.
    pub headers: Vec<(&'a str, String)>,
    /// What is sent as the body.
    pub body: Vec<u8>,
    /// What rides along.
    pub descriptors: Vec<BorrowedFd<'a>>,
}

impl<'a> Sent<'a> {
    /// Bytes as a message of gRPC.
    pub fn bytes(method: &'a str, message: &[u8]) -> Self {
        let mut body = vec![0];
        body.extend((message.len() as u32).to_be_bytes());
        body.extend(message);
        Self {
            method,
            headers: Vec::new(),
            body,
            descriptors: Vec::new(),
        }
    }

    /// A request.
    pub fn request(request: &NetworkServiceRequest) -> Self {
        Self::bytes(REQUEST, &request.encode_to_vec())
    }

    /// A close.
    pub fn close(connection: &Connection) -> Self {
        Self::bytes(CLOSE, &connection.encode_to_vec())
    }

    /// With a descriptor.
    #[must_use]
    pub fn with(mut self, descriptor: &'a impl AsFd) -> Self {
        self.descriptors.push(descriptor.as_fd());
        self
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn head(&self) -> Request<()> {
        let end = Timestamp::from(SystemTime::now() + RAW_LIFE).to_string();
        let (token, expires) = (TOKEN, EXPIRES);
        let usual = [
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("grpc-timeout", "5S"),
            (token.as_str(), "raw"),
            (expires.as_str(), &end),
        ];
        let given = |name: &str| self.headers.iter().any(|(it, _)| *it == name);
        let usual = usual.iter().filter(|(name, _)| !given(name));
        let mut head = Request::post(format!("http://localhost{}", self.method));
        for (name, value) in usual {
            head = head.header(*name, *value);
        }
        // One without a value is left out.
        for (name, value) in self.headers.iter().filter(|(_, value)| !value.is_empty()) {
            head = head.header(*name, value);
        }
        head.body(()).unwrap()
    }
}

impl RawPeer {
    /// Connects, as soon as somebody listens.
    #[track_caller]
    pub fn connect(socket: &FilePath) -> Self {
        let mut connected = None;
        until("somebody listens", || {
            connected = StdUnixStream::connect(socket).ok();
            connected.is_some()
        });
        let connected = connected.unwrap();
        connected.set_nonblocking(true).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, descriptors, connection) = runtime.block_on(async {
            let stream = FdStream::new(UnixStream::from_std(connected).unwrap());
            let descriptors = stream.peer();
            let (sender, connection) = h2::client::Builder::new().handshake(stream).await.unwrap();
            let connection = tokio::spawn(async { drop(connection.await) });
            (sender, descriptors, connection)
        });
        Self {
            runtime,
            sender,
            descriptors,
            connection,
        }
    }

    /// Calls, and gives the status that the call is answered with. A connection that breaks is
    /// [`Code::Unavailable`], and one that is silent [`Code::Aborted`].
    pub fn call(&self, sent: &Sent<'_>) -> Status {
        self.answer(sent).0
    }

    /// Requests a connection.
    ///
    /// # Panics
    /// When it does not get one.
    #[track_caller]
    pub fn connection(&self, sent: &Sent<'_>) -> Connection {
        let (status, body) = self.answer(sent);
        assert_status("a good request", &status, Code::Ok, "");
        Connection::decode(&body[5..]).unwrap()
    }

    fn answer(&self, sent: &Sent<'_>) -> (Status, Vec<u8>) {
        let answer = self.runtime.block_on(async {
            match timeout(PATIENCE, self.send(sent)).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(broken)) => Err(Status::unavailable(broken.to_string())),
                Err(_) => Err(Status::aborted("no answer has come")),
            }
        });
        answer.unwrap_or_else(|status| (status, Vec::new()))
    }

    async fn send(&self, sent: &Sent<'_>) -> Result<(Status, Vec<u8>), h2::Error> {
        for descriptor in &sent.descriptors {
            let descriptor = descriptor.try_clone_to_owned().unwrap();
            self.descriptors.send(descriptor).unwrap();
        }
        let mut sender = self.sender.clone().ready().await?;
        let (answer, mut body) = sender.send_request(sent.head(), false)?;
        // A server that has answered already may take no more.
        body.send_data(Cursor::new(sent.body.clone()), true).ok();
        let (head, mut body) = answer.await?.into_parts();
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            bytes.extend(data);
        }
        let trailers = body.trailers().await?.unwrap_or_default();
        let status = Status::from_header_map(&trailers);
        let status = status.or_else(|| Status::from_header_map(&head.headers));
        let status = status.unwrap_or_else(|| Status::unknown(format!("HTTP {}", head.status)));
        Ok((status, bytes))
    }

    /// Calls, and cuts the connection after so long, in the middle of whatever happens. Without the
    /// body nobody has begun with the call.
    pub fn call_and_go(self, sent: &Sent<'_>, with_body: bool, after: Duration) {
        self.runtime.block_on(async {
            let mut sent = sent.clone();
            if !with_body {
                sent.body.clear();
            }
            let call = self.send(&sent);
            timeout(after, call).await.ok();
            self.connection.abort();
        });
    }
}

impl fmt::Debug for RawPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawPeer").finish_non_exhaustive()
    }
}

/// A first request of a client `raw`, with that id, for `net-0` and an interface `raw` in the
/// namespace of that descriptor.
pub fn first_request(id: &str, netns: &impl AsFd) -> NetworkServiceRequest {
    let netns = Inode::of(netns).unwrap();
    let mechanism = Mechanism::kernel()
        .with_parameter(INTERFACE_NAME, "raw")
        .with_parameter(NETNS_URL, netns.to_string());
    NetworkServiceRequest {
        connection: Some(Connection {
            id: id.to_owned(),
            network_service: "net-0".to_owned(),
            path: Some(Path {
                index: 0,
                path_segments: vec![PathSegment {
                    name: "raw".to_owned(),
                    id: id.to_owned(),
                    ..PathSegment::default()
                }],
            }),
            ..Connection::default()
        }),
        mechanism_preferences: vec![mechanism],
    }
}

/// The first mechanism of a request, to be changed.
pub fn mechanism_of(request: &mut NetworkServiceRequest) -> &mut Mechanism {
    &mut request.mechanism_preferences[0]
}

/// That a call was answered with this code, and in words that contain these.
#[track_caller]
pub fn assert_status(what: &str, status: &Status, code: Code, words: &str) {
    let said = (status.code(), status.message().contains(words));
    assert_eq!(said, (code, true), "{what}: {status:?}");
}
