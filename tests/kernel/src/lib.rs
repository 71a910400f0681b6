//! What suites need that write to the real kernel.

pub use nsm_netlink::sandbox;
