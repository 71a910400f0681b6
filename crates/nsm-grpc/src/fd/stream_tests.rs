//! The stream against peers that are not made of it: plain sockets, with `nix` in between.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Duration, Instant};

use super::table::CAPACITY;
use super::{DescriptorError, FdStream, Inode};

fn pair() -> (FdStream, StdUnixStream) {
    let (ours, theirs) = StdUnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (FdStream::new(UnixStream::from_std(ours).unwrap()), theirs)
}

fn folder() -> PathGuard {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("nsm-fd-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    PathGuard(path)
}

struct PathGuard(std::path::PathBuf);

impl Drop for PathGuard {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A descriptor of a file of its own.
fn file(folder: &Path, number: usize) -> (Inode, OwnedFd) {
    let file = std::fs::File::create(folder.join(number.to_string())).unwrap();
    (Inode::of(&file).unwrap(), file.into())
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

fn send_raw(to: &StdUnixStream, bytes: &[u8], fds: &[RawFd]) {
    let rights = [ControlMessage::ScmRights(fds)];
    let sent = sendmsg::<()>(
        to.as_raw_fd(),
        &[IoSlice::new(bytes)],
        if fds.is_empty() { &[] } else { &rights },
        MsgFlags::empty(),
        None,
    );
    assert_eq!(sent.unwrap(), bytes.len());
}

/// Reads once, as the mesh's Go components do: with room for 64 descriptors.
#[allow(unsafe_code)]
fn receive_raw(from: &StdUnixStream, bytes: &mut [u8]) -> (usize, Vec<OwnedFd>) {
    let mut space = nix::cmsg_space!([RawFd; 64]);
    let mut slices = [IoSliceMut::new(bytes)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(from.as_raw_fd(), &mut slices, Some(&mut space), flags).unwrap();
    let mut fds = Vec::new();
    for control in message.cmsgs().unwrap() {
        if let ControlMessageOwned::ScmRights(raw) = control {
            // SAFETY: the kernel has just made them for this process, and nobody else knows them.
            fds.extend(
                raw.into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            );
        }
    }
    (message.bytes, fds)
}

/// Reads until `count` bytes have come, and tells what came with each read.
fn receive_all(from: &StdUnixStream, count: usize) -> (Vec<u8>, Vec<(usize, Vec<Inode>)>) {
    let (mut bytes, mut reads) = (Vec::new(), Vec::new());
    while bytes.len() < count {
        let mut buffer = vec![0; 1000];
        let (read, fds) = receive_raw(from, &mut buffer);
        assert_ne!(read, 0, "the stream has ended early");
        bytes.extend(&buffer[..read]);
        let inodes = fds.iter().map(|fd| Inode::of(fd).unwrap()).collect();
        reads.push((read, inodes));
    }
    (bytes, reads)
}

#[tokio::test]
async fn each_queued_descriptor_rides_on_one_byte_of_the_next_write() {
    let folder = folder();
    let (mut ours, theirs) = pair();
    let files: Vec<_> = (0..3).map(|n| file(&folder.0, n)).collect();
    let inodes: Vec<_> = files.iter().map(|(inode, _)| *inode).collect();
    for (_, fd) in files {
        ours.peer().send(fd).unwrap();
    }

    ours.write_all(b"hello, world").await.unwrap();

    let (bytes, reads) = receive_all(&theirs, 12);
    assert_eq!(bytes, b"hello, world");
    // The kernel ends a read behind a message with descriptors.
    let expected = [
        (1, vec![inodes[0]]),
        (1, vec![inodes[1]]),
        (1, vec![inodes[2]]),
        (9, vec![]),
    ];
    assert_eq!(reads, expected);
}

#[tokio::test]
async fn more_descriptors_than_bytes_ride_on_the_writes_that_follow() {
    let folder = folder();
    let (mut ours, theirs) = pair();
    for number in 0..70 {
        ours.peer().send(file(&folder.0, number).1).unwrap();
    }

    for byte in 0..200_u8 {
        ours.write_all(&[byte]).await.unwrap();
    }

    let (bytes, reads) = receive_all(&theirs, 200);
    assert_eq!(bytes, (0..200).collect::<Vec<u8>>());
    let count: usize = reads.iter().map(|(_, inodes)| inodes.len()).sum();
    assert_eq!(count, 70);
}

#[tokio::test]
async fn a_vectored_write_carries_descriptors_too() {
    let folder = folder();
    let (mut ours, theirs) = pair();
    let (inode, fd) = file(&folder.0, 0);
    ours.peer().send(fd).unwrap();
    let slices = [IoSlice::new(b""), IoSlice::new(b"ab"), IoSlice::new(b"cd")];

    let first = ours.write_vectored(&slices).await.unwrap();
    assert_eq!(first, 1);
    let slices = [IoSlice::new(b"b"), IoSlice::new(b"cd")];
    assert_eq!(ours.write_vectored(&slices).await.unwrap(), 3);

    let (bytes, reads) = receive_all(&theirs, 4);
    assert_eq!(bytes, b"abcd");
    assert_eq!(reads[0], (1, vec![inode]));
}

#[tokio::test]
async fn descriptors_are_taken_in_however_many_come_with_a_byte() {
    let folder = folder();
    let (mut ours, theirs) = pair();
    let peer = ours.peer();
    let files: Vec<_> = (0..253).map(|n| file(&folder.0, n)).collect();
    let inodes: Vec<_> = files.iter().map(|(inode, _)| *inode).collect();
    let raw: Vec<_> = files.iter().map(|(_, fd)| fd.as_raw_fd()).collect();

    send_raw(&theirs, b"a", &raw[..1]);
    send_raw(&theirs, b"b", &raw);
    drop(files);
    (&theirs).write_all(b"cd").unwrap();

    let mut bytes = [0; 4];
    ours.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"abcd");
    assert_eq!(peer.unclaimed(), 253);
    for inode in inodes {
        let fd = peer.for_call().descriptor(inode, soon()).await.unwrap();
        assert_eq!(Inode::of(&*fd).unwrap(), inode);
    }
    assert_eq!(peer.unclaimed(), 1, "the first one came twice");
}

#[tokio::test]
async fn every_received_descriptor_is_close_on_exec() {
    let folder = folder();
    let (mut ours, theirs) = pair();
    let peer = ours.peer();
    let (inode, fd) = file(&folder.0, 0);
    // One stays in the table and is duplicated, one is handed out as it came.
    for _ in 0..2 {
        send_raw(&theirs, b"x", &[fd.as_raw_fd()]);
        ours.read_u8().await.unwrap();
    }

    let duplicate = peer.for_call().descriptor(inode, soon()).await.unwrap();
    let itself = peer.for_call().descriptor(inode, soon()).await.unwrap();

    for fd in [duplicate, itself] {
        let flags = fcntl(&*fd, FcntlArg::F_GETFD).unwrap();
        assert!(FdFlag::from_bits_retain(flags).contains(FdFlag::FD_CLOEXEC));
    }
}

#[tokio::test]
async fn a_peer_that_floods_is_cut_off_and_nothing_of_it_stays_open() {
    let folder = folder();
    let (mut ours, theirs) = pair();
    let peer = ours.peer();
    let reader = tokio::spawn(async move {
        let mut buffer = [0; 1000];
        loop {
            match ours.read(&mut buffer).await {
                Ok(0) => panic!("the flood came in"),
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    });
    let flooding = tokio::task::spawn_blocking(move || {
        for number in 0..=CAPACITY {
            let (_, fd) = file(&folder.0, number);
            let fds = [fd.as_raw_fd()];
            let rights = [ControlMessage::ScmRights(&fds)];
            let bytes = [IoSlice::new(b"x")];
            // The last ones find nobody any more.
            sendmsg::<()>(
                theirs.as_raw_fd(),
                &bytes,
                &rights,
                MsgFlags::MSG_NOSIGNAL,
                None,
            )
            .ok();
        }
    });

    let error = reader.await.unwrap();

    flooding.await.unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::QuotaExceeded);
    assert_eq!(peer.unclaimed(), 0);
}

#[tokio::test]
async fn all_is_closed_when_the_stream_ends_and_nobody_waits_any_longer() {
    let folder = folder();
    let (mut ours, theirs) = pair();
    let peer = ours.peer();
    let (reader, sent) = std::io::pipe().unwrap();
    send_raw(&theirs, b"x", &[sent.as_raw_fd()]);
    drop(sent);
    ours.read_u8().await.unwrap();
    assert_eq!(peer.unclaimed(), 1);
    let (inode, queued) = file(&folder.0, 0);
    peer.send(queued).unwrap();
    let waiting = peer.for_call();
    let waiter = tokio::spawn(async move { waiting.descriptor(inode, soon()).await });
    tokio::task::yield_now().await;

    drop(ours);

    let closed = waiter.await.unwrap();
    assert!(matches!(closed, Err(DescriptorError::Closed { .. })));
    // The pipe has ended: nobody holds its other end.
    let mut rest = Vec::new();
    (&reader).read_to_end(&mut rest).unwrap();
    drop(theirs);
}

#[tokio::test(start_paused = true)]
async fn a_descriptor_that_nobody_asks_for_is_closed_while_the_stream_is_quiet() {
    let (mut ours, theirs) = pair();
    let peer = ours.peer();
    let (reader, sent) = std::io::pipe().unwrap();
    send_raw(&theirs, b"x", &[sent.as_raw_fd()]);
    drop(sent);
    ours.read_u8().await.unwrap();

    // Time goes by while the stream waits for the next byte.
    let quiet = tokio::time::timeout(Duration::from_secs(61), ours.read_u8()).await;

    assert!(quiet.is_err());
    assert_eq!(peer.unclaimed(), 0);
    let mut rest = Vec::new();
    (&reader).read_to_end(&mut rest).unwrap();
    drop(theirs);
}

/// What happens on the sending side.
#[derive(Clone, Debug)]
enum Step {
    /// So many descriptors are queued.
    Queue(usize),
    /// So many bytes are written, in slices of these sizes.
    Write(Vec<usize>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0_usize..40).prop_map(Step::Queue),
        prop::collection::vec(0_usize..40_000, 0..6).prop_map(Step::Write),
        prop::collection::vec(0_usize..3, 0..6).prop_map(Step::Write),
    ];
    prop::collection::vec(step, 0..10)
}

/// Writes all of it, with vectored writes where there is more than one slice.
async fn write_slices(stream: &mut FdStream, bytes: &[u8], sizes: &[usize]) {
    let mut rest = bytes;
    let mut slices = Vec::new();
    for size in sizes {
        let (slice, behind) = rest.split_at(*size);
        slices.push(IoSlice::new(slice));
        rest = behind;
    }
    let mut slices = &mut slices[..];
    while slices.iter().any(|slice| !slice.is_empty()) {
        let written = match slices {
            [one] => stream.write(one).await.unwrap(),
            ref several => stream.write_vectored(several).await.unwrap(),
        };
        assert_ne!(written, 0);
        IoSlice::advance_slices(&mut slices, written);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn bytes_are_neither_reordered_nor_lost_whatever_descriptors_ride_on_them(
        steps in steps(),
        reads in prop::collection::vec(1_usize..9_000, 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (theirs, ours) = StdUnixStream::pair().unwrap();
            for end in [&theirs, &ours] {
                end.set_nonblocking(true).unwrap();
            }
            let mut sender = FdStream::new(UnixStream::from_std(ours).unwrap());
            let mut receiver = FdStream::new(UnixStream::from_std(theirs).unwrap());
            let received = receiver.peer();
            let null = std::fs::File::open("/dev/null").unwrap();
            let inode = Inode::of(&null).unwrap();
            let queued: usize = steps
                .iter()
                .map(|step| if let Step::Queue(count) = step { *count } else { 0 })
                .sum();
            let written: usize = steps
                .iter()
                .map(|step| if let Step::Write(sizes) = step { sizes.iter().sum() } else { 0 })
                .sum();
            // Whatever is still queued then rides on the last bytes.
            let total = written + queued;
            let bytes: Vec<u8> = (0..total).map(|n| (n % 251) as u8).collect();

            let expected = bytes.clone();
            let sending = async move {
                let mut rest = &bytes[..];
                for step in steps {
                    match step {
                        Step::Queue(count) => for _ in 0..count {
                            sender.peer().send(null.try_clone().unwrap().into()).unwrap();
                        },
                        Step::Write(sizes) => {
                            let (now, behind) = rest.split_at(sizes.iter().sum());
                            write_slices(&mut sender, now, &sizes).await;
                            rest = behind;
                        }
                    }
                }
                sender.write_all(rest).await.unwrap();
                sender.shutdown().await.unwrap();
                sender
            };
            let receiving = async move {
                let mut all: Vec<u8> = Vec::new();
                for size in reads.iter().cycle() {
                    let mut buffer = vec![0; *size];
                    match receiver.read(&mut buffer).await.unwrap() {
                        0 => break,
                        count => all.extend(&buffer[..count]),
                    }
                }
                (all, receiver)
            };
            let (_sender, (all, _receiver)) = tokio::join!(sending, receiving);

            assert!(all == expected, "the bytes differ");
            // Each arrival is good for one call.
            for _ in 0..queued {
                received.for_call().descriptor(inode, soon()).await.unwrap();
            }
            assert_eq!(received.unclaimed(), 0);
        });
    }
}
