//! Where a program may be told to listen, and what is there.

use super::sockets::{refuses, until_it_answers};
use e2e::{Mesh, Process};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        nothing_but_a_socket_is_ever_removed,
        a_path_has_room_for_107_bytes_and_a_longer_one_is_refused_in_words,
        a_folder_that_is_missing_is_made_and_one_that_cannot_be_is_named,
    ]
}

/// A forwarder that listens there.
fn forwarder_at(mesh: &Mesh, socket: &Path) -> Process {
    mesh.forwarder(&[&format!("--listen-on=unix://{}", socket.display())])
}

fn nothing_but_a_socket_is_ever_removed() {
    let mesh = Mesh::new(1, 1);
    let words = "something that is no socket is in the way";
    let file = mesh.file("file");
    fs::write(&file, "dear").unwrap();
    refuses(forwarder_at(&mesh, &file), words);
    assert_eq!(fs::read_to_string(&file).unwrap(), "dear");

    let folder = mesh.file("folder");
    fs::create_dir(&folder).unwrap();
    refuses(forwarder_at(&mesh, &folder), words);
    assert!(folder.is_dir());

    let (link, nowhere) = (mesh.file("link"), mesh.file("nowhere"));
    symlink(&nowhere, &link).unwrap();
    refuses(forwarder_at(&mesh, &link), words);
    assert_eq!(fs::read_link(&link).unwrap(), nowhere);
    assert!(!nowhere.exists());

    // A link to a stale socket is no socket, either.
    let stale = mesh.file("stale");
    drop(UnixListener::bind(&stale).unwrap());
    let to_stale = mesh.file("to-stale");
    symlink(&stale, &to_stale).unwrap();
    refuses(forwarder_at(&mesh, &to_stale), words);
    assert!(
        fs::symlink_metadata(&stale)
            .unwrap()
            .file_type()
            .is_socket()
    );
}

fn a_path_has_room_for_107_bytes_and_a_longer_one_is_refused_in_words() {
    let mesh = Mesh::new(1, 1);
    let of_length = |length: usize| -> PathBuf {
        let short = mesh.file("").as_os_str().len();
        mesh.file(&"s".repeat(length - short))
    };
    let (longest, longer) = (of_length(107), of_length(108));

    let forwarder = forwarder_at(&mesh, &longest);
    until_it_answers(&longest);
    assert_eq!(forwarder.stop(), Some(0));

    refuses(forwarder_at(&mesh, &longer), "the path has 108 bytes");
    assert!(!longer.exists());
}

fn a_folder_that_is_missing_is_made_and_one_that_cannot_be_is_named() {
    let mesh = Mesh::new(1, 1);
    let deep = mesh.file("not/there/yet.sock");
    let forwarder = forwarder_at(&mesh, &deep);
    until_it_answers(&deep);
    assert_eq!(forwarder.stop(), Some(0));

    fs::write(mesh.file("file"), "").unwrap();
    let forwarder = forwarder_at(&mesh, &mesh.file("file/under/it.sock"));
    refuses(forwarder, "cannot make the folder");
}
