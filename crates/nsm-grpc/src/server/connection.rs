//! One connection of a server.

use std::convert::Infallible;
use std::pin::pin;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use nsm_chain::ErrorChain;
use tokio::sync::{Notify, watch};
use tokio::time::{Duration, sleep, timeout};

use super::Limits;
use super::routes::{Routes, refused};
use crate::socket::Socket;

/// How long a peer that is not served may take for its call. It holds a descriptor that the work
/// may need.
const REFUSAL: Duration = Duration::from_secs(1);

/// Answers the calls of a connection until the peer closes it or the server stops.
pub(super) async fn serve(
    socket: Socket,
    routes: Routes,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    let peer = socket.peer();
    let spoken = socket.spoken();
    let service = service_fn(move |request| {
        let peer = peer.as_ref().map(crate::Peer::for_call);
        let answer = routes.clone().answer(request, peer);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection = pin!(http(limits).serve_connection(TokioIo::new(socket), service));

    let mut first_word = spoken.clone();
    let silence = async {
        tokio::select! {
            // An error means that the socket is gone, which the connection tells by itself.
            () = async { drop(first_word.wait_for(|spoken| *spoken).await) } => std::future::pending().await,
            () = sleep(limits.silence) => {}
        }
    };
    // A guard of the channel's must not live on into the await behind it.
    let stopped = async { drop(stopping.wait_for(|stop| *stop).await) };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = silence => {
            tracing::debug!("a connection is closed that says nothing");
            return;
        }
        () = stopped => {
            if !*spoken.borrow() {
                return;
            }
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // A peer that was killed, or speaks something else.
        tracing::debug!(error = %ErrorChain(&error), "a connection has broken");
    }
}

fn http(limits: Limits) -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        // A hop before that closes all its connections cancels all its streams at once.
        .max_pending_accept_reset_streams(limits.streams as usize)
        .max_header_list_size(limits.headers);
    http
}

/// Tells a peer that it is not served, when it calls, and closes the connection.
pub(super) async fn refuse(socket: Socket, limits: Limits) {
    let told = Notify::new();
    let service = service_fn(|_| {
        told.notify_one();
        async { Ok::<_, Infallible>(refused()) }
    });
    let mut connection = pin!(http(limits).serve_connection(TokioIo::new(socket), service));
    let ended = async {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = told.notified() => connection.as_mut().graceful_shutdown(),
        }
        // Broken or closed: both are an end.
        drop(connection.await);
    };
    drop(timeout(REFUSAL, ended).await);
}
