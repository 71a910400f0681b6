//! What a connection carries, without asking at each step whether it is there.
//!
//! An absent context or IP context is an empty one: the wire has both spellings for the same
//! thing.

use crate::connection::Connection;
use crate::connectioncontext::{IpContext, PolicyRoute};

impl Connection {
    /// The IP context, if the message carries one.
    pub fn ip_context(&self) -> Option<&IpContext> {
        self.context.as_ref()?.ip_context.as_ref()
    }

    /// The IP context, to be changed. It is made if the message carries none.
    pub fn ip_context_mut(&mut self) -> &mut IpContext {
        self.context
            .get_or_insert_default()
            .ip_context
            .get_or_insert_default()
    }

    /// The client's policy routes, in the order in which they were written.
    pub fn policies(&self) -> &[PolicyRoute] {
        self.ip_context().map_or(&[], |ip| &ip.policies)
    }

    /// The addresses of the client's interface, each as address and prefix length.
    pub fn src_ip_addrs(&self) -> &[String] {
        self.ip_context().map_or(&[], |ip| &ip.src_ip_addrs)
    }

    /// The addresses of the endpoint's interface, each as address and prefix length.
    pub fn dst_ip_addrs(&self) -> &[String] {
        self.ip_context().map_or(&[], |ip| &ip.dst_ip_addrs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectioncontext::ConnectionContext;

    #[test]
    fn an_absent_context_or_ip_context_is_an_empty_one() {
        let with = |context| Connection {
            context,
            ..Connection::default()
        };
        let without_ip = ConnectionContext::default();
        let empty_ip = ConnectionContext {
            ip_context: Some(IpContext::default()),
            ..ConnectionContext::default()
        };
        for context in [None, Some(without_ip), Some(empty_ip)] {
            let connection = with(context);
            assert!(connection.policies().is_empty());
            assert!(connection.src_ip_addrs().is_empty());
            assert!(connection.dst_ip_addrs().is_empty());
        }
        assert_eq!(with(None).ip_context(), None);
    }

    #[test]
    fn what_is_written_into_an_absent_ip_context_is_there_to_read() {
        let mut connection = Connection::default();
        let policy = PolicyRoute {
            proto: "17".to_owned(),
            ..PolicyRoute::default()
        };
        let ip = connection.ip_context_mut();
        ip.policies.push(policy.clone());
        ip.src_ip_addrs.push("172.16.1.2/32".to_owned());
        ip.dst_ip_addrs.push("172.16.1.1/32".to_owned());

        assert_eq!(connection.policies(), [policy]);
        assert_eq!(connection.src_ip_addrs(), ["172.16.1.2/32"]);
        assert_eq!(connection.dst_ip_addrs(), ["172.16.1.1/32"]);
    }

    #[test]
    fn changing_the_ip_context_leaves_the_rest_of_the_context_alone() {
        let context = ConnectionContext {
            mtu: 1450,
            ..ConnectionContext::default()
        };
        let mut connection = Connection {
            context: Some(context),
            ..Connection::default()
        };
        connection.ip_context_mut().src_ip_required = true;
        connection.ip_context_mut().dst_ip_required = true;

        let context = connection.context.as_ref().unwrap();
        assert_eq!(context.mtu, 1450);
        let ip = connection.ip_context().unwrap();
        assert!(ip.src_ip_required && ip.dst_ip_required);
    }
}
