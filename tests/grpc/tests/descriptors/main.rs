//! Descriptors that travel with calls and answers.

// What fails here fails a test.
#![allow(clippy::unwrap_used)]

mod answers;
mod held;
mod refused;
mod requests;

use std::fs::File;

use grpc_suite::{Folder, Serving, connection};
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::NETNS_URL;
use nsm_chain::Call;
use nsm_chain::test_util::{Recorder, echo};
use nsm_grpc::{Inode, ReceivedFd, RecvFdLayer};
use tower::{Layer, ServiceBuilder};

/// A file that stands for a network namespace: to the edge both are descriptors.
fn netns(folder: &Folder, name: &str) -> (String, Inode) {
    let file = File::create(folder.file(name)).unwrap();
    let url = format!("file://{}", folder.file(name).display());
    (url, Inode::of(&file).unwrap())
}

fn kernel(url: &str) -> Mechanism {
    Mechanism::kernel().with_parameter(NETNS_URL, url)
}

fn with_mechanism(id: &str, url: &str) -> Connection {
    Connection {
        mechanism: Some(kernel(url)),
        ..connection(id)
    }
}

fn url(connection: &Connection) -> &str {
    &connection.mechanism.as_ref().unwrap().parameters[NETNS_URL]
}

fn received(call: &Call) -> Option<Inode> {
    let received = call.extensions.get::<ReceivedFd>()?;
    Some(Inode::of(&received.0).unwrap())
}

/// The server's side of a forwarder or an endpoint, as far as descriptors go.
async fn receiving(folder: &Folder, name: &str) -> (Serving, Recorder) {
    let seen = Recorder::new();
    let chain = ServiceBuilder::new()
        .layer(RecvFdLayer::server())
        .service(seen.layer(echo()));
    (Serving::chain(&folder.socket(name), chain).await, seen)
}
