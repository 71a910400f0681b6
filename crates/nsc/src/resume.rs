//! What the next hop knows of a connection that a former process of this client has left.
//!
//! A client that was killed has forgotten its way. The next hop tells it, and the connection is
//! asked for as it stands: the same hops behind it, the same endpoint, the same addresses.

use futures_util::StreamExt;
use http::Extensions;
use nsm_api::connection::{
    Connection, ConnectionEvent, Mechanism, MonitorScopeSelector, PathSegment, State,
};
use nsm_api::mechanism::{INTERFACE_NAME, KernelMechanism, NETNS_URL, OWN_NETNS};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::monitor::{Watch, of_segment};
use nsm_grpc::Inode;
use tracing::{debug, info};

/// Asks the next hop for a connection, and makes the request one for what it knows.
///
/// It waits for the next hop as long as `watch` does. Whatever goes wrong, the request is as it was:
/// then it is a new connection.
pub async fn resume(
    mut request: NetworkServiceRequest,
    client: &Client,
    watch: &dyn Watch,
) -> NetworkServiceRequest {
    let Some(wanted) = &request.connection else {
        return request;
    };
    let own = PathSegment {
        id: wanted.id.clone(),
        ..PathSegment::default()
    };
    match told(watch, of_segment(&own)).await {
        Ok(event) => {
            let known = event.connections.into_values();
            let preferences = &request.mechanism_preferences;
            let mut ours = known.filter_map(|known| client.resumed(wanted, preferences, known));
            if let Some(resumed) = ours.next() {
                info!(
                    connection.id = resumed.id,
                    endpoint = resumed.network_service_endpoint_name,
                    "taking over what a former process has left"
                );
                request.connection = Some(resumed);
            }
        }
        Err(reason) => {
            debug!(
                connection.id = wanted.id,
                reason, "the next hop does not tell what stands"
            );
        }
    }
    request
}

/// The state of the connections that are selected.
async fn told(
    watch: &dyn Watch,
    selector: MonitorScopeSelector,
) -> Result<ConnectionEvent, String> {
    let mut events = watch.watch(&Extensions::new(), selector);
    match events.next().await {
        Some(Ok(event)) => Ok(event),
        Some(Err(error)) => Err(error.report().to_string()),
        None => Err("the stream has ended".to_owned()),
    }
}

/// Whose connections they are.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name in the path.
    pub name: String,
    /// Its network namespace: two pods may choose one name.
    pub netns: Inode,
}

impl Client {
    /// A connection as it is asked for, if what the next hop knows is that one: it begins here, and
    /// is for the same service and mechanism in the same namespace.
    fn resumed(
        &self,
        wanted: &Connection,
        preferences: &[Mechanism],
        known: Connection,
    ) -> Option<Connection> {
        let preferred = preferences.iter().find_map(KernelMechanism::of)?;
        let path = known.path.as_ref()?;
        let first = path.path_segments.first()?;
        let is_ours = path.index == 1
            && first.id == wanted.id
            && first.name == self.name
            && known.network_service == wanted.network_service;
        let netns: Inode = known.kernel_mechanism()?.netns_url()?.parse().ok()?;
        if !is_ours || netns != self.netns {
            return None;
        }
        let mut resumed = Connection {
            id: wanted.id.clone(),
            labels: wanted.labels.clone(),
            state: State::Up.into(),
            ..known
        };
        resumed.path.get_or_insert_default().index = 0;
        // Those were the former process's: what is excluded is known anew with each connection.
        resumed.ip_context_mut().excluded_prefixes.clear();
        let mechanism = resumed.mechanism.get_or_insert_default();
        let parameters = &mut mechanism.parameters;
        parameters.insert(NETNS_URL.to_owned(), OWN_NETNS.to_owned());
        // It may be another one now.
        if let Some(name) = preferred.interface_name() {
            parameters.insert(INTERFACE_NAME.to_owned(), name.to_owned());
        }
        Some(resumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::connection::Path;
    use nsm_chain::Monitor;

    fn client() -> Client {
        Client {
            name: "nsc".to_owned(),
            netns: Inode { dev: 4, ino: 1 },
        }
    }

    fn request() -> NetworkServiceRequest {
        NetworkServiceRequest {
            connection: Some(Connection {
                id: "nsc-0".to_owned(),
                network_service: "smtp".to_owned(),
                ..Connection::default()
            }),
            mechanism_preferences: vec![
                Mechanism::kernel().with_parameter(INTERFACE_NAME, "nsm-0"),
            ],
        }
    }

    /// As the forwarder has it.
    fn known() -> Connection {
        let mut connection = standing();
        let ip = connection.ip_context_mut();
        ip.src_ip_addrs.push("172.16.0.1/32".to_owned());
        ip.excluded_prefixes.push("172.16.1.1/32".to_owned());
        connection
    }

    fn standing() -> Connection {
        let segment = |(name, id): (&str, &str)| PathSegment {
            name: name.to_owned(),
            id: id.to_owned(),
            ..PathSegment::default()
        };
        let hops = [("nsc", "nsc-0"), ("forwarder", "f"), ("nse", "e")];
        Connection {
            id: "f".to_owned(),
            network_service: "smtp".to_owned(),
            network_service_endpoint_name: "nse".to_owned(),
            mechanism: Some(Mechanism::kernel().with_parameter(NETNS_URL, "inode://4/1")),
            state: State::Down.into(),
            path: Some(Path {
                index: 1,
                path_segments: hops.map(segment).into(),
            }),
            ..Connection::default()
        }
    }

    async fn resumed(known: Connection) -> Option<Connection> {
        let monitor = Monitor::new();
        monitor.update(&known);
        let first = request();
        let request = resume(first.clone(), &client(), &monitor).await;
        (request != first).then_some(request.connection?)
    }

    #[tokio::test]
    async fn a_connection_that_the_next_hop_knows_is_asked_for_as_it_stands() {
        let resumed = resumed(known()).await.unwrap();

        assert_eq!(resumed.id, "nsc-0");
        assert_eq!(resumed.network_service_endpoint_name, "nse");
        assert_eq!(resumed.state(), State::Up);
        assert_eq!(resumed.src_ip_addrs(), ["172.16.0.1/32"]);
        let context = resumed.context.clone().unwrap().ip_context.unwrap();
        assert!(context.excluded_prefixes.is_empty());
        let path = resumed.path.as_ref().unwrap();
        assert_eq!((path.index, path.path_segments.len()), (0, 3));
        let kernel = resumed.kernel_mechanism().unwrap();
        assert_eq!(
            kernel.netns_url(),
            Some(OWN_NETNS),
            "for a descriptor to go along"
        );
        assert_eq!(
            kernel.interface_name(),
            Some("nsm-0"),
            "as it is wanted now"
        );
    }

    #[tokio::test]
    async fn what_is_another_pods_service_or_hop_is_not_ours() {
        let elsewhere = Mechanism::kernel().with_parameter(NETNS_URL, "inode://4/2");
        let mut further = known();
        further.path.as_mut().unwrap().index = 2;
        let mut namesake = known();
        namesake.path.as_mut().unwrap().path_segments[0].name = "other".to_owned();
        for stranger in [
            Connection {
                mechanism: Some(elsewhere),
                ..known()
            },
            Connection {
                mechanism: None,
                ..known()
            },
            Connection {
                network_service: "http".to_owned(),
                ..known()
            },
            Connection {
                path: None,
                ..known()
            },
            further,
            namesake,
        ] {
            assert_eq!(resumed(stranger.clone()).await, None, "{stranger:?}");
        }
    }
}
