//! Asks for a kernel interface in a network namespace of the client.
//!
//! Every preference of type [`KERNEL`] that names no namespace by a path of this process gets the one
//! that is set, and a name for the interface where it has none: one that is set, or one made of the service's name and the connection's id. A name that
//! were random would be another one when the client comes again after a restart, and what stands
//! in the namespace under the former name would be lost to it.

use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::InterfaceName;
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::{INTERFACE_NAME, KERNEL, KernelMechanism, NETNS_URL, OWN_NETNS};
use tower::{Layer, Service};

use crate::{Call, Error, NetworkService, Operation};

/// How much of a service's name is in the name of an interface.
const OF_SERVICE: usize = 10;

/// Asks for kernel interfaces. See the [module](self).
///
/// A request without a preference of that type gets one. The mechanism of a connection that has
/// one already gets the namespace too, unless it names one by a path: what another hop tells of a
/// connection names it as that hop does.
#[derive(Clone, Debug)]
pub struct KernelMechanismLayer {
    netns_url: Arc<str>,
    name: Option<InterfaceName>,
}

impl Default for KernelMechanismLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl KernelMechanismLayer {
    /// Interfaces in the network namespace of this process, each with a name made for it.
    pub fn new() -> Self {
        Self {
            netns_url: OWN_NETNS.into(),
            name: None,
        }
    }

    /// In another network namespace: a `file:` URL.
    #[must_use]
    pub fn netns_url(mut self, url: &str) -> Self {
        self.netns_url = url.into();
        self
    }

    /// With that name, where a preference has none.
    #[must_use]
    pub fn named(mut self, name: InterfaceName) -> Self {
        self.name = Some(name);
        self
    }

    fn complete(&self, call: &mut Call) {
        if let Some(mechanism) = &mut call.connection_mut().mechanism
            && mechanism.r#type == KERNEL
        {
            self.place(mechanism);
        }
        let Operation::Request(request) = &mut call.operation else {
            return;
        };
        let connection = request.connection.get_or_insert_default();
        let name = || match &self.name {
            Some(name) => name.as_str().to_owned(),
            None => interface_name(&connection.network_service, &connection.id),
        };
        let preferences = &mut request.mechanism_preferences;
        if preferences.iter().all(|it| it.r#type != KERNEL) {
            preferences.push(Mechanism::kernel());
        }
        for preference in preferences.iter_mut().filter(|it| it.r#type == KERNEL) {
            self.place(preference);
            let named = KernelMechanism::of(preference).and_then(KernelMechanism::interface_name);
            if named.is_none() {
                let parameters = &mut preference.parameters;
                parameters.insert(INTERFACE_NAME.to_owned(), name());
            }
        }
    }

    fn place(&self, mechanism: &mut Mechanism) {
        let url = mechanism.parameters.entry(NETNS_URL.to_owned());
        let url = url.or_default();
        if !url.starts_with("file:") {
            url.clear();
            url.push_str(&self.netns_url);
        }
    }
}

/// A name of [`InterfaceName::LONGEST`] bytes: the beginning of the service's name, and what tells
/// the connection from others of that service.
fn interface_name(service: &str, connection: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    let service = service.split('@').next().unwrap_or_default();
    let mut name: String = service.chars().filter(fits).take(OF_SERVICE).collect();
    name.push('-');
    let mut rest = fnv1a(connection);
    while name.len() < InterfaceName::LONGEST {
        let digit = b"0123456789abcdefghijklmnopqrstuv"[(rest % 32) as usize];
        name.push(char::from(digit));
        rest /= 32;
    }
    name
}

/// The 64-bit FNV-1a hash: equal in every build and release, which those of `std` are not.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl<S> Layer<S> for KernelMechanismLayer {
    type Service = KernelMechanisms<S>;

    fn layer(&self, inner: S) -> KernelMechanisms<S> {
        KernelMechanisms {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service of [`KernelMechanismLayer`]. Its errors are those from below.
#[derive(Clone, Debug)]
pub struct KernelMechanisms<S> {
    inner: S,
    layer: KernelMechanismLayer,
}

impl<S: NetworkService> Service<Call> for KernelMechanisms<S> {
    type Response = Connection;
    type Error = Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        self.layer.complete(&mut call);
        self.inner.call(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_name_begins_with_the_service_and_is_one_that_the_kernel_takes() {
        for (service, begin) in [
            ("icmp-responder@cluster2", "icmp-respo-"),
            ("net", "net-"),
            ("a/b:c%d", "abcd-"),
            ("größe", "gre-"),
            ("", "-"),
            ("..", "..-"),
        ] {
            let name = interface_name(service, "nsc-0");
            assert!(name.starts_with(begin), "{name}");
            assert_eq!(name.len(), 15);
            assert_eq!(InterfaceName::check(&name), Ok(()), "{name}");
        }
    }

    #[test]
    fn each_connection_has_a_name_of_its_own_that_never_changes_between_releases() {
        let names: BTreeSet<_> = (0..500)
            .map(|it| interface_name("icmp-responder", &format!("nsc-{it}")))
            .collect();
        assert_eq!(names.len(), 500);
        assert_eq!(interface_name("net", "nsc-0"), "net-iq7vj02hn7c");
    }
}
