//! A server that is not made of this crate.

use std::io::Cursor;
use std::time::Duration;

use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderValue, Response};
use nsm_api::connection::{ConnectionEvent, ConnectionEventType};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

type Frame = Cursor<Vec<u8>>;

/// What the peer does with a call for events.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    /// Answers it with a status.
    Refuses(u16),
    /// Sends the first event, and then a status.
    Ends(u16),
    /// Sends the first event, and cuts the stream off.
    Cuts(Reason),
    /// Sends nothing at all.
    SaysNothing,
    /// Sends headers, and nothing else.
    SendsHeaders,
    /// Sends the first event, and no other.
    Goes,
    /// Refuses the call as one that it has not begun with.
    TakesNone,
    /// As `Goes`, and says that it takes no more calls.
    GoesAway,
}

/// A peer that serves every connection in the same way, until it is dropped or frozen.
pub struct Peer {
    frozen: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Peer {
    pub fn at(path: &std::path::Path, does: Does) -> Self {
        Self::with_room(path, does, 1000)
    }

    /// One that takes so many calls and streams at once.
    pub fn with_room(path: &std::path::Path, does: Does, room: u32) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let frozen = watch::Sender::new(false);
        let is_frozen = frozen.subscribe();
        let task = tokio::spawn(async move {
            loop {
                let mut freezes = is_frozen.clone();
                let stream = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap().0,
                    _ = freezes.changed() => std::future::pending().await,
                };
                tokio::spawn(serve(stream, does, room, is_frozen.clone()));
            }
        });
        Self { frozen, task }
    }

    /// Does nothing any more, and keeps all connections.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    does: Does,
    room: u32,
    mut frozen: watch::Receiver<bool>,
) {
    let mut http = h2::server::Builder::new()
        .max_concurrent_streams(room)
        .handshake::<_, Frame>(stream)
        .await
        .unwrap();
    let mut open = Vec::new();
    loop {
        let (request, respond) = tokio::select! {
            call = http.accept() => match call {
                Some(Ok(call)) => call,
                _ => return,
            },
            thawed = frozen.changed() => match thawed {
                Ok(()) => std::future::pending().await,
                // The peer is dropped, and all goes.
                Err(_) => return,
            },
        };
        if request.uri().path().contains("MonitorConnection") {
            open.push(monitor(respond, does));
            if let Does::GoesAway = does {
                http.graceful_shutdown();
            }
        } else {
            answer(respond);
        }
    }
}

/// What has to be held for the stream to stay.
enum Held {
    Nothing,
    Response(#[allow(dead_code)] SendResponse<Frame>),
    Stream(#[allow(dead_code)] SendStream<Frame>),
}

fn monitor(mut respond: SendResponse<Frame>, does: Does) -> Held {
    match does {
        Does::SaysNothing => return Held::Response(respond),
        Does::TakesNone => {
            respond.send_reset(Reason::REFUSED_STREAM);
            return Held::Nothing;
        }
        Does::Refuses(code) => {
            let mut refused = head();
            refused.headers_mut().extend(status(code));
            respond.send_response(refused, true).unwrap();
            return Held::Nothing;
        }
        _ => {}
    }
    let mut stream = respond.send_response(head(), false).unwrap();
    if let Does::SendsHeaders = does {
        return Held::Stream(stream);
    }
    let first = ConnectionEvent {
        r#type: ConnectionEventType::InitialStateTransfer.into(),
        ..ConnectionEvent::default()
    };
    stream.send_data(frame(&first), false).unwrap();
    match does {
        Does::Ends(code) => {
            stream.send_trailers(status(code)).unwrap();
            Held::Nothing
        }
        Does::Cuts(reason) => {
            // Behind the event.
            tokio::spawn(async move {
                sleep(Duration::from_millis(50)).await;
                stream.send_reset(reason);
            });
            Held::Nothing
        }
        _ => Held::Stream(stream),
    }
}

/// Answers with a message that is empty, whatever the call is.
fn answer(mut respond: SendResponse<Frame>) {
    let mut stream = respond.send_response(head(), false).unwrap();
    stream.send_data(frame(&()), false).unwrap();
    stream.send_trailers(status(0)).unwrap();
}

fn head() -> Response<()> {
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(()).unwrap()
}

fn status(code: u16) -> HeaderMap {
    HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        HeaderValue::from(code),
    )])
}

fn frame(message: &impl Message) -> Frame {
    let message = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    Cursor::new(frame)
}
