//! The recorded bytes over a socket, and what comes back, with their descriptors.

use std::fs::{File, OpenOptions};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;

use interop::golden::{Frame, Golden, Side, frames};
use nsm_grpc::Inode;
use rustix::fs::OFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

pub const DATA: u8 = 0;

/// What is sent in place of the network namespace that Go has sent. Its name is as long as that of
/// any namespace, so that it fits into the recorded bytes.
pub const STAND_IN: &str = "/proc/self/ns/uts";

pub fn stand_in() -> (File, Inode) {
    let mut path_only = OpenOptions::new();
    path_only
        .read(true)
        .custom_flags(OFlags::PATH.bits() as i32);
    let file = path_only.open(STAND_IN).unwrap();
    let inode = Inode::of(&file).unwrap();
    (file, inode)
}

/// What one end has written, about the stand-in, as it was cut into writes.
pub fn writes(golden: &Golden, side: &Side) -> Vec<(Vec<u8>, usize)> {
    let mut bytes = golden.bytes(&side.file).unwrap();
    put_stand_in(&mut bytes);
    let mut rest = bytes.as_slice();
    let writes = side.writes().map(|(length, descriptors)| {
        let (this, others) = rest.split_at(length);
        rest = others;
        (this.to_vec(), descriptors)
    });
    let writes: Vec<_> = writes.collect();
    assert!(rest.is_empty(), "the writes are all that was written");
    writes
}

pub fn put_stand_in(bytes: &mut [u8]) {
    const SCHEME: &[u8] = b"inode://";
    let inode = stand_in().1;
    let mut from = 0;
    while let Some(found) = bytes[from..]
        .windows(SCHEME.len())
        .position(|it| it == SCHEME)
    {
        let start = from + found + SCHEME.len();
        let digits = |start: usize| {
            let digits = bytes[start..].iter().take_while(|it| it.is_ascii_digit());
            digits.count()
        };
        let dev = digits(start);
        let ino = digits(start + dev + 1);
        let text = format!("{:0dev$}/{:0ino$}", inode.dev, inode.ino);
        from = start + dev + 1 + ino;
        bytes[start..from].copy_from_slice(text.as_bytes());
    }
}

/// Where the first call ends that a client makes.
pub fn end_of_call(bytes: &[u8]) -> Option<usize> {
    let frames = frames(bytes);
    let ends = |it: &&Frame| it.kind == DATA && it.ends_its_stream;
    frames.iter().find(ends).map(|it| it.place.end)
}

/// Sends what was written, in the same writes.
pub fn send(stream: &UnixStream, writes: &[(Vec<u8>, usize)]) {
    let (file, _) = stand_in();
    for (bytes, descriptors) in writes {
        let fds = vec![file.as_fd(); *descriptors];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(&fds)));
        let parts = [IoSlice::new(bytes)];
        let sent = sendmsg(stream, &parts, &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent, Ok(bytes.len()));
    }
}

/// The bytes that come, and where descriptors ride on them.
#[derive(Default)]
pub struct Incoming {
    pub bytes: Vec<u8>,
    pub writes: Vec<(usize, usize)>,
    pub received: Vec<Inode>,
}

impl Incoming {
    /// Takes one byte, so that it is known which one has descriptors. There is none at the end.
    fn take(&mut self, stream: &UnixStream) -> bool {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [IoSliceMut::new(&mut byte)];
        let message = recvmsg(stream, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let mut count = 0;
        for rights in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = rights {
                for fd in fds {
                    self.received.push(Inode::of(&fd).unwrap());
                    count += 1;
                }
            }
        }
        if message.bytes == 0 {
            return false;
        }
        self.bytes.push(byte[0]);
        self.writes.push((1, count));
        true
    }

    /// Takes all up to the end of the first call.
    pub fn take_call(&mut self, stream: &UnixStream) {
        while end_of_call(&self.bytes).is_none_or(|end| self.bytes.len() < end) {
            assert!(self.take(stream), "a call was to come");
        }
    }
}
