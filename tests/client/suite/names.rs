//! A client's names: its element, the file, and DNS servers on the loopback of a namespace.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use nsm_api::connection::Connection;
use nsm_api::connectioncontext::{ConnectionContext, DnsConfig, DnsContext};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::test_util::echo;
use nsm_chain::{BoxNetworkService, Call};
use nsm_dns::{DnsLayer, Settings};
use nsm_netlink::Netns;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower::{Layer, ServiceExt};

/// Where the proxy listens.
pub const PROXY: &str = "127.0.0.1:53";
/// What stands in the file at first: the server 127.0.0.9.
pub const ORIGINAL: &str = "search cluster.local\nnameserver 127.0.0.9\noptions ndots:5\n";

/// A client's names, in a namespace and with a file of their own.
pub struct Names {
    folder: PathBuf,
    pub layer: DnsLayer,
}

impl Names {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);

        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("nsm-client-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("resolv.conf"), ORIGINAL).unwrap();
        let layer = layer_of(&folder.join("resolv.conf"), PROXY);
        Self { folder, layer }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join("resolv.conf")
    }

    pub fn file(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// Asks for a connection that brings that.
    pub async fn request(&self, id: &str, configs: &[DnsConfig]) -> Connection {
        let connection = Connection {
            id: id.to_owned(),
            context: Some(ConnectionContext {
                dns_context: Some(DnsContext {
                    configs: configs.to_vec(),
                }),
                ..ConnectionContext::default()
            }),
            ..Connection::default()
        };
        let request = NetworkServiceRequest {
            connection: Some(connection),
            ..NetworkServiceRequest::default()
        };
        self.call(Call::request(request)).await
    }

    pub async fn close(&self, connection: Connection) {
        self.call(Call::close(connection)).await;
    }

    async fn call(&self, call: Call) -> Connection {
        let chain = BoxNetworkService::new(self.layer.layer(echo()));
        chain.oneshot(call).await.unwrap()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

pub fn layer_of(file: &Path, proxy: &str) -> DnsLayer {
    DnsLayer::new(Settings {
        address: proxy.parse().unwrap(),
        resolv_conf: file.to_owned(),
    })
}

/// A config of the server 127.0.0.N.
pub fn config(server: u8, domains: &[&str]) -> DnsConfig {
    DnsConfig {
        dns_server_ips: vec![format!("127.0.0.{server}")],
        search_domains: domains.iter().map(|it| (*it).to_owned()).collect(),
    }
}

/// Runs a case in a namespace of its own, in which nothing but the loopback is.
pub fn alone<T>(case: impl Future<Output = T>) -> T {
    let netns = Netns::create().unwrap();
    let run = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(case)
    };
    netns.enter(run).unwrap()
}

/// How a server answers.
#[derive(Clone, Copy)]
pub enum Reply {
    /// With so many addresses, of a life in seconds.
    Addresses(u8, u32),
    /// With a failure.
    Code(ResponseCode),
    /// Not at all.
    Never,
}

/// The server 127.0.0.N, over UDP and TCP. It ends with this value.
pub struct Server {
    asked: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub async fn start(number: u8, reply: Reply) -> Self {
        let address = SocketAddr::from(([127, 0, 0, number], 53));
        let socket = UdpSocket::bind(address).await.unwrap();
        let listener = TcpListener::bind(address).await.unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        let counted = Arc::clone(&asked);
        tasks.spawn(async move {
            let mut buffer = [0; 4096];
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                counted.fetch_add(1, Relaxed);
                if let Some(answer) = answer(number, reply, &buffer[..length]) {
                    let bytes = answer.to_vec().unwrap();
                    let fits = bytes.len() <= 512;
                    let short = || answer.truncate().to_vec().unwrap();
                    let bytes = if fits { bytes } else { short() };
                    socket.send_to(&bytes, from).await.unwrap();
                }
            }
        });
        tasks.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let question = read(&mut stream).await;
                if let Some(answer) = answer(number, reply, &question) {
                    write(&mut stream, &answer.to_vec().unwrap()).await;
                }
            }
        });
        Self {
            asked,
            _tasks: tasks,
        }
    }

    /// How often it has been asked over UDP.
    pub fn asked(&self) -> usize {
        self.asked.load(Relaxed)
    }
}

fn answer(number: u8, reply: Reply, question: &[u8]) -> Option<Message> {
    let question = Message::from_vec(question).unwrap();
    let mut answer = Message::response(question.metadata.id, OpCode::Query);
    answer.add_queries(question.queries.clone());
    match reply {
        Reply::Never => return None,
        Reply::Code(code) => answer.metadata.response_code = code,
        Reply::Addresses(count, life) => {
            let name = &question.queries[0].name;
            for host in 0..count {
                let address = Ipv4Addr::new(10, 0, number, host);
                let data = RData::A(A(address));
                answer.add_answer(Record::from_rdata(name.clone(), life, data));
            }
        }
    }
    Some(answer)
}

/// A question for the IPv4 addresses of a name.
pub fn question(name: &str) -> Message {
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    let name = Name::from_ascii(name).unwrap();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name, RecordType::A));
    message
}

/// Asks the proxy over UDP, as a resolver does.
pub async fn ask(name: &str) -> Message {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(PROXY).await.unwrap();
    let question = question(name);
    socket.send(&question.to_vec().unwrap()).await.unwrap();
    let mut buffer = [0; 4096];
    let received = timeout(Duration::from_secs(10), socket.recv(&mut buffer));
    let length = received.await.unwrap().unwrap();
    checked(&question, &buffer[..length])
}

/// Asks it over TCP.
pub async fn ask_by_tcp(name: &str) -> Message {
    let mut stream = TcpStream::connect(PROXY).await.unwrap();
    let question = question(name);
    write(&mut stream, &question.to_vec().unwrap()).await;
    checked(&question, &read(&mut stream).await)
}

fn checked(question: &Message, answer: &[u8]) -> Message {
    let answer = Message::from_vec(answer).unwrap();
    assert_eq!(answer.metadata.id, question.metadata.id);
    assert_eq!(answer.queries, question.queries);
    answer
}

/// The servers that the addresses of an answer are from, and their lives.
pub fn from(answer: &Message) -> Vec<(u8, u32)> {
    let records = answer.answers.iter();
    let server = |record: &Record| match record.data {
        RData::A(A(address)) => (address.octets()[2], record.ttl),
        _ => panic!("{record}"),
    };
    records.map(server).collect()
}

async fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = vec![0; stream.read_u16().await.unwrap().into()];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}

async fn write(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_u16(bytes.len() as u16).await.unwrap();
    stream.write_all(bytes).await.unwrap();
}

/// Whether anybody listens where the proxy does.
pub async fn is_listening() -> bool {
    let address: SocketAddr = PROXY.parse().unwrap();
    assert_eq!(address.ip(), IpAddr::from([127, 0, 0, 1]));
    TcpStream::connect(address).await.is_ok()
}
