//! The element at work: a chain of it alone, in one life of its process or another.

use crate::Error;
use crate::world::{Link, World};
use futures_util::future::join_all;
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::connectioncontext::PolicyRoute;
use nsm_api::mechanism::INTERFACE_NAME;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{Call, End};
use nsm_netlink::{Netns, Owner, TableRange};
use nsm_policyroute::{Config, OneNamespace, PolicyRoute as Service, PolicyRouteLayer};
use tokio::runtime::Runtime;
use tower::{Layer, ServiceExt};

/// The mark of its rules and routes: a forwarder's.
pub const PROTOCOL: u8 = 78;
/// The first of the tables that it hands out, and the last.
pub const TABLES: [u32; 2] = [20000, 24999];

/// The element.
#[derive(Debug)]
pub struct Element {
    runtime: Runtime,
    service: Service<OneNamespace<Netns>, End>,
}

impl Element {
    /// Starts with an empty memory.
    ///
    /// # Errors
    /// When there is no runtime, or no descriptor of the pod.
    pub fn start(world: &World) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let service = service(world)?;
        Ok(Self { runtime, service })
    }

    /// Dies and starts again: the next life knows nothing of this one.
    ///
    /// # Errors
    /// When there is no descriptor of the pod.
    pub fn restart(&mut self, world: &World) -> Result<(), Error> {
        self.service = service(world)?;
        Ok(())
    }

    /// Requests a connection, or refreshes it.
    ///
    /// # Errors
    /// Those of the element.
    pub fn request(&self, connection: &Connection) -> Result<(), Error> {
        self.request_all([connection])
    }

    /// Requests connections, all at once.
    ///
    /// # Errors
    /// The first of those of the element.
    pub fn request_all<'c>(
        &self,
        connections: impl IntoIterator<Item = &'c Connection>,
    ) -> Result<(), Error> {
        let calls = connections.into_iter().map(|connection| {
            let request = NetworkServiceRequest {
                connection: Some(connection.clone()),
                ..NetworkServiceRequest::default()
            };
            self.service.clone().oneshot(Call::request(request))
        });
        let answers = self.runtime.block_on(join_all(calls));
        answers.into_iter().try_for_each(answer)
    }

    /// Closes a connection.
    ///
    /// # Errors
    /// Those of the element.
    pub fn close(&self, connection: &Connection) -> Result<(), Error> {
        let call = self
            .service
            .clone()
            .oneshot(Call::close(connection.clone()));
        answer(self.runtime.block_on(call))
    }
}

fn service(world: &World) -> Result<Service<OneNamespace<Netns>, End>, Error> {
    let owner = Owner {
        protocol: PROTOCOL.try_into()?,
        tables: TableRange::new(TABLES[0], TABLES[1])?,
    };
    let pod = OneNamespace::new(Netns::from_fd(world.pod())?);
    Ok(PolicyRouteLayer::new(pod, Config::new(owner)).layer(End))
}

fn answer(answer: Result<Connection, nsm_chain::Error>) -> Result<(), Error> {
    match answer {
        Ok(_) => Ok(()),
        Err(error) => Err(error.report().to_string().into()),
    }
}

/// A connection by an interface, with policies.
pub fn connection(
    id: &str,
    link: Link,
    policies: impl IntoIterator<Item = PolicyRoute>,
) -> Connection {
    let mechanism = Mechanism::kernel().with_parameter(INTERFACE_NAME, link.name());
    let mut connection = Connection {
        id: id.to_owned(),
        mechanism: Some(mechanism),
        ..Connection::default()
    };
    connection.ip_context_mut().policies = policies.into_iter().collect();
    connection
}
