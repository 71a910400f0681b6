//! A user and network namespace around the whole process.
//!
//! Inside, the process is root over network namespaces that it makes, and over nothing else: a
//! stray test can't write into the machine's own namespace, and an ordinary user can run it.
//!
//! ```no_run
//! fn main() -> Result<(), nsm_netlink::sandbox::Missing> {
//!     nsm_netlink::sandbox::enter()?; // before the first thread
//!     // ...
//!     Ok(())
//! }
//! ```

use std::env;
use thiserror::Error;

/// Where this is set to 1, a sandbox that can't be had is a failure and no reason to skip.
const REQUIRE: &str = "NSM_REQUIRE_NETNS";

/// Why there is no sandbox, and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Missing {
    /// Another system.
    #[error(
        "network namespaces exist on Linux only: run it there, in a container or a virtual machine"
    )]
    NotLinux,
    /// The process has threads.
    #[error(
        "a process with threads can't enter a user namespace: enter the sandbox first in main, before any runtime starts"
    )]
    Threads,
    /// The system allows no user namespace.
    #[error(
        "user namespaces are forbidden here: allow them (sysctl kernel.unprivileged_userns_clone=1 on Debian, \
         kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, user.max_user_namespaces above 0), \
         and start a container with --security-opt seccomp=unconfined"
    )]
    Forbidden(#[source] std::io::Error),
    /// The limits allow no more.
    #[error(
        "there is no room for one more namespace: raise sysctl user.max_user_namespaces and user.max_net_namespaces"
    )]
    Exhausted(#[source] std::io::Error),
    /// The user could not be made root in the new namespace.
    #[error("cannot write {file}: mount /proc, and make it writable in a container")]
    Map {
        /// Which file.
        file: &'static str,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The new network namespace can't be used.
    #[error(
        "the sandbox has no power over its network: on Ubuntu set sysctl kernel.apparmor_restrict_unprivileged_userns=0, \
         in a container allow CAP_NET_ADMIN"
    )]
    Powerless(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Missing {
    /// The sentence with all its causes.
    pub fn explain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

/// Enters a new user and network namespace, in which the caller is root and `lo` is up.
///
/// Root enters a user namespace too. To be called before the first thread.
///
/// # Errors
/// When the system allows no such namespace.
#[cfg(target_os = "linux")]
pub fn enter() -> Result<(), Missing> {
    linux::enter()
}

/// There is none on this system.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn enter() -> Result<(), Missing> {
    Err(Missing::NotLinux)
}

/// Enters the sandbox, or says aloud that what needs it is skipped and gives `false`.
///
/// # Errors
/// When there is no sandbox and `NSM_REQUIRE_NETNS=1` says that there has to be.
pub fn enter_or_skip(what: &str) -> Result<bool, Missing> {
    match enter() {
        Ok(()) => Ok(true),
        Err(missing) if env::var_os(REQUIRE).is_some_and(|value| value == "1") => Err(missing),
        Err(missing) => {
            #[allow(clippy::print_stderr)] // It is for whoever runs the tests, and no log.
            {
                eprintln!(
                    "SKIPPED: {what}: {} ({REQUIRE}=1 makes it a failure)",
                    missing.explain()
                );
            }
            Ok(false)
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::Missing;
    use crate::{LinkState, Namespace, Netns};
    use nix::errno::Errno;
    use nix::sched::{CloneFlags, unshare};
    use nix::unistd::{Gid, Uid, getegid, geteuid};
    use std::fs;
    use std::io;

    pub(super) fn enter() -> Result<(), Missing> {
        let (uid, gid) = (geteuid(), getegid());
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(|errno| {
            let source = io::Error::from(errno);
            match errno {
                Errno::EINVAL if has_threads() => Missing::Threads,
                Errno::ENOSPC | Errno::EUSERS => Missing::Exhausted(source),
                _ => Missing::Forbidden(source),
            }
        })?;
        become_root(uid, gid)?;
        set_up_loopback().map_err(Missing::Powerless)
    }

    fn has_threads() -> bool {
        fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1)
    }

    /// Without a privilege outside, one user and one group can be mapped, and the groups must be
    /// given up before (user_namespaces(7)).
    fn become_root(uid: Uid, gid: Gid) -> Result<(), Missing> {
        let write = |file, text: String| {
            fs::write(file, text).map_err(|source| Missing::Map { file, source })
        };
        write("/proc/self/setgroups", "deny".to_owned())?;
        write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        write("/proc/self/gid_map", format!("0 {gid} 1"))
    }

    fn set_up_loopback() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut kernel = Netns::current()?.open()?;
        let lo = kernel.index_of("lo")?;
        Ok(kernel.set_link(lo, LinkState::Up)?)
    }
}
