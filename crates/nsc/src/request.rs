//! What a client asks for at first.

use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::INTERFACE_NAME;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_program::settings::ServiceUrl;

use crate::Config;

/// The first request of each connection, in the order of the settings, which gives each its id.
pub fn first_requests(config: &Config) -> Vec<NetworkServiceRequest> {
    let services = config.network_services.iter().enumerate();
    services
        .map(|(index, service)| first_request(config, index, service))
        .collect()
}

fn first_request(config: &Config, index: usize, service: &ServiceUrl) -> NetworkServiceRequest {
    let mut labels = config.labels.clone().into_inner();
    labels.extend(service.labels().clone());
    let mut mechanism = Mechanism::kernel();
    if let Some(name) = service.interface() {
        mechanism = mechanism.with_parameter(INTERFACE_NAME, name.as_str());
    }
    NetworkServiceRequest {
        connection: Some(Connection {
            // The first segment of the path gets this id, and with it all that hops keep by it.
            id: format!("{}-{index}", config.name),
            network_service: service.network_service().to_owned(),
            labels,
            ..Connection::default()
        }),
        mechanism_preferences: vec![mechanism],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn requests(arguments: &[&str]) -> Vec<NetworkServiceRequest> {
        let arguments = ["nsc"].iter().chain(arguments);
        first_requests(&Config::parse_from(arguments))
    }

    #[test]
    fn each_service_has_an_id_that_is_the_same_after_a_restart() {
        let requests = requests(&["--name=pod", "--network-services=a/nsm-0,kernel://b@c"]);

        let connections = requests.iter().filter_map(|it| it.connection.as_ref());
        let ids: Vec<_> = connections
            .map(|it| (it.id.as_str(), it.network_service.as_str()))
            .collect();
        assert_eq!(ids, [("pod-0", "a"), ("pod-1", "b@c")]);
    }

    #[test]
    fn an_interface_is_wanted_of_the_name_that_the_url_has() {
        let requests = requests(&["--network-services=a/nsm-0,b"]);

        let wanted = Mechanism::kernel().with_parameter(INTERFACE_NAME, "nsm-0");
        assert_eq!(requests[0].mechanism_preferences, [wanted]);
        assert_eq!(requests[1].mechanism_preferences, [Mechanism::kernel()]);
    }

    #[test]
    fn labels_of_the_url_come_before_those_of_the_client() {
        let requests = requests(&["--labels=app:x,zone:y", "--network-services=a?app=z"]);

        let labels = requests[0].connection.clone().unwrap().labels;
        assert_eq!((&*labels["app"], &*labels["zone"]), ("z", "y"));
    }
}
