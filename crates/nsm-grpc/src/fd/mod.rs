//! Descriptors that travel beside messages, over unix sockets.
//!
//! A message that says which network namespace is meant names a descriptor that travels on the
//! same connection: `inode://<device>/<inode>`. The name means nothing by itself. It is looked up
//! among the descriptors that this very peer has sent, and nowhere else, so that a peer can't
//! point at a namespace that it has no descriptor of.

mod inode;
mod open;
mod peer;
mod recv;
mod send;
mod stream;
mod table;

#[cfg(test)]
mod stream_tests;

pub use inode::{Inode, InodeError};
pub use open::OpenError;
pub use peer::Peer;
pub use recv::{ReceivedFd, RecvFd, RecvFdLayer};
pub use send::{SendFd, SendFdLayer};
pub use stream::{FdStream, SendError};
pub use table::DescriptorError;

pub(crate) use recv::Carrier;
pub(crate) use send::Outgoing;
