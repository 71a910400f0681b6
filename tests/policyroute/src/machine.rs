use ipnet::IpNet;
use nsm_netlink::{Event, LinkState, Namespace, Route};
use std::fmt::Debug;
use std::sync::Arc;

/// A kernel with one network namespace, and what differs between the two kernels: everything
/// about interfaces. Rules and routes of others go through [`nsm_netlink::Kernel`] on both.
///
/// All methods panic when the kernel does not want to.
pub trait Machine: Debug + Send + Sync + Sized + 'static {
    /// The first part of the names of its cases.
    const NAME: &'static str;

    /// Its namespaces.
    type Namespace: Namespace + Debug;

    /// A new namespace with nothing in it but `lo`.
    fn boot() -> Self;

    /// The namespace.
    fn namespace(&self) -> &Arc<Self::Namespace>;

    /// Adds an interface that is down, and gives its index.
    fn add_link(&self, name: &str) -> u32;

    /// Deletes an interface.
    fn delete_link(&self, index: u32);

    /// Sets an interface up or down.
    fn set_link(&self, index: u32, state: LinkState);

    /// Gives an interface an address.
    fn add_address(&self, index: u32, address: IpNet);

    /// Takes an address from an interface.
    fn remove_address(&self, index: u32, address: IpNet);

    /// Puts a route in the place of the first of its prefix and metric, whoever made it.
    fn replace_route(&self, route: &Route);

    /// Switches IPv6 off on an interface.
    fn forbid_ipv6(&self, index: u32, name: &str);

    /// Lets dumps of many rules take several reads, as those of the real kernel do.
    fn short_reads(&self);

    /// How many listen to notifications there, but for those of the machine itself.
    fn listeners(&self) -> usize;

    /// The notifications since the last call.
    fn events(&self) -> Vec<Event>;
}
