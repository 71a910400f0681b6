//! Descriptors made to namespaces, on the way to both chains.

use injection_suite::Place;
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::{INTERFACE_NAME, VLAN};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::metadata::Store;
use nsm_chain::test_util::{Recorder, echo};
use nsm_chain::{BoxNetworkService, Call, ErrorKind, MetadataLayer, Side};
use nsm_kernel::{Endpoint, EndpointSlot, ReceivedNetnsLayer};
use nsm_netlink::{Namespace, Netns};
use nsm_policyroute::Received;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use tower::{ServiceBuilder, ServiceExt};

crate::cases![
    a_descriptor_becomes_the_clients_namespace,
    a_descriptor_that_is_no_namespace_or_the_forwarders_own_is_refused,
    a_close_goes_on_without_a_namespace,
    the_endpoints_answer_tells_where_its_end_goes,
    an_endpoints_descriptor_that_is_no_namespace_or_the_forwarders_own_is_refused,
    an_answer_of_another_mechanism_tells_nothing,
];

/// How a transport would hand over a descriptor.
#[derive(Debug, Clone)]
struct Descriptor(Arc<OwnedFd>);

fn descriptor(of: impl AsFd) -> Descriptor {
    Descriptor(Arc::new(of.as_fd().try_clone_to_owned().unwrap()))
}

fn own() -> nsm_netlink::NetnsId {
    Netns::current().unwrap().id()
}

fn server(recorder: &Recorder) -> BoxNetworkService {
    let found = ReceivedNetnsLayer::of_client(|extensions| {
        Some(Arc::clone(&extensions.get::<Descriptor>()?.0))
    });
    ServiceBuilder::new()
        .layer(BoxNetworkService::layer())
        .layer(found.except(own()))
        .layer(recorder.clone())
        .service(echo())
}

fn connection() -> Connection {
    Connection {
        id: "c".to_owned(),
        mechanism: Some(Mechanism::kernel().with_parameter(INTERFACE_NAME, "client-7")),
        ..Connection::default()
    }
}

fn request(connection: Connection) -> Call {
    Call::request(NetworkServiceRequest {
        connection: Some(connection),
        ..NetworkServiceRequest::default()
    })
}

async fn a_descriptor_becomes_the_clients_namespace() {
    let pod = Place::new();
    let recorder = Recorder::new();
    for mut call in [request(connection()), Call::close(connection())] {
        call.extensions.insert(descriptor(pod.netns()));

        server(&recorder).oneshot(call).await.unwrap();

        let seen = recorder.last();
        let received = seen.extensions.get::<Received<Netns>>().unwrap();
        assert_eq!(received.0.id(), pod.netns().id());
    }
}

async fn a_descriptor_that_is_no_namespace_or_the_forwarders_own_is_refused() {
    let recorder = Recorder::new();
    let null = File::open("/dev/null").unwrap();
    let uts = File::open("/proc/self/ns/uts").unwrap();
    for (fd, says) in [
        (descriptor(null), "the file is no namespace"),
        (descriptor(uts), "a namespace of the uts kind"),
        (descriptor(Netns::current().unwrap()), "the forwarder's own"),
    ] {
        let mut call = request(connection());
        call.extensions.insert(fd);

        let error = server(&recorder).oneshot(call).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
        let report = error.report().to_string();
        assert!(
            report.contains("client") && report.contains(says),
            "{report}"
        );
    }
    assert!(recorder.calls().is_empty());
}

async fn a_close_goes_on_without_a_namespace() {
    let recorder = Recorder::new();
    let mut call = Call::close(connection());
    call.extensions
        .insert(descriptor(File::open("/dev/null").unwrap()));

    server(&recorder).oneshot(call).await.unwrap();

    assert_eq!(recorder.operations(), ["close"]);
    assert!(
        recorder
            .last()
            .extensions
            .get::<Received<Netns>>()
            .is_none()
    );
}

/// What receives an endpoint's descriptor: it goes into the store of the client side.
fn client(fd: Option<Descriptor>, answer: Connection) -> BoxNetworkService {
    let layer = ReceivedNetnsLayer::of_endpoint(|store| Some(store.get::<Descriptor>()?.0));
    let receive = tower::service_fn(move |call: Call| {
        let (fd, answer) = (fd.clone(), answer.clone());
        async move {
            if let (Some(fd), Some(store)) = (fd, Store::of(&call, Side::Client)) {
                store.insert(fd);
            }
            Ok::<_, nsm_chain::Error>(answer)
        }
    });
    ServiceBuilder::new()
        .layer(BoxNetworkService::layer())
        .layer(MetadataLayer::new(Side::Client))
        .layer(layer.except(own()))
        .service(receive)
}

async fn answered(chain: BoxNetworkService) -> Result<Option<Endpoint>, nsm_chain::Error> {
    let slot = EndpointSlot::default();
    let mut call = request(connection());
    call.extensions.insert(slot.clone());
    chain.oneshot(call).await?;
    Ok(slot.take())
}

async fn the_endpoints_answer_tells_where_its_end_goes() {
    let place = Place::new();

    let endpoint = answered(client(Some(descriptor(place.netns())), connection())).await;

    let endpoint = endpoint.unwrap().unwrap();
    assert_eq!(endpoint.netns.id(), place.netns().id());
    assert_eq!(endpoint.interface.as_deref(), Some("client-7"));
}

async fn an_endpoints_descriptor_that_is_no_namespace_or_the_forwarders_own_is_refused() {
    let null = descriptor(File::open("/dev/null").unwrap());
    for fd in [null, descriptor(Netns::current().unwrap())] {
        let error = answered(client(Some(fd), connection())).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
        assert!(error.report().to_string().contains("the endpoint sent"));
    }
}

async fn an_answer_of_another_mechanism_tells_nothing() {
    let place = Place::new();
    let mut vlan = connection();
    vlan.mechanism = vlan.mechanism.map(|it| it.with_parameter(VLAN, "7"));
    let mut vxlan = connection();
    vxlan.mechanism = Some(Mechanism::default());
    let fd = Some(descriptor(place.netns()));
    for (fd, answer) in [(fd.clone(), vlan), (fd, vxlan), (None, connection())] {
        assert!(answered(client(fd, answer)).await.unwrap().is_none());
    }
}
