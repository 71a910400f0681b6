//! The whole endpoint, from top to bottom as a call passes it, each element with its name in traces.

use nsm_chain::token::Unsigned;
use nsm_chain::{
    BeginLayer, BoxNetworkService, DeadlineLayer, Elements, End, MetadataLayer, Monitor,
    MonitorLayer, Side, TimeoutLayer, TokenLayer, TraceLayer, UpdatePathLayer,
};
use nsm_endpoint::{
    DnsLayer, IpamLayer, LastHopLayer, MechanismsLayer, Offer, Policies, PoliciesLayer,
    ServicesLayer,
};
use nsm_grpc::{RecvFdLayer, SendFdLayer};
use nsm_program::TraceContextLayer;
use tower::ServiceBuilder;

use crate::Config;

/// What the endpoint does with a call. The monitor is the one that the policies tell of changes.
pub fn chain(config: &Config, policies: Policies, monitor: Monitor) -> BoxNetworkService {
    let token = Unsigned::new(&config.name, config.calls.max_token_lifetime.get());
    let request_timeout = config.calls.request_timeout.get();
    let services = config.service_names.iter().cloned();
    let prefixes = config.cidr_prefix.clone();
    ServiceBuilder::new()
        // Hides the chain's type from the server.
        .layer(BoxNetworkService::layer())
        // The caller's trace, before there is a span of ours.
        .layer(TraceContextLayer::new(Side::Server))
        // Sees every call with all that happens to it, and logs its error, once.
        .layer(TraceLayer)
        // The caller waits no longer than he says. What begin has started goes on.
        .server("deadline", DeadlineLayer::new(request_timeout))
        // Gives the connection its id of this hop, by which begin tells connections apart.
        .server("updatepath", UpdatePathLayer::new(config.name.as_str()))
        // From here on: one call at a time for a connection, each goes to its end, and a first
        // request that fails is undone.
        .server("begin", BeginLayer::new(Side::Server))
        // Until when the forwarder stands for the connection, and we do.
        .server("updatetoken", TokenLayer::new(Side::Server, token))
        // Elements below remember things of a connection.
        .server("metadata", MetadataLayer::new(Side::Server))
        // Below the tokens: closes what the forwarder has not asked for again in time.
        .server("timeout", TimeoutLayer::new())
        // Which connections there are, and what is new for them, for those who want to hear of it.
        .server("monitor", MonitorLayer::new(monitor))
        // Nothing comes behind us: the path ends here, and the connection gets our name.
        .server("trimpath", LastHopLayer::new(config.name.as_str()))
        // Takes the descriptor that a forwarder may send of the client's namespace, so that it does
        // not lie about for as long as the forwarder's transport lives.
        .server("recvfd", RecvFdLayer::server())
        // Above everything that gives a connection something: what is meant for others gets nothing.
        .server(
            "services",
            ServicesLayer::new(services, config.payload.as_str()),
        )
        // DNS servers, in place of those that the client has from others.
        .server("dnscontext", DnsLayer::new(&config.dns_configs))
        // Addresses for both ends, the same ones over refreshes and restarts.
        .server(
            "point2pointipam",
            IpamLayer::new(prefixes, config.ipam_policy),
        )
        // Below the IPAM, whose addresses it must see: a policy's source becomes one of the client's.
        // When the file changes, those whose policies change are asked to refresh, by the monitor.
        .server("policyroute", PoliciesLayer::new(policies))
        // An interface in our own namespace, or none where the client wants none.
        .server(
            "mechanisms",
            MechanismsLayer::new([Offer::kernel(), Offer::Noop]),
        )
        // Right behind it: what was named there goes along with the answer as a descriptor.
        .server("sendfd", SendFdLayer::server())
        // The answer is complete.
        .service(End)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use nsm_api::connection::{Connection, Mechanism, Path, PathSegment};
    use nsm_api::mechanism::NOOP;
    use nsm_api::networkservice::NetworkServiceRequest;
    use nsm_chain::{Call, now};
    use std::time::Duration;
    use tower::ServiceExt;

    fn endpoint() -> BoxNetworkService {
        let config = Config::parse_from(["nse", "--name=nse-1", "--service-names=net"]);
        chain(&config, Policies::default(), Monitor::new())
    }

    fn segment(name: &str, id: &str, life: Duration) -> PathSegment {
        PathSegment {
            name: name.to_owned(),
            id: id.to_owned(),
            expires: Some((now() + life).into()),
            ..PathSegment::default()
        }
    }

    /// A request as it comes from a forwarder whose connection had that way behind it before.
    fn request(behind: Vec<PathSegment>) -> Call {
        let before = ["nsc", "forwarder"].map(|hop| segment(hop, hop, Duration::from_secs(600)));
        let path_segments = before.into_iter().chain(behind).collect();
        Call::request(NetworkServiceRequest {
            connection: Some(Connection {
                id: "forwarder".to_owned(),
                network_service: "net".to_owned(),
                network_service_endpoint_name: "nse-0".to_owned(),
                path: Some(Path {
                    index: 1,
                    path_segments,
                }),
                ..Connection::default()
            }),
            mechanism_preferences: vec![Mechanism {
                r#type: NOOP.to_owned(),
                ..Mechanism::default()
            }],
        })
    }

    fn hops(connection: &Connection) -> Vec<(&str, &str)> {
        let segments = connection.path.iter().flat_map(|path| &path.path_segments);
        segments
            .map(|hop| (hop.name.as_str(), hop.id.as_str()))
            .collect()
    }

    #[tokio::test]
    async fn the_path_ends_at_the_endpoint_and_the_connection_has_its_name() {
        let behind = vec![
            segment("nse-1", "own", Duration::from_secs(1)),
            segment("further", "far", Duration::from_secs(1)),
        ];

        let answer = endpoint().oneshot(request(behind)).await.unwrap();

        let expected = [("nsc", "nsc"), ("forwarder", "forwarder"), ("nse-1", "own")];
        assert_eq!(hops(&answer), expected);
        assert_eq!(answer.path.as_ref().unwrap().index, 1);
        assert_eq!(answer.id, "forwarder");
        assert_eq!(answer.network_service_endpoint_name, "nse-1");
        let own = &answer.path.as_ref().unwrap().path_segments[2];
        let end = own.expires.unwrap().seconds;
        let least = prost_types::Timestamp::from(now() + Duration::from_secs(500));
        assert!(
            end > least.seconds,
            "the token of the endpoint is a new one"
        );
    }

    #[tokio::test]
    async fn a_refresh_with_the_answer_is_the_same_connection_and_a_close_finds_it() {
        let chain = endpoint();
        let first = chain.clone().oneshot(request(vec![])).await.unwrap();
        let [_, _, own] = &hops(&first)[..] else {
            panic!("{:?}", hops(&first));
        };
        let again = NetworkServiceRequest {
            connection: Some(first.clone()),
            ..NetworkServiceRequest::default()
        };

        let second = chain.clone().oneshot(Call::request(again)).await.unwrap();

        assert_eq!(hops(&second)[2], *own);
        assert_eq!(second.src_ip_addrs(), first.src_ip_addrs());
        chain.oneshot(Call::close(second)).await.unwrap();
    }
}
