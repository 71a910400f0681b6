//! The proxy: takes questions over UDP and TCP, and passes them on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Duration, sleep, timeout};
use tracing::debug;

use crate::cache::{Cache, Key};
use crate::exchange::{ask, read_framed, write_framed};
use crate::routes::Routes;

/// How many questions are under way at once. More are not taken: who asked over UDP asks again.
const QUESTIONS: usize = 256;
/// How many TCP connections there are at once.
const CONNECTIONS: usize = 64;
/// How long a TCP connection may be quiet.
const IDLE: Duration = Duration::from_secs(10);
/// The longest question: nobody has as much to ask.
const LONGEST_QUESTION: usize = 4096;

/// A proxy that listens. It ends with this value, and so does all that it has started.
#[derive(Debug)]
pub(crate) struct Proxy {
    routes: watch::Sender<Routes>,
    address: SocketAddr,
    task: AbortHandle,
}

/// What every question needs.
#[derive(Debug)]
struct Shared {
    routes: watch::Receiver<Routes>,
    /// One for each set of routes: what one server says may be wrong where another is asked.
    cache: watch::Receiver<Arc<Cache>>,
}

impl Proxy {
    /// Listens for questions.
    ///
    /// # Errors
    /// When the address cannot be listened at, over UDP or over TCP.
    pub(crate) async fn start(address: SocketAddr, routes: Routes) -> io::Result<Self> {
        let socket = UdpSocket::bind(address).await?;
        // If a port was chosen it is the same for both.
        let address = socket.local_addr()?;
        let listener = TcpListener::bind(address).await?;
        let (routes, changes) = watch::channel(routes);
        let task = tokio::spawn(serve(Arc::new(socket), listener, changes));
        Ok(Self {
            routes,
            address,
            task: task.abort_handle(),
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks others from now on, and forgets what the former ones said.
    pub(crate) fn route(&self, routes: Routes) {
        self.routes.send_if_modified(|now| {
            let changes = *now != routes;
            *now = routes;
            changes
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    socket: Arc<UdpSocket>,
    listener: TcpListener,
    mut changes: watch::Receiver<Routes>,
) {
    let (caches, cache) = watch::channel(Arc::default());
    let shared = Arc::new(Shared {
        routes: changes.clone(),
        cache,
    });
    changes.mark_unchanged();
    // Dropped with this task, and with it all that runs in them.
    let mut questions = JoinSet::new();
    let mut connections = JoinSet::new();
    let mut buffer = vec![0; LONGEST_QUESTION];
    loop {
        tokio::select! {
            changed = changes.changed() => match changed {
                Ok(()) => caches.send_modify(|cache| *cache = Arc::default()),
                Err(_) => return,
            },
            received = socket.recv_from(&mut buffer), if questions.len() < QUESTIONS => {
                match received {
                    Ok((length, from)) => {
                        let question = buffer[..length].to_vec();
                        questions.spawn(over_udp(
                            Arc::clone(&shared),
                            Arc::clone(&socket),
                            question,
                            from,
                        ));
                    }
                    // An answer that could not be delivered is told of here.
                    Err(error) => debug!(%error, "nothing received"),
                }
            }
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => _ = connections.spawn(over_tcp(Arc::clone(&shared), stream)),
                Err(error) => {
                    debug!(%error, "no connection accepted");
                    // It may be for want of descriptors, and come again at once.
                    sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = questions.join_next() => {}
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn over_udp(
    shared: Arc<Shared>,
    socket: Arc<UdpSocket>,
    question: Vec<u8>,
    from: SocketAddr,
) {
    let Some((question, answer)) = shared.answer(&question).await else {
        return;
    };
    let Ok(mut bytes) = answer.to_vec() else {
        return;
    };
    let room = question
        .edns
        .map_or(512, |edns| edns.max_payload().max(512));
    if bytes.len() > room.into() {
        // Who asked comes again over TCP.
        let Ok(short) = answer.truncate().to_vec() else {
            return;
        };
        bytes = short;
    }
    if let Err(error) = socket.send_to(&bytes, from).await {
        debug!(%error, "no answer sent");
    }
}

async fn over_tcp(shared: Arc<Shared>, mut stream: TcpStream) {
    while let Ok(Ok(question)) = timeout(IDLE, read_framed(&mut stream)).await {
        let Some((_, answer)) = shared.answer(&question).await else {
            return;
        };
        let Ok(bytes) = answer.to_vec() else {
            return;
        };
        let sent = timeout(IDLE, write_framed(&mut stream, &bytes)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

impl Shared {
    /// The question and its answer. What is no question gets none.
    async fn answer(&self, bytes: &[u8]) -> Option<(Message, Message)> {
        let question = Message::from_vec(bytes).ok()?;
        if question.metadata.message_type != MessageType::Query {
            return None;
        }
        let mut answer = match &question.queries[..] {
            _ if question.metadata.op_code != OpCode::Query => {
                failure(&question, ResponseCode::NotImp)
            }
            [query] => {
                let key = Key::of(&question, query);
                let cache = Arc::clone(&self.cache.borrow());
                match cache.get(&key) {
                    Some(answer) => answer,
                    None => {
                        let groups = self.routes.borrow().groups(&query.name);
                        match ask(&question, &groups).await {
                            Some(answer) => {
                                cache.put(key, &answer);
                                answer
                            }
                            None => failure(&question, ResponseCode::ServFail),
                        }
                    }
                }
            }
            _ => failure(&question, ResponseCode::FormErr),
        };
        answer.metadata.id = question.metadata.id;
        // As it was written: who asked may have mixed the case of letters to know his answer.
        answer.queries.clone_from(&question.queries);
        Some((question, answer))
    }
}

fn failure(question: &Message, code: ResponseCode) -> Message {
    let mut answer = Message::error_msg(question.metadata.id, question.metadata.op_code, code);
    answer.metadata.recursion_desired = question.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer
}
