//! What stands between two ends of a connection: it passes on, until it drops everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use nsm_grpc::Address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// A network between a client, which comes over TCP, and a server at a unix socket.
pub struct Between {
    /// Where the client comes.
    pub address: Address,
    drops: watch::Sender<bool>,
    pings: Arc<AtomicUsize>,
}

impl Between {
    /// One that passes on.
    pub async fn and(server: std::path::PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("tcp://{}", listener.local_addr().unwrap());
        let drops = watch::Sender::new(false);
        let pings = Arc::new(AtomicUsize::new(0));
        let between = Self {
            address: address.parse().unwrap(),
            drops: drops.clone(),
            pings: Arc::clone(&pings),
        };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&server).await.unwrap();
                tokio::spawn(pass(client, server, drops.subscribe(), Arc::clone(&pings)));
            }
        });
        between
    }

    /// Passes nothing on any more, and resets nothing.
    pub fn drops_all(&self) {
        self.drops.send_replace(true);
    }

    /// How many HTTP/2 pings the client has sent.
    pub fn pings(&self) -> usize {
        self.pings.load(Relaxed)
    }
}

async fn pass(
    mut client: TcpStream,
    mut server: UnixStream,
    drops: watch::Receiver<bool>,
    pings: Arc<AtomicUsize>,
) {
    let (mut there, mut back) = ([0; 16 << 10], [0; 16 << 10]);
    let mut frames = Frames::default();
    loop {
        tokio::select! {
            Ok(read @ 1..) = client.read(&mut there) => {
                if !*drops.borrow() {
                    pings.fetch_add(frames.pings(&there[..read]), Relaxed);
                    server.write_all(&there[..read]).await.unwrap();
                }
            }
            Ok(read @ 1..) = server.read(&mut back) => {
                if !*drops.borrow() {
                    client.write_all(&back[..read]).await.unwrap();
                }
            }
            else => return,
        }
    }
}

/// What a client sends: its preface of 24 bytes, and frames (RFC 9113, 3.4 and 4.1).
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    has_begun: bool,
}

impl Frames {
    /// How many pings there are in what comes, answers to pings apart.
    fn pings(&mut self, bytes: &[u8]) -> usize {
        const PREFACE: usize = 24;
        self.bytes.extend(bytes);
        if !self.has_begun && self.bytes.len() >= PREFACE {
            self.bytes.drain(..PREFACE);
            self.has_begun = true;
        }
        let mut pings = 0;
        while self.has_begun
            && let [a, b, c, kind, flags, _, _, _, _, ..] = self.bytes[..]
        {
            let end = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
            if self.bytes.len() < end {
                break;
            }
            pings += usize::from(kind == 6 && flags & 1 == 0);
            self.bytes.drain(..end);
        }
        pings
    }
}
