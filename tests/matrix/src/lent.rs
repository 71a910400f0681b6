//! The real kernel, in namespaces that another process may work in too.

use ipnet::IpNet;
use nsm_netlink::{
    DuplicateDetection, Event, LinkState, Namespace, Netns, NetnsError, Route, Rtnl, VethEnd,
};
use policyroute_suite::{Machine, listeners, replace_route};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Where the other ends of all interfaces are. They stay down: with a carrier the kernel would give
/// IPv6 addresses of its own.
static FAR: OnceLock<Arc<Netns>> = OnceLock::new();

thread_local! {
    /// The namespaces that the next pods of this thread get.
    static LENT: RefCell<VecDeque<Arc<Netns>>> = const { RefCell::new(VecDeque::new()) };
}

/// The namespaces of the pods of one world.
#[derive(Debug, Clone)]
pub struct Estate(Vec<Arc<Netns>>);

impl Estate {
    /// New ones.
    pub fn create(pods: usize) -> Self {
        Self(
            (0..pods)
                .map(|_| Arc::new(Netns::create().unwrap()))
                .collect(),
        )
    }

    /// Those that another process has [named](Self::names), which lives still.
    ///
    /// # Errors
    /// When it does not.
    pub fn open<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<Self, NetnsError> {
        let open = |name| Netns::open_path(Path::new(name)).map(Arc::new);
        if let Some(far) = names.next() {
            FAR.get_or_init(|| open(far).unwrap());
        }
        names.map(open).collect::<Result<_, _>>().map(Self)
    }

    /// By these another process finds them, the far ends' first.
    pub fn names(&self) -> Vec<String> {
        let pid = std::process::id();
        let name = |netns: &Arc<Netns>| format!("/proc/{pid}/fd/{}", netns.as_fd().as_raw_fd());
        [far()].iter().chain(&self.0).map(name).collect()
    }

    /// The namespace of the first pod.
    pub fn first(&self) -> &Netns {
        &self.0[0]
    }

    /// The next pods of this thread are in these namespaces.
    pub fn lend(&self) {
        LENT.set(self.0.iter().cloned().collect());
    }
}

fn far() -> Arc<Netns> {
    Arc::clone(FAR.get_or_init(|| Arc::new(Netns::create().unwrap())))
}

/// A kernel in a namespace that was lent, or else in a new one.
#[derive(Debug)]
pub struct Lent(Arc<Netns>);

impl Lent {
    fn kernel(&self) -> Rtnl {
        self.0.open().unwrap()
    }
}

impl Machine for Lent {
    const NAME: &'static str = "kernel";

    type Namespace = Netns;

    fn boot() -> Self {
        let lent = LENT.with_borrow_mut(VecDeque::pop_front);
        Self(lent.unwrap_or_else(|| Arc::new(Netns::create().unwrap())))
    }

    fn namespace(&self) -> &Arc<Netns> {
        &self.0
    }

    fn add_link(&self, name: &str) -> u32 {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let other_end = format!("{}-{number}", std::process::id());
        let mut kernel = self.kernel();
        kernel
            .add_veth(&VethEnd::named(name), &VethEnd::named(&other_end), far())
            .unwrap();
        kernel.index_of(name).unwrap()
    }

    fn delete_link(&self, index: u32) {
        self.kernel().delete_link(index).unwrap();
    }

    fn set_link(&self, index: u32, state: LinkState) {
        self.kernel().set_link(index, state).unwrap();
    }

    fn add_address(&self, index: u32, address: IpNet) {
        self.kernel()
            .add_address(index, address, DuplicateDetection::Skip)
            .unwrap();
    }

    fn remove_address(&self, index: u32, address: IpNet) {
        self.kernel().delete_address(index, address).unwrap();
    }

    fn replace_route(&self, route: &Route) {
        replace_route(&self.0, route);
    }

    fn forbid_ipv6(&self, _: u32, name: &str) {
        let file = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        self.0.enter(|| fs::write(file, "1")).unwrap().unwrap();
    }

    fn short_reads(&self) {}

    fn listeners(&self) -> usize {
        listeners(&self.0)
    }

    fn events(&self) -> Vec<Event> {
        Vec::new()
    }
}
