//! The edge: between a chain and the wire.
//!
//! A [`Server`] makes a [`Call`](nsm_chain::Call) of what comes in over gRPC and answers with what
//! the chain answers; [`Connect`] ends a client chain and carries its calls to the next hop. The
//! one serves a [`Monitor`](nsm_chain::monitor::Monitor), and the other
//! [listens](nsm_chain::monitor::Watch) at the next hop. Both work over unix sockets and TCP, and
//! over unix sockets the descriptors of network namespaces travel along ([`fd`]). What the wire
//! looks like is that of the mesh's Go components.
//!
//! ```
//! use nsm_api::networkservice::NetworkServiceRequest;
//! use nsm_chain::{BoxNetworkService, Call, End};
//! use nsm_grpc::{Address, Connect, Listener, Server, Transport};
//! use std::time::Duration;
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = Listener::bind(&"tcp://127.0.0.1:0".parse()?).await?;
//! let address = listener.address();
//! let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! let server = Server::new(BoxNetworkService::new(End)).service_names(["my-service"]);
//! let server = tokio::spawn(server.serve(listener, async { _ = stopped.await }));
//!
//! let client = Connect::to(Transport::new(address, Duration::from_secs(1)));
//! let answer = client.oneshot(Call::request(NetworkServiceRequest::default())).await?;
//! assert_eq!(answer.id, "");
//!
//! stop.send(()).ok();
//! server.await?;
//! # Ok(())
//! # }
//! ```

mod address;
mod connect;
mod failure;
pub mod fd;
mod header;
mod health;
mod listener;
mod patience;
mod reserve;
mod server;
mod socket;
pub mod status;
mod transport;
mod transports;
mod url_path;
mod watch;

pub use address::{Address, AddressError};
pub use connect::Connect;
pub use fd::{Inode, Peer, ReceivedFd, RecvFdLayer, SendFdLayer};
pub use listener::{ListenError, Listener, SocketFileError};
pub use server::Server;
pub use transport::{Connected, DialError, Patience, Transport, Unreachable};
pub use transports::{NextHop, Transports};

/// How large a message may be, in bytes, if nothing else is said: what gRPC's libraries take.
const MESSAGE_LIMIT: usize = 4 << 20;
