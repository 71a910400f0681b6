//! The time that a client gives a call, as the endpoint sees it behind a forwarder.

use e2e::{Caller, Mesh, RawPeer, Sent, assert_status, first_request, until};
use libtest_mimic::Trial;
use nsm_chain::{BoxNetworkService, Call, End, ErrorKind, NetworkService};
use nsm_grpc::{Listener, Server};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tonic::Code;
use tower::{ServiceExt, service_fn};

/// What the clocks of two processes, and the way between them, may take.
const WAY: Duration = Duration::from_millis(250);

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        an_endpoint_has_what_is_left_of_the_clients_time,
        a_client_that_gives_no_time_has_that_of_the_forwarder,
    ]
}

/// A call that came to the endpoint.
#[derive(Debug, Clone, Copy)]
struct Seen {
    operation: &'static str,
    at: Instant,
    left: Option<Duration>,
}

/// An endpoint that never answers to a request, and at once to a close.
struct Slow {
    runtime: Runtime,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Slow {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        Self {
            runtime: runtime.unwrap(),
            seen: Arc::default(),
        }
    }

    /// Begins to listen.
    fn serve(&self, mesh: &Mesh) {
        let listen_on = mesh.url("nse-0").parse().unwrap();
        let chain = BoxNetworkService::new(Self::chain(Arc::clone(&self.seen)));
        self.runtime.spawn(async move {
            let listener = Listener::bind(&listen_on).await.unwrap();
            Server::new(chain)
                .serve(listener, std::future::pending())
                .await;
        });
    }

    fn chain(seen: Arc<Mutex<Vec<Seen>>>) -> impl NetworkService {
        service_fn(move |call: Call| {
            let operation = call.operation.name();
            let left = |deadline: tokio::time::Instant| deadline - tokio::time::Instant::now();
            seen.lock().unwrap().push(Seen {
                operation,
                at: Instant::now(),
                left: call.deadline.map(left),
            });
            async move {
                if operation == "request" {
                    std::future::pending::<()>().await;
                }
                End.oneshot(call).await
            }
        })
    }

    /// Waits for a call.
    #[track_caller]
    fn until_seen(&self, operation: &str) -> Seen {
        let find = || {
            let seen = self.seen.lock().unwrap();
            seen.iter().find(|it| it.operation == operation).copied()
        };
        until("the endpoint is called", || find().is_some());
        find().unwrap()
    }
}

fn an_endpoint_has_what_is_left_of_the_clients_time() {
    const GIVEN: Duration = Duration::from_secs(2);
    let mesh = Mesh::new(1, 1);
    let forwarder = mesh.forwarder(&["--request-timeout=30s"]);
    forwarder.until_logged("serving", 1);
    let caller = Caller::new(&mesh.url("forwarder"), &["--request-timeout=2s"]);
    let request = caller.ask_for("1", &mesh.pods[0], "nsm-0");
    let slow = Slow::new();

    let start = Instant::now();
    let answer = thread::scope(|scope| {
        let answer = scope.spawn(|| (caller.request(request), Instant::now()));
        // The forwarder waits for its endpoint so long.
        thread::sleep(Duration::from_millis(700));
        slow.serve(&mesh);
        answer.join().unwrap()
    });

    let seen = slow.until_seen("request");
    let (left, right) = (seen.left.unwrap(), GIVEN - (seen.at - start));
    assert!(seen.at - start > Duration::from_millis(600));
    let off = left.abs_diff(right);
    assert!(off < WAY, "{left:?} are seen, and {right:?} are left");
    let (answer, at) = answer;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    assert!(at - start < GIVEN + WAY, "{:?}", at - start);
    // What may have come of it is closed, with a time of its own.
    let close = slow.until_seen("close");
    assert!(close.left.unwrap() > GIVEN - WAY, "{close:?}");
    mesh.is_clean();
}

fn a_client_that_gives_no_time_has_that_of_the_forwarder() {
    let mesh = Mesh::new(1, 1);
    let _forwarder = mesh.forwarder(&["--request-timeout=1s"]);
    let slow = Slow::new();
    slow.serve(&mesh);
    let peer = RawPeer::connect(&mesh.socket("forwarder"));
    let request = first_request("raw-0", &mesh.pods[0]);
    let sent = Sent::request(&request).with(&mesh.pods[0]);

    let start = Instant::now();
    let status = peer.call(&sent.header("grpc-timeout", ""));

    assert_status("too late", &status, Code::DeadlineExceeded, "in time");
    assert!(start.elapsed() < Duration::from_secs(1) + WAY);
    let left = slow.until_seen("request").left.unwrap();
    let second = Duration::from_secs(1);
    assert!(left > second - WAY && left <= second, "{left:?}");
}
