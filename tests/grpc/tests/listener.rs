//! Where a server listens, and what is in its way.

// What fails here fails a test.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener as StdUnixListener;

use grpc_suite::{Folder, PLENTY, Serving, call, client, connection, request};
use nsm_chain::End;
use nsm_grpc::{Address, Listener};
use tokio::net::UnixStream;
use tokio::time::{Duration, Instant, sleep};

fn report(error: &(dyn std::error::Error + 'static)) -> String {
    nsm_chain::ErrorChain(error).to_string()
}

/// A file as a server leaves it that was killed.
fn stale(folder: &Folder) {
    drop(StdUnixListener::bind(folder.file("s")).unwrap());
    assert!(folder.file("s").exists());
}

#[tokio::test]
async fn a_socket_file_is_open_to_all_and_its_folder_is_made() {
    let folder = Folder::new();
    let address = Address::Unix(folder.path().join("a/b/s"));

    let listener = Listener::bind(&address).await.unwrap();

    let file = fs::metadata(folder.path().join("a/b/s")).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o7777, 0o777);
    drop(listener);
    assert!(!folder.path().join("a/b/s").exists());
}

#[tokio::test]
async fn a_stale_socket_file_is_replaced() {
    let folder = Folder::new();
    stale(&folder);

    let serving = Serving::chain(&folder.socket("s"), End).await;

    let answer = call(&client(&serving.address), request(connection("a"))).await;
    assert_eq!(answer.unwrap().id, "a");
    serving.stop().await;
    assert!(!folder.file("s").exists());
}

#[tokio::test]
async fn the_socket_file_of_a_live_server_is_refused_in_words_and_left_alone() {
    let folder = Folder::new();
    let serving = Serving::chain(&folder.socket("s"), End).await;

    let error = Listener::bind(&folder.socket("s")).await.unwrap_err();

    assert!(error.is_in_use());
    let report = report(&error);
    assert!(report.contains("another process listens there"), "{report}");
    assert!(report.contains(&folder.socket("s").to_string()), "{report}");
    call(&client(&serving.address), request(connection("a")))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_live_server_that_takes_no_connections_at_the_moment_is_a_live_one() {
    let folder = Folder::new();
    // Its queue is full: nobody takes what is in it.
    let _hangs = {
        use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
        use nix::sys::socket::{bind, listen, socket};
        use std::os::fd::AsRawFd;

        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
        bind(fd.as_raw_fd(), &UnixAddr::new(&folder.file("s")).unwrap()).unwrap();
        listen(&fd, Backlog::new(0).unwrap()).unwrap();
        fd
    };
    let _queued = UnixStream::connect(folder.file("s")).await.unwrap();

    let error = Listener::bind(&folder.socket("s")).await.unwrap_err();

    assert!(error.is_in_use(), "{}", report(&error));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_servers_that_start_at_once_one_wins_and_its_socket_works() {
    for _ in 0..20 {
        let folder = Folder::new();
        stale(&folder);
        let starters: Vec<_> = (0..8)
            .map(|_| {
                let address = folder.socket("s");
                tokio::spawn(async move { Listener::bind(&address).await })
            })
            .collect();

        let mut winners = Vec::new();
        for starter in starters {
            match starter.await.unwrap() {
                Ok(listener) => winners.push(listener),
                Err(error) => assert!(error.is_in_use(), "{}", report(&error)),
            }
        }

        assert_eq!(winners.len(), 1);
        UnixStream::connect(folder.file("s")).await.unwrap();
    }
}

#[tokio::test]
async fn nothing_but_a_socket_is_ever_removed() {
    let folder = Folder::new();
    fs::write(folder.file("file"), "precious").unwrap();
    fs::create_dir(folder.file("folder")).unwrap();
    symlink("nowhere", folder.file("dangling")).unwrap();
    stale(&folder);
    symlink(folder.file("s"), folder.file("link")).unwrap();

    for name in ["file", "folder", "dangling", "link"] {
        let error = Listener::bind(&folder.socket(name)).await.unwrap_err();

        let report = report(&error);
        assert!(report.contains("no socket is in the way"), "{report}");
        assert!(!error.is_in_use());
        assert!(fs::symlink_metadata(folder.file(name)).is_ok());
    }
    assert_eq!(fs::read_to_string(folder.file("file")).unwrap(), "precious");
    assert!(folder.file("s").exists());
}

#[tokio::test]
async fn a_path_that_is_too_long_for_a_socket_is_refused_in_words() {
    let folder = Folder::new();
    let room = 107 - folder.path().as_os_str().len() - 1;

    let longest = Listener::bind(&folder.socket(&"x".repeat(room))).await;
    let longer = Listener::bind(&folder.socket(&"x".repeat(room + 1))).await;

    longest.unwrap();
    let report = report(&longer.unwrap_err());
    assert!(report.contains("has 108 bytes"), "{report}");
}

#[tokio::test]
async fn a_server_that_ends_late_leaves_the_file_of_its_successor() {
    let folder = Folder::new();
    let old = Listener::bind(&folder.socket("s")).await.unwrap();
    fs::remove_file(folder.file("s")).unwrap();
    let _new = Listener::bind(&folder.socket("s")).await.unwrap();

    drop(old);

    UnixStream::connect(folder.file("s")).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_removed_under_a_server_is_made_anew() {
    let folder = Folder::new();
    let serving = Serving::chain(&folder.socket("s"), End).await;
    let stands = client(&serving.address);
    call(&stands, request(connection("a"))).await.unwrap();

    fs::remove_file(folder.file("s")).unwrap();

    call(&stands, request(connection("b"))).await.unwrap();
    let comes = client(&serving.address);
    call(&comes, request(connection("c"))).await.unwrap();
    serving.stop().await;
    assert!(!folder.file("s").exists());
}

#[tokio::test]
async fn a_tcp_server_without_a_host_listens_everywhere_and_says_where() {
    let listening = Listener::bind(&"tcp://:0".parse().unwrap()).await.unwrap();
    let Address::Tcp(local) = listening.address() else {
        panic!("a TCP address is expected");
    };
    let port = local.rsplit_once(':').unwrap().1.to_owned();
    assert_ne!(port, "0");
    drop(listening);

    let serving = Serving::chain(&format!("tcp://:{port}").parse().unwrap(), End).await;
    for host in ["127.0.0.1", ""] {
        let address = format!("tcp://{host}:{port}").parse().unwrap();
        let answer = call(&client(&address), request(connection("a"))).await;
        assert_eq!(answer.unwrap().id, "a");
    }
    let error = Listener::bind(&format!("tcp://:{port}").parse().unwrap()).await;
    assert!(error.unwrap_err().is_in_use());
    serving.stop().await;
}

#[tokio::test]
async fn a_folder_that_somebody_keeps_locked_does_not_hang_a_server() {
    use nix::fcntl::{Flock, FlockArg};
    let folder = Folder::new();
    let open = fs::File::open(folder.path()).unwrap();
    let lock = Flock::lock(open, FlockArg::LockExclusiveNonblock).unwrap();
    let started = Instant::now();
    let release = tokio::spawn(async move {
        sleep(Duration::from_millis(100)).await;
        drop(lock);
    });

    let _listener = Listener::bind(&folder.socket("s")).await.unwrap();

    assert!(started.elapsed() < PLENTY);
    release.await.unwrap();
}
