//! Mechanisms: how the two ends of a connection are joined, and what the parameters mean.
//!
//! Class, type and parameter names are plain text on the wire; those here are the names that the
//! mesh's components agree on. Values are text too, and come from another process: nothing but
//! their form is checked.

use crate::connection::{Connection, Mechanism};

/// Class of a mechanism that joins two ends on one node.
pub const LOCAL: &str = "LOCAL";
/// Class of a mechanism that joins two nodes.
pub const REMOTE: &str = "REMOTE";

/// Type of the mechanism that gives each end a kernel network interface.
pub const KERNEL: &str = "KERNEL";
/// Type of the mechanism that joins the ends by nothing at all: the connection carries names,
/// policies and what else a context holds, and no packets.
pub const NOOP: &str = "NOOP";

/// Parameter: the name of the interface in the client's network namespace.
pub const INTERFACE_NAME: &str = "name";
/// Parameter: the client's network namespace, as `file:///proc/<pid>/ns/net` within a process, or
/// as `inode://<device>/<inode>` on the wire, where the descriptor travels beside the message.
pub const NETNS_URL: &str = "inodeURL";
/// Value of [`NETNS_URL`]: the network namespace of the thread that looks, as a path of its process.
/// `send_fd` makes a descriptor of it.
pub const OWN_NETNS: &str = "file:///proc/thread-self/ns/net";
/// Parameter: the VLAN on the interface that carries the connection, in decimal.
pub const VLAN: &str = "vlan";

impl Mechanism {
    /// A local kernel mechanism without parameters.
    pub fn kernel() -> Self {
        Self {
            cls: LOCAL.to_owned(),
            r#type: KERNEL.to_owned(),
            ..Self::default()
        }
    }

    /// Sets a parameter, in place of one of the same name.
    #[must_use]
    pub fn with_parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.insert(name.into(), value.into());
        self
    }
}

impl Connection {
    /// The connection's mechanism, if it has one and that is the kernel mechanism.
    pub fn kernel_mechanism(&self) -> Option<KernelMechanism<'_>> {
        self.mechanism.as_ref().and_then(KernelMechanism::of)
    }
}

/// The parameters of a kernel mechanism. An empty parameter is an absent one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelMechanism<'a>(&'a Mechanism);

impl<'a> KernelMechanism<'a> {
    /// Views a mechanism of type [`KERNEL`]; any other type gives `None`.
    pub fn of(mechanism: &'a Mechanism) -> Option<Self> {
        (mechanism.r#type == KERNEL).then_some(Self(mechanism))
    }

    /// The name of the interface, as it was sent: it need not be one that the kernel accepts.
    pub fn interface_name(self) -> Option<&'a str> {
        self.parameter(INTERFACE_NAME)
    }

    /// The URL of the network namespace, as it was sent. A `file:` path of another process means
    /// something else here.
    pub fn netns_url(self) -> Option<&'a str> {
        self.parameter(NETNS_URL)
    }

    /// The VLAN, 0 when there is none.
    ///
    /// A value that is no decimal number of 12 bits counts as none, as it does in the mesh's Go
    /// components. Addresses, routes and policies are set on interfaces without a VLAN only.
    pub fn vlan(self) -> u16 {
        let digits = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
        self.parameter(VLAN)
            .filter(digits)
            .and_then(|text| text.parse().ok())
            .filter(|vlan| *vlan < 1 << 12)
            .unwrap_or(0)
    }

    fn parameter(self, name: &str) -> Option<&'a str> {
        let value = self.0.parameters.get(name)?;
        (!value.is_empty()).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_mechanism_has_the_parameters_that_it_was_made_with() {
        let mechanism = Mechanism::kernel()
            .with_parameter(INTERFACE_NAME, "nsm-0")
            .with_parameter(INTERFACE_NAME, "nsm-1")
            .with_parameter(NETNS_URL, "inode://4/4026532581")
            .with_parameter(VLAN, "100");
        assert_eq!(mechanism.cls, "LOCAL");

        let connection = Connection {
            mechanism: Some(mechanism),
            ..Connection::default()
        };
        let kernel = connection.kernel_mechanism().unwrap();
        assert_eq!(kernel.interface_name(), Some("nsm-1"));
        assert_eq!(kernel.netns_url(), Some("inode://4/4026532581"));
        assert_eq!(kernel.vlan(), 100);
    }

    #[test]
    fn an_absent_or_empty_parameter_is_none() {
        let absent = Mechanism::kernel();
        let empty = Mechanism::kernel()
            .with_parameter(INTERFACE_NAME, "")
            .with_parameter(NETNS_URL, "")
            .with_parameter(VLAN, "");
        for mechanism in [absent, empty] {
            let kernel = KernelMechanism::of(&mechanism).unwrap();
            assert_eq!(kernel.interface_name(), None);
            assert_eq!(kernel.netns_url(), None);
            assert_eq!(kernel.vlan(), 0);
        }
    }

    #[test]
    fn only_the_type_tells_a_kernel_mechanism() {
        let of_type = |r#type: &str| Mechanism {
            r#type: r#type.to_owned(),
            ..Mechanism::kernel()
        };
        for other in ["", "kernel", "KERNEL ", "MEMIF", "VXLAN"] {
            assert_eq!(KernelMechanism::of(&of_type(other)), None);
        }
        let remote = Mechanism {
            cls: REMOTE.to_owned(),
            ..Mechanism::kernel()
        };
        assert!(KernelMechanism::of(&remote).is_some());
        assert_eq!(Connection::default().kernel_mechanism(), None);
    }

    #[test]
    fn a_vlan_is_a_decimal_number_of_twelve_bits() {
        let vlan = |text: &str| {
            let mechanism = Mechanism::kernel().with_parameter(VLAN, text);
            KernelMechanism::of(&mechanism).unwrap().vlan()
        };
        assert_eq!(vlan("0"), 0);
        assert_eq!(vlan("1"), 1);
        assert_eq!(vlan("007"), 7);
        assert_eq!(vlan("4095"), 4095);
        for invalid in [
            "4096", "65536", "-1", "+1", " 1", "1 ", "0x1", "1_0", "trunk", "٣",
        ] {
            assert_eq!(vlan(invalid), 0, "{invalid:?}");
        }
    }
}
