//! The shortest program that puts policyroute into a chain, on the fake kernel.
#![allow(clippy::print_stdout, reason = "it shows what it does")]

use nsm_api::connection::{Connection, Mechanism};
use nsm_api::connectioncontext::PolicyRoute;
use nsm_api::mechanism::INTERFACE_NAME;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{BeginLayer, Call, End, Side, TraceLayer, UpdatePathLayer};
use nsm_netlink::fake::FakeNamespace;
use nsm_netlink::{Family, Owner};
use nsm_policyroute::{Config, OneNamespace, PolicyRouteLayer};
use tower::{ServiceBuilder, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `Netns::current()?` in place of the fake works on the kernel, in this process's namespace.
    let pod = FakeNamespace::new();
    pod.set_up(pod.add_link("nsm-1")?)?;

    let owner = Owner {
        protocol: 79.try_into()?,
        tables: "25000-29999".parse()?,
    };
    let chain = ServiceBuilder::new()
        .layer(TraceLayer)
        .layer(UpdatePathLayer::new("nsc"))
        .layer(BeginLayer::new(Side::Client))
        .layer(PolicyRouteLayer::new(
            OneNamespace::new(pod.clone()),
            Config::new(owner),
        ))
        .service(End); // a gRPC client, in a program

    // What an endpoint would answer: SMTP from this address leaves by nsm-1.
    let mut connection = Connection {
        id: "nsc-1".to_owned(),
        mechanism: Some(Mechanism::kernel().with_parameter(INTERFACE_NAME, "nsm-1")),
        ..Connection::default()
    };
    connection.ip_context_mut().policies.push(PolicyRoute {
        from: "172.16.1.2/32".to_owned(),
        proto: "tcp".to_owned(),
        dst_port: "25".to_owned(),
        ..PolicyRoute::default()
    });

    let request = NetworkServiceRequest {
        connection: Some(connection),
        ..Default::default()
    };
    let connection = chain.clone().oneshot(Call::request(request)).await?;
    pod.rules(Family::V4)
        .iter()
        .for_each(|rule| println!("{rule}"));

    chain.oneshot(Call::close(connection)).await?;
    println!("after the close: {} rules", pod.rules(Family::V4).len());
    Ok(())
}
