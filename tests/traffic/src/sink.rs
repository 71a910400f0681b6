//! Whoever listens at the far end, on every link alike.

use crate::Error;
use crate::stream::{Sending, Stream};
use crate::world::World;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::thread;

/// Where a stream goes. It ends with its value.
#[derive(Debug)]
pub struct Sink {
    /// Takes datagrams and reads none: where nobody is, the kernel answers, and a connected socket
    /// takes that for an error.
    _datagrams: Option<UdpSocket>,
}

impl Sink {
    /// Listens for a stream.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn open(world: &World, stream: Stream) -> Result<Self, Error> {
        let address = Stream::destination(stream.family);
        if stream.sending != Sending::Tcp {
            let socket = world.far().enter(|| UdpSocket::bind(address))??;
            return Ok(Self {
                _datagrams: Some(socket),
            });
        }
        let listener = world.far().enter(|| TcpListener::bind(address))??;
        thread::Builder::new()
            .name("sink".to_owned())
            .spawn(move || {
                // It reads one connection to its end, and whoever sends says what goes wrong.
                if let Ok((mut connection, _)) = listener.accept() {
                    io::copy(&mut connection, &mut io::sink()).ok();
                }
            })?;
        Ok(Self { _datagrams: None })
    }
}
