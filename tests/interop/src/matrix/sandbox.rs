//! A network namespace around everything.
//!
//! No user namespace: the Go element lets groups ping that an unprivileged one has not
//! (`net.ipv4.ping_group_range` up to 2147483647), and fails without.

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nsm_netlink::{LinkState, Namespace, Netns};
use std::error::Error;
use thiserror::Error;

/// Why there is none.
#[derive(Debug, Error)]
#[error("cannot make a network namespace: root is needed")]
struct NoNamespace(#[source] Errno);

/// Enters a new one, in which `lo` is up. To be called before the first thread.
pub(super) fn enter() -> Result<(), Box<dyn Error + Send + Sync>> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(NoNamespace)?;
    let mut kernel = Netns::current()?.open()?;
    let lo = kernel.index_of("lo")?;
    Ok(kernel.set_link(lo, LinkState::Up)?)
}
