use crate::rtnl::{self, LinkState, Rtnl, RtnlNotifications, SetupError};
use crate::{KernelError, Namespace, NetnsId};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::{Mode, fstat};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The calling thread's network namespace.
const CURRENT: &str = "/proc/thread-self/ns/net";

/// The index of `lo` in every namespace (`LOOPBACK_IFINDEX`, net/flow.h).
const LOOPBACK: u32 = 1;

/// A network namespace, held by a descriptor.
///
/// The descriptor pins the namespace and every interface in it.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
    id: NetnsId,
}

impl Netns {
    /// The namespace that the calling thread is in.
    ///
    /// # Errors
    /// When `/proc` is not mounted, or is another pid namespace's.
    pub fn current() -> Result<Self, NetnsError> {
        let fd = open(CURRENT, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(|errno| NetnsError::open(Path::new(CURRENT), errno))?;
        Self::held(fd)
    }

    /// The namespace that a descriptor stands for. One that was opened with `O_PATH`, as NSM passes
    /// them, will do; the descriptor itself is not kept.
    ///
    /// # Errors
    /// When the descriptor is of something else than a network namespace. Nothing but a namespace
    /// is ever opened: opening a FIFO blocks, and a device may act on it.
    pub fn from_fd(fd: impl AsFd) -> Result<Self, NetnsError> {
        let fd = fd.as_fd();
        if fstatfs(fd).map_err(NetnsError::Inspect)?.filesystem_type() != NSFS_MAGIC {
            return Err(NetnsError::NotANamespace);
        }
        // setns(2) refuses an O_PATH descriptor; the link to it opens the file itself.
        let path = PathBuf::from(format!("/proc/thread-self/fd/{}", fd.as_raw_fd()));
        let fd = open(&path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(|errno| NetnsError::open(&path, errno))?;
        match kind(fd.as_fd()).map_err(NetnsError::Inspect)? {
            libc::CLONE_NEWNET => Self::held(fd),
            other => Err(NetnsError::OtherKind(kind_name(other))),
        }
    }

    /// The namespace that a file stands for, such as `/proc/PID/ns/net` or `/run/netns/NAME`.
    ///
    /// # Errors
    /// When there is no such file, or it is something else than a network namespace.
    pub fn open_path(path: &Path) -> Result<Self, NetnsError> {
        let fd = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(|errno| NetnsError::open(path, errno))?;
        Self::from_fd(fd)
    }

    /// A namespace without interfaces but its own `lo`, which is up. Nothing but this value holds
    /// it.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN, or when the system has no room for another namespace.
    pub fn create() -> Result<Self, NetnsError> {
        // On a thread of its own, so that the caller stays where it is.
        let thread = std::thread::Builder::new()
            .name("netns-create".into())
            .spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).map_err(NetnsError::Create)?;
                let netns = Self::current()?;
                netns.open()?.set_link(LOOPBACK, LinkState::Up)?;
                Ok(netns)
            });
        let thread = thread.map_err(NetnsError::Thread)?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn held(fd: OwnedFd) -> Result<Self, NetnsError> {
        let stat = fstat(&fd).map_err(NetnsError::Inspect)?;
        Ok(Self {
            fd,
            id: NetnsId {
                dev: stat.st_dev,
                ino: stat.st_ino,
            },
        })
    }

    /// Runs `f` with the calling thread in this namespace, and takes the thread back.
    ///
    /// What `f` spawns begins in this namespace too, so it should do no more than open what it
    /// needs. A thread that is here already stays, which needs no privilege.
    ///
    /// If the thread cannot be taken back, also after a panic of `f`, the process is aborted: from
    /// there it would write into the wrong namespace.
    ///
    /// # Errors
    /// When the thread's own namespace cannot be told, or this one cannot be entered (CAP_SYS_ADMIN
    /// here and in the caller's user namespace, setns(2)).
    pub fn enter<T>(&self, f: impl FnOnce() -> T) -> io::Result<T> {
        let home = Self::current().map_err(|error| match error {
            // Callers tell a want of descriptors by the number.
            NetnsError::Open {
                source: errno @ (Errno::EMFILE | Errno::ENFILE),
                ..
            } => errno.into(),
            other => io::Error::other(other),
        })?;
        if home.id == self.id {
            return Ok(f());
        }
        setns(&self.fd, CloneFlags::CLONE_NEWNET)?;
        let _back = Back(home);
        Ok(f())
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Namespace for Netns {
    type Kernel = Rtnl;
    type Notifications = RtnlNotifications;

    fn id(&self) -> NetnsId {
        self.id
    }

    fn open(&self) -> Result<Rtnl, KernelError> {
        let socket = self.enter(rtnl::socket_here);
        socket
            .and_then(|socket| Rtnl::on(socket?))
            .map_err(|source| KernelError::Open {
                netns: self.id,
                source,
            })
    }

    fn listen(&self) -> Result<RtnlNotifications, KernelError> {
        RtnlNotifications::new(self)
    }
}

/// Takes the thread back when it goes out of scope.
struct Back(Netns);

impl Drop for Back {
    fn drop(&mut self) {
        if let Err(errno) = setns(&self.0.fd, CloneFlags::CLONE_NEWNET) {
            tracing::error!(netns = %self.0.id, %errno, "cannot return to the thread's namespace");
            std::process::abort();
        }
    }
}

/// What kind of namespace a descriptor of the namespace file system is: `CLONE_NEW*` (ioctl_ns(2)).
#[allow(unsafe_code)]
fn kind(fd: BorrowedFd<'_>) -> Result<libc::c_int, Errno> {
    nix::ioctl_none_bad!(ns_get_nstype, libc::NS_GET_NSTYPE);
    // SAFETY: NS_GET_NSTYPE takes no argument and touches no memory of ours; the descriptor is open
    // as long as it is borrowed.
    unsafe { ns_get_nstype(fd.as_raw_fd()) }
}

fn kind_name(kind: libc::c_int) -> &'static str {
    match kind {
        libc::CLONE_NEWNS => "mount",
        libc::CLONE_NEWPID => "pid",
        libc::CLONE_NEWUSER => "user",
        libc::CLONE_NEWUTS => "uts",
        libc::CLONE_NEWIPC => "ipc",
        libc::CLONE_NEWCGROUP => "cgroup",
        _ => "other",
    }
}

/// Why a network namespace cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetnsError {
    /// There is no such file, or it may not be opened.
    #[error("cannot open the namespace file {}", .path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: Errno,
    },
    /// The descriptor tells nothing about itself.
    #[error("cannot tell what the descriptor stands for")]
    Inspect(#[source] Errno),
    /// It is a file of another file system.
    #[error("the file is no namespace: pass /proc/PID/ns/net or a file of ip-netns(8)")]
    NotANamespace,
    /// It is a namespace of another kind.
    #[error("the file is a namespace of the {0} kind: pass /proc/PID/ns/net")]
    OtherKind(&'static str),
    /// The system gives no new namespace.
    #[error(
        "cannot create a network namespace: this needs CAP_SYS_ADMIN, which \
         `unshare --user --map-root-user` gives to anyone"
    )]
    Create(#[source] Errno),
    /// The new namespace does not let itself be used.
    #[error("cannot use the new network namespace")]
    Kernel(#[from] KernelError),
    /// The new namespace's `lo` cannot be set up.
    #[error("cannot prepare the new network namespace")]
    SetUp(#[from] SetupError),
    /// The system gives no thread.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

impl NetnsError {
    fn open(path: &Path, source: Errno) -> Self {
        Self::Open {
            path: path.to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_file_that_is_no_namespace_is_refused_and_told_what_to_pass() {
        let error = Netns::from_fd(File::open("/dev/null").unwrap()).unwrap_err();

        assert!(matches!(error, NetnsError::NotANamespace));
        assert!(error.to_string().contains("/proc/PID/ns/net"));
    }

    #[test]
    fn a_namespace_of_another_kind_is_refused_by_its_name() {
        let error = Netns::open_path(Path::new("/proc/self/ns/uts")).unwrap_err();

        assert_eq!(
            error.to_string(),
            "the file is a namespace of the uts kind: pass /proc/PID/ns/net"
        );
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let error = Netns::open_path(Path::new("/nowhere")).unwrap_err();

        assert_eq!(error.to_string(), "cannot open the namespace file /nowhere");
    }

    #[test]
    fn a_descriptor_that_only_names_a_file_will_do() {
        let path = Path::new("/proc/self/ns/net");
        let named = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).unwrap();

        assert_eq!(
            Netns::from_fd(&named).unwrap().id(),
            Netns::current().unwrap().id()
        );
    }

    #[test]
    fn a_thread_that_is_there_already_enters_without_privilege() {
        let netns = Netns::current().unwrap();

        assert_eq!(netns.enter(|| 5).unwrap(), 5);
    }
}
