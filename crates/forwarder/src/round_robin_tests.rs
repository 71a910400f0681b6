//! A forwarder's choice of endpoints, in front of endpoints behind sockets.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use nsm_api::connection::{Path, PathSegment, State};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::test_util::FailOn;
use nsm_chain::{BeginLayer, BoxNetworkService, MetadataLayer, UpdatePathLayer};
use nsm_grpc::{Connect, Listener, Server, Transports};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tower::{ServiceBuilder, service_fn};

use super::*;
use crate::discover::DiscoverLayer;

/// A folder with sockets, and what has come to the endpoints there, as `request@a`.
struct World {
    folder: PathBuf,
    seen: Arc<Mutex<Vec<String>>>,
}

/// What an endpoint does with requests.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Answer,
    Refuse(ErrorKind),
    Nothing,
}

impl World {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("nsm-forwarder-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Self {
            folder,
            seen: Arc::default(),
        }
    }

    fn address(&self, name: &str) -> Address {
        Address::Unix(self.folder.join(name))
    }

    /// An endpoint that has its name and listens there. It ends with the task.
    async fn endpoint(&self, name: &'static str, does: Does) -> JoinHandle<()> {
        let seen = Arc::clone(&self.seen);
        let chain = service_fn(move |call: Call| {
            let word = format!("{}@{name}", call.operation.name());
            seen.lock().unwrap().push(word);
            let is_request = matches!(call.operation, Operation::Request(_));
            let mut connection = call.connection().clone();
            async move {
                match does {
                    Does::Refuse(kind) if is_request => {
                        return Err(Error::new(kind, "endpoint", "not today"));
                    }
                    Does::Nothing if is_request => std::future::pending().await,
                    _ => connection.network_service_endpoint_name = name.to_owned(),
                }
                Ok(connection)
            }
        });
        let listener = Listener::bind(&self.address(name)).await.unwrap();
        let server = Server::new(BoxNetworkService::new(Boxed(chain))).service_names(["net", name]);
        tokio::spawn(server.serve(listener, std::future::pending::<()>()))
    }

    /// A forwarder that knows these endpoints of one service, and remembers nothing.
    fn forwarder(&self, endpoints: &[&str]) -> BoxNetworkService {
        self.forwarder_with(endpoints, FailOn::request(0))
    }

    /// One in which something goes wrong above the choice of an endpoint.
    fn forwarder_with(&self, endpoints: &[&str], wrong: FailOn) -> BoxNetworkService {
        let transports = Transports::new(Duration::from_millis(750));
        let endpoints = endpoints.iter().map(|it| self.address(it)).collect();
        let services = BTreeMap::from([("net".to_owned(), endpoints)]);
        let directory = Directory::new(services, transports.clone());
        ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(UpdatePathLayer::new("forwarder"))
            .layer(BeginLayer::new(Side::Server))
            .layer(MetadataLayer::new(Side::Client))
            .layer(DiscoverLayer::new(directory.clone()))
            .layer(wrong)
            .layer(RoundRobinLayer::new(directory))
            .service(Connect::by_next_hop(transports))
    }

    /// What has come to the endpoints since.
    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Gives a service the future that a chain has.
#[derive(Clone)]
struct Boxed<S>(S);

impl<S> Service<Call> for Boxed<S>
where
    S: Service<Call, Response = Connection, Error = Error, Future: Send + 'static>,
{
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        Box::pin(self.0.call(call))
    }
}

async fn ask(
    forwarder: &BoxNetworkService,
    connection: &Connection,
    within: Duration,
) -> Result<Connection, Error> {
    let request = NetworkServiceRequest {
        connection: Some(connection.clone()),
        ..NetworkServiceRequest::default()
    };
    let mut call = Call::request(request);
    call.deadline = Some(Instant::now() + within);
    forwarder.clone().oneshot(call).await
}

async fn request(forwarder: &BoxNetworkService, of: &Connection) -> Result<Connection, Error> {
    ask(forwarder, of, Duration::from_secs(10)).await
}

async fn close(forwarder: &BoxNetworkService, of: &Connection) -> Result<Connection, Error> {
    let mut call = Call::close(of.clone());
    call.deadline = Some(Instant::now() + Duration::from_secs(10));
    forwarder.clone().oneshot(call).await
}

fn connection(id: &str) -> Connection {
    Connection {
        id: id.to_owned(),
        network_service: "net".to_owned(),
        path: Some(Path {
            index: 0,
            path_segments: vec![segment("nsc", id)],
        }),
        ..Connection::default()
    }
}

fn segment(name: &str, id: &str) -> PathSegment {
    PathSegment {
        name: name.to_owned(),
        id: id.to_owned(),
        ..PathSegment::default()
    }
}

fn without_name(mut connection: Connection) -> Connection {
    connection.network_service_endpoint_name.clear();
    connection
}

fn named(id: &str, endpoint: &str) -> Connection {
    Connection {
        network_service_endpoint_name: endpoint.to_owned(),
        ..connection(id)
    }
}

#[tokio::test]
async fn connections_that_name_no_endpoint_go_to_each_in_turn() {
    let world = World::new();
    let _a = world.endpoint("a", Does::Answer).await;
    let _b = world.endpoint("b", Does::Answer).await;
    let forwarder = world.forwarder(&["a", "b"]);

    for id in ["1", "2", "3", "4"] {
        request(&forwarder, &connection(id)).await.unwrap();
    }

    let expected = ["request@a", "request@b", "request@a", "request@b"];
    assert_eq!(world.seen(), expected);
}

#[tokio::test]
async fn a_request_goes_on_to_the_next_endpoint_where_one_does_not_take_it() {
    for (does, before) in [
        (None, &[][..]),
        (
            Some(Does::Refuse(ErrorKind::ResourceExhausted)),
            &["request@a"],
        ),
        (Some(Does::Refuse(ErrorKind::Unavailable)), &["request@a"]),
    ] {
        let world = World::new();
        let _a = match does {
            Some(does) => Some(world.endpoint("a", does).await),
            None => None,
        };
        let _b = world.endpoint("b", Does::Answer).await;
        let forwarder = world.forwarder(&["a", "b"]);
        let start = Instant::now();

        let answer = request(&forwarder, &connection("1")).await.unwrap();

        assert_eq!(answer.network_service_endpoint_name, "b");
        assert_eq!(world.seen(), [before, &["request@b"]].concat());
        assert!(
            start.elapsed() < Duration::from_secs(2),
            "nobody is waited for"
        );
    }
}

#[tokio::test]
async fn an_endpoint_that_says_nothing_has_a_share_of_the_time() {
    let world = World::new();
    let _a = world.endpoint("a", Does::Nothing).await;
    let _b = world.endpoint("b", Does::Answer).await;
    let forwarder = world.forwarder(&["a", "b"]);

    let answer = ask(&forwarder, &connection("1"), Duration::from_secs(2)).await;

    assert_eq!(answer.unwrap().network_service_endpoint_name, "b");
}

#[tokio::test]
async fn a_request_that_is_wrong_is_not_tried_elsewhere() {
    let world = World::new();
    let _a = world
        .endpoint("a", Does::Refuse(ErrorKind::InvalidArgument))
        .await;
    let _b = world.endpoint("b", Does::Answer).await;
    let forwarder = world.forwarder(&["a", "b"]);

    let error = request(&forwarder, &connection("1")).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!world.seen().contains(&"request@b".to_owned()));
}

#[tokio::test]
async fn a_request_that_nobody_takes_is_answered_with_the_reasons_of_all() {
    let world = World::new();
    let _b = world
        .endpoint("b", Does::Refuse(ErrorKind::ResourceExhausted))
        .await;
    let forwarder = world.forwarder(&["a", "b"]);

    let error = request(&forwarder, &connection("1")).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    let report = error.report().to_string();
    for words in ["none of 2 endpoints", "/a is not reached", "not today"] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let nobody = world.forwarder(&["x", "y"]);
    let error = request(&nobody, &connection("2")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_connection_goes_to_the_endpoint_that_it_names_also_after_a_restart() {
    let world = World::new();
    let _a = world.endpoint("a", Does::Answer).await;
    let _b = world.endpoint("b", Does::Answer).await;
    let forwarder = world.forwarder(&["a", "b"]);

    // Nobody has heard of it yet, so that the endpoints are asked.
    for _ in 0..3 {
        let answer = request(&forwarder, &named("1", "b")).await.unwrap();
        assert_eq!(answer.network_service_endpoint_name, "b");
    }
    assert_eq!(world.seen(), ["request@b"; 3]);
    close(&world.forwarder(&["a", "b"]), &named("1", "b"))
        .await
        .unwrap();
    assert_eq!(world.seen(), ["close@b"]);
}

#[tokio::test]
async fn who_names_an_endpoint_that_is_not_reached_is_told_to_ask_for_another_one() {
    let world = World::new();
    let a = world.endpoint("a", Does::Answer).await;
    let _b = world.endpoint("b", Does::Answer).await;
    let forwarder = world.forwarder(&["a", "b"]);
    let stands = request(&forwarder, &named("1", "a")).await.unwrap();
    a.abort();
    a.await.ok();

    // One who has learned where it was, and one who has not.
    for forwarder in [forwarder, world.forwarder(&["a", "b"])] {
        let start = Instant::now();
        let error = request(&forwarder, &stands).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::NotFound);
        let report = error.report().to_string();
        let words = "endpoint \"a\" of network service \"net\" is not reached: ask for another one";
        assert!(report.contains(words), "{report}");
        assert!(
            start.elapsed() < Duration::from_secs(2),
            "it is not waited for"
        );
    }
}

#[tokio::test]
async fn the_only_endpoint_of_a_service_is_waited_for_whatever_is_named() {
    let world = World::new();
    let forwarder = world.forwarder(&["a"]);
    let waiting = named("1", "somebody");
    let starts = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Some(world.endpoint("a", Does::Answer).await)
    };

    let (answer, _a) = tokio::join!(request(&forwarder, &waiting), starts);

    assert_eq!(answer.unwrap().network_service_endpoint_name, "a");
    let within = Duration::from_millis(500);
    let error = ask(&world.forwarder(&["b"]), &waiting, within).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_refresh_and_a_close_go_where_the_connection_stands() {
    let world = World::new();
    let _a = world.endpoint("a", Does::Answer).await;
    let _b = world.endpoint("b", Does::Answer).await;
    let forwarder = world.forwarder(&["a", "b"]);
    let other = request(&forwarder, &connection("1")).await.unwrap();

    let mut stands = connection("2");
    for _ in 0..3 {
        stands = without_name(request(&forwarder, &stands).await.unwrap());
    }
    close(&forwarder, &stands).await.unwrap();
    close(&forwarder, &other).await.unwrap();

    let expected = [
        "request@a",
        "request@b",
        "request@b",
        "request@b",
        "close@b",
        "close@a",
    ];
    assert_eq!(world.seen(), expected);
}

#[tokio::test]
async fn a_connection_that_stands_does_not_move_because_its_endpoint_refuses() {
    let world = World::new();
    let a = world.endpoint("a", Does::Answer).await;
    let _b = world.endpoint("b", Does::Answer).await;
    let forwarder = world.forwarder(&["a", "b"]);
    let stands = request(&forwarder, &connection("1")).await.unwrap();
    let stands = without_name(stands);
    a.abort();
    a.await.ok();
    let a = world
        .endpoint("a", Does::Refuse(ErrorKind::FailedPrecondition))
        .await;

    let error = request(&forwarder, &stands).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);

    // When it is not reached it does.
    a.abort();
    a.await.ok();
    let answer = request(&forwarder, &stands).await.unwrap();
    assert_eq!(answer.network_service_endpoint_name, "b");
    assert_eq!(world.seen(), ["request@a", "request@a", "request@b"]);
}

#[tokio::test]
async fn a_connection_that_goes_elsewhere_is_closed_where_it_was_first() {
    let world = World::new();
    let _a = world.endpoint("a", Does::Answer).await;
    let _b = world.endpoint("b", Does::Answer).await;
    let forwarder = world.forwarder(&["a", "b"]);
    let mut stands = request(&forwarder, &named("1", "a")).await.unwrap();

    stands.network_service_endpoint_name = "b".to_owned();
    let stands = request(&forwarder, &stands).await.unwrap();
    close(&forwarder, &without_name(stands)).await.unwrap();

    let expected = ["request@a", "close@a", "request@b", "close@b"];
    assert_eq!(world.seen(), expected);
}

#[tokio::test]
async fn what_is_selected_anew_goes_elsewhere_if_it_can() {
    let world = World::new();
    let _a = world.endpoint("a", Does::Answer).await;
    let b = world.endpoint("b", Does::Answer).await;
    let forwarder = world.forwarder(&["a", "b"]);
    let mut stands = request(&forwarder, &connection("1")).await.unwrap();
    let anew = |stands: &Connection| {
        let mut anew = stands.clone();
        anew.network_service_endpoint_name.clear();
        anew.set_state(State::ReselectRequested);
        // As endpoints leave it, whose segment is behind ours.
        let path = anew.path.get_or_insert_default();
        path.path_segments.truncate(2);
        let there = segment(&stands.network_service_endpoint_name, "there");
        path.path_segments.push(there);
        anew
    };

    for there in ["b", "a", "b"] {
        stands = request(&forwarder, &anew(&stands)).await.unwrap();
        assert_eq!(stands.network_service_endpoint_name, there);
    }
    b.abort();
    b.await.ok();
    for _ in 0..2 {
        stands = request(&forwarder, &anew(&stands)).await.unwrap();
        assert_eq!(
            stands.network_service_endpoint_name, "a",
            "there is no other"
        );
    }
}

#[tokio::test]
async fn a_request_that_fails_above_is_undone_where_it_came_to() {
    let world = World::new();
    let _a = world.endpoint("a", Does::Answer).await;
    let _b = world.endpoint("b", Does::Answer).await;
    let wrong = FailOn::request(2).on_the_way_up();
    let forwarder = world.forwarder_with(&["a", "b"], wrong);
    request(&forwarder, &connection("1")).await.unwrap();

    request(&forwarder, &connection("2")).await.unwrap_err();

    assert_eq!(world.seen(), ["request@a", "request@b", "close@b"]);
}

#[tokio::test]
async fn a_close_that_has_nowhere_to_go_ends_here_and_a_request_is_not_found() {
    let world = World::new();
    let _a = world.endpoint("a", Does::Answer).await;
    let _b = world.endpoint("b", Does::Answer).await;
    let forwarder = world.forwarder(&["a", "b"]);
    let unknown = Connection {
        network_service: "http".to_owned(),
        ..connection("1")
    };

    close(&forwarder, &unknown).await.unwrap();
    close(&forwarder, &named("2", "c")).await.unwrap();
    close(&forwarder, &connection("3")).await.unwrap();
    let error = request(&forwarder, &unknown).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::NotFound);
    let words = "there is no endpoint of network service \"http\": known are net";
    assert!(
        error.report().to_string().ends_with(words),
        "{}",
        error.report()
    );
    assert_eq!(world.seen(), [""; 0]);
}
