//! One question to one server, and to several.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hickory_proto::op::{Message, MessageType, ResponseCode};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Duration, timeout};
use tracing::debug;

/// How long the servers of a group have to answer. A resolver gives up after five seconds
/// (resolv.conf(5)), and there may be a second group.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer that is taken over UDP, and kept: what is longer comes over TCP.
pub(crate) const LONGEST_ANSWER: u16 = 4096;

/// Why a server has not answered.
#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error(transparent)]
    Network(#[from] io::Error),
    #[error("the answer is none")]
    Garbage,
}

/// Asks the groups of servers one after the other, those of a group at once. The first good answer
/// counts: that the name is there. Without one, the best that there was: that the name is not there,
/// before that a server cannot tell.
pub(crate) async fn ask(question: &Message, groups: &[Vec<SocketAddr>]) -> Option<Message> {
    let mut best: Option<Message> = None;
    for group in groups {
        let all = async {
            let mut answers: FuturesUnordered<_> =
                group.iter().map(|server| one(question, *server)).collect();
            while let Some(answer) = answers.next().await {
                let Some(answer) = answer else { continue };
                if is_good(&answer) {
                    return Some(answer);
                }
                if best.as_ref().is_none_or(|best| rank(&answer) < rank(best)) {
                    best = Some(answer);
                }
            }
            None
        };
        if let Ok(Some(good)) = timeout(PATIENCE, all).await {
            return Some(good);
        }
    }
    best
}

fn is_good(answer: &Message) -> bool {
    answer.metadata.response_code == ResponseCode::NoError
}

fn rank(answer: &Message) -> u8 {
    match answer.metadata.response_code {
        ResponseCode::NoError => 0,
        ResponseCode::NXDomain => 1,
        _ => 2,
    }
}

async fn one(question: &Message, server: SocketAddr) -> Option<Message> {
    match exchange(question, server).await {
        Ok(answer) => Some(answer),
        Err(error) => {
            debug!(%server, %error, "no answer");
            None
        }
    }
}

/// Asks one server: over UDP from a port and with an id that nobody can guess, and over TCP if the
/// answer does not fit.
async fn exchange(question: &Message, server: SocketAddr) -> Result<Message, ExchangeError> {
    let mut question = question.clone();
    question.metadata.id = unguessable()?;
    if let Some(edns) = &mut question.edns {
        edns.set_max_payload(edns.max_payload().min(LONGEST_ANSWER));
    }
    let bytes = question.to_vec().map_err(|_| ExchangeError::Garbage)?;

    let any = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    // From now on it hears of nobody else, and of a server that is not there.
    socket.connect(server).await?;
    socket.send(&bytes).await?;
    // One more, to know what is longer from what just fits.
    let mut buffer = vec![0; usize::from(LONGEST_ANSWER) + 1];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if length == buffer.len() && buffer.starts_with(&question.metadata.id.to_be_bytes()) {
            break;
        }
        match answer_to(&question, &buffer[..length]) {
            Some(answer) if !answer.metadata.truncation => return Ok(answer),
            Some(_) => break,
            None => {}
        }
    }
    let mut stream = TcpStream::connect(server).await?;
    write_framed(&mut stream, &bytes).await?;
    let whole = read_framed(&mut stream).await?;
    answer_to(&question, &whole).ok_or(ExchangeError::Garbage)
}

/// An id from the kernel's generator (getrandom(2)).
fn unguessable() -> io::Result<u16> {
    let mut id = [0; 2];
    // So few bytes come all at once.
    getrandom(&mut id, GetRandomFlags::empty())?;
    Ok(u16::from_be_bytes(id))
}

/// The message, if it answers the question.
fn answer_to(question: &Message, bytes: &[u8]) -> Option<Message> {
    let answer = Message::from_vec(bytes).ok()?;
    let same = answer.metadata.id == question.metadata.id && answer.queries == question.queries;
    (same && answer.metadata.message_type == MessageType::Response).then_some(answer)
}

/// Reads a message with its length before it (RFC 1035, 4.2.2).
pub(crate) async fn read_framed(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; length.into()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// Writes a message with its length before it.
pub(crate) async fn write_framed(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(message);
    stream.write_all(&framed).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::op::{OpCode, Query};
    use hickory_proto::rr::{Name, RecordType};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn an_answer_longer_than_is_taken_over_udp_comes_over_tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let socket = UdpSocket::bind(server).await.unwrap();
        let answers = async {
            let mut buffer = [0; 512];
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            // The kernel cuts it off, so that it cannot be read.
            let mut long = vec![0; 5000];
            long[..length].copy_from_slice(&buffer[..length]);
            socket.send_to(&long, from).await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = Message::from_vec(&read_framed(&mut stream).await.unwrap()).unwrap();
            let mut answer = Message::response(asked.metadata.id, OpCode::Query);
            answer.queries = asked.queries;
            let bytes = answer.to_vec().unwrap();
            write_framed(&mut stream, &bytes).await.unwrap();
        };
        let mut question = Message::query();
        let name = Name::from_ascii("www.org.").unwrap();
        question.add_query(Query::query(name, RecordType::A));

        let (answer, ()) = timeout(Duration::from_secs(20), async {
            tokio::join!(exchange(&question, server), answers)
        })
        .await
        .unwrap();

        assert_eq!(answer.unwrap().queries, question.queries);
    }
}
