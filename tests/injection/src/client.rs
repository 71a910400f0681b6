//! A client: what it asks for, and what it was answered last.

use crate::{Forwarder, Place};
use nsm_api::connection::{Connection, Mechanism, Path, PathSegment};
use nsm_api::mechanism::{INTERFACE_NAME, VLAN};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{Call, Error};
use nsm_netlink::Netns;
use nsm_policyroute::Received;
use std::sync::Arc;
use tower::ServiceExt;

/// A client with one connection.
#[derive(Debug, Clone)]
pub struct Client {
    /// The connection as it was answered last, or as it is asked for.
    pub connection: Connection,
    is_answered: bool,
    /// The namespace that it sends with each call.
    pub netns: Option<Arc<Netns>>,
}

impl Client {
    /// A client that asks for an interface in its pod, for packets.
    pub fn new(id: &str, pod: &Place, interface: &str) -> Self {
        let segment = PathSegment {
            name: "nsc".to_owned(),
            id: id.to_owned(),
            ..PathSegment::default()
        };
        let mechanism = Mechanism::kernel().with_parameter(INTERFACE_NAME, interface);
        Self {
            connection: Connection {
                id: id.to_owned(),
                mechanism: Some(mechanism),
                payload: "IP".to_owned(),
                path: Some(Path {
                    index: 0,
                    path_segments: vec![segment],
                }),
                ..Connection::default()
            },
            is_answered: false,
            netns: Some(Arc::clone(pod.netns())),
        }
    }

    /// Asks for another name from now on.
    pub fn rename(&mut self, interface: &str) {
        self.set(INTERFACE_NAME, interface);
    }

    /// Asks for a VLAN, or for none.
    pub fn set_vlan(&mut self, vlan: &str) {
        self.set(VLAN, vlan);
    }

    fn set(&mut self, parameter: &str, value: &str) {
        let mechanism = self.connection.mechanism.as_mut().unwrap();
        mechanism
            .parameters
            .insert(parameter.to_owned(), value.to_owned());
    }

    /// Moves to another pod.
    pub fn move_to(&mut self, pod: &Place) {
        self.netns = Some(Arc::clone(pod.netns()));
    }

    /// Requests, first or again.
    ///
    /// # Errors
    /// Those of the chain. The client goes on with what it had.
    pub async fn request(&mut self, forwarder: &Forwarder) -> Result<(), Error> {
        let mut connection = self.connection.clone();
        let mut mechanism_preferences = Vec::new();
        if !self.is_answered {
            // At first the mechanism is still to be chosen.
            mechanism_preferences.extend(connection.mechanism.take());
        }
        let request = NetworkServiceRequest {
            connection: Some(connection),
            mechanism_preferences,
        };
        let call = self.call(Call::request(request));
        self.connection = forwarder.chain.clone().oneshot(call).await?;
        self.is_answered = true;
        Ok(())
    }

    /// Closes.
    ///
    /// # Errors
    /// Those of the chain.
    pub async fn close(&self, forwarder: &Forwarder) -> Result<(), Error> {
        let call = self.call(Call::close(self.connection.clone()));
        forwarder.chain.clone().oneshot(call).await.map(|_| ())
    }

    fn call(&self, mut call: Call) -> Call {
        if let Some(netns) = &self.netns {
            call.extensions.insert(Received(Arc::clone(netns)));
        }
        call
    }
}
