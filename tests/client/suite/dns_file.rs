//! When resolv.conf is written, and that it comes back.

use libtest_mimic::Trial;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nsm_api::connectioncontext::DnsConfig;
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::log::logged;
use crate::names::{
    Names, ORIGINAL, PROXY, Reply, Server, alone, ask, config, from, is_listening, layer_of,
};
use crate::trials;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        without_servers_of_a_connection_nothing_is_touched,
        the_file_names_the_proxy_until_the_last_connection_with_servers_is_closed,
        a_connection_that_brings_servers_no_more_counts_as_closed,
        at_the_end_the_file_comes_back_even_if_connections_stand,
        after_a_kill_the_next_start_brings_the_file_back,
        what_was_written_over_is_written_again_at_the_next_refresh,
        a_file_that_is_a_mount_is_written_in_place,
        a_port_that_is_in_use_is_warned_about_once_and_the_file_stays,
        a_file_that_cannot_be_restored_keeps_the_proxy_until_it_can,
        a_file_that_cannot_be_written_is_warned_about_once_and_the_proxy_answers,
        at_another_port_the_proxy_answers_and_the_file_stays,
    ]
}

fn without_servers_of_a_connection_nothing_is_touched() {
    alone(async {
        let names = Names::new();
        let inode = fs::metadata(names.path()).unwrap().ino();
        let domains_only = DnsConfig {
            search_domains: vec!["a.example".to_owned()],
            ..DnsConfig::default()
        };

        let connection = names.request("0", &[]).await;
        names.request("1", &[domains_only]).await;
        names.close(connection).await;

        assert_eq!(names.file(), ORIGINAL);
        assert_eq!(fs::metadata(names.path()).unwrap().ino(), inode);
        assert!(!is_listening().await);
    });
}

fn the_file_names_the_proxy_until_the_last_connection_with_servers_is_closed() {
    alone(async {
        let names = Names::new();
        let first = names.request("0", &[config(2, &["a.example"])]).await;
        let lines = || {
            let file = names.file();
            let lines = file.lines().filter(|it| !it.starts_with('#'));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let expected = |domains| {
            [
                "nameserver 127.0.0.1".to_owned(),
                format!("search cluster.local {domains}"),
                "options ndots:5".to_owned(),
            ]
        };
        assert_eq!(lines(), expected("a.example"));

        let second = names.request("1", &[config(3, &["b.example"])]).await;
        assert_eq!(lines(), expected("a.example b.example"));

        names.close(first).await;
        assert_eq!(lines(), expected("b.example"));
        assert!(is_listening().await);

        names.close(second).await;
        assert_eq!(names.file(), ORIGINAL);
        while is_listening().await {
            tokio::task::yield_now().await;
        }
    });
}

fn a_connection_that_brings_servers_no_more_counts_as_closed() {
    alone(async {
        let names = Names::new();
        names.request("0", &[config(2, &[])]).await;
        assert_ne!(names.file(), ORIGINAL);

        names.request("0", &[]).await;

        assert_eq!(names.file(), ORIGINAL);
    });
}

fn at_the_end_the_file_comes_back_even_if_connections_stand() {
    alone(async {
        let mut names = Names::new();
        names.request("0", &[config(2, &[])]).await;
        assert_ne!(names.file(), ORIGINAL);

        // The one that was given goes.
        names.layer = layer_of(&names.path().with_file_name("other.conf"), PROXY);

        assert_eq!(names.file(), ORIGINAL);
    });
}

fn after_a_kill_the_next_start_brings_the_file_back() {
    alone(async {
        let names = Names::new();
        names.request("0", &[config(2, &["a.example"])]).await;
        let left = names.file();
        let path = names.path().with_file_name("killed.conf");
        fs::write(&path, &left).unwrap();

        let _next = layer_of(&path, PROXY);

        assert_eq!(fs::read_to_string(&path).unwrap(), ORIGINAL);
    });
}

fn what_was_written_over_is_written_again_at_the_next_refresh() {
    alone(async {
        let names = Names::new();
        names.request("0", &[config(2, &[])]).await;
        fs::write(names.path(), "nameserver 127.0.0.8\n").unwrap();

        names.request("0", &[config(2, &[])]).await;
        assert!(names.file().contains("\nnameserver 127.0.0.1\n"));
        names.request("0", &[]).await;

        assert_eq!(names.file(), "nameserver 127.0.0.8\n");
    });
}

fn a_file_that_is_a_mount_is_written_in_place() {
    // On a thread of its own: a mount namespace is a thread's.
    let case = || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        alone(async {
            let names = Names::new();
            let path = names.path();
            let none: Option<&str> = None;
            mount(Some(&path), &path, none, MsFlags::MS_BIND, none).unwrap();
            let inode = fs::metadata(&path).unwrap().ino();

            let connection = names.request("0", &[config(2, &[])]).await;
            assert!(names.file().contains("\nnameserver 127.0.0.1\n"));
            names.close(connection).await;

            assert_eq!(names.file(), ORIGINAL);
            assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
            let folder = fs::read_dir(path.parent().unwrap()).unwrap();
            assert_eq!(folder.count(), 1, "nothing is left beside it");
            nix::mount::umount(&path).unwrap();
        });
    };
    std::thread::spawn(case).join().unwrap();
}

fn a_port_that_is_in_use_is_warned_about_once_and_the_file_stays() {
    let log = logged(|| {
        alone(async {
            let _other = Server::start(1, Reply::Never).await;
            let names = Names::new();
            for _ in 0..3 {
                names.request("0", &[config(2, &[])]).await;
            }
            assert_eq!(names.file(), ORIGINAL);
        });
    });

    let words = "no DNS proxy can listen at 127.0.0.1:53: Address already in use";
    assert_eq!(log.matches(words).count(), 1, "{log}");
}

fn a_file_that_cannot_be_restored_keeps_the_proxy_until_it_can() {
    let log = logged(|| {
        alone(async {
            let mut names = Names::new();
            let mut path = names.path();
            for at_the_end in [false, true] {
                let connection = names.request("0", &[config(2, &[])]).await;
                let ours = names.file();
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
                names.close(connection).await;
                names.request("1", &[]).await;
                assert!(is_listening().await);

                fs::remove_dir(&path).unwrap();
                fs::write(&path, ours).unwrap();
                if at_the_end {
                    path.set_file_name("other.conf");
                    names.layer = layer_of(&path, PROXY);
                } else {
                    names.request("1", &[]).await;
                }

                assert_eq!(names.file(), ORIGINAL);
                while is_listening().await {
                    tokio::task::yield_now().await;
                }
            }
        });
    });

    assert_eq!(log.matches("WARN").count(), 2, "{log}");
}

fn a_file_that_cannot_be_written_is_warned_about_once_and_the_proxy_answers() {
    let log = logged(|| {
        alone(async {
            let _two = Server::start(2, Reply::Addresses(1, 9)).await;
            let mut names = Names::new();
            names.layer = layer_of(&names.path().join("nowhere"), PROXY);
            for _ in 0..3 {
                names.request("0", &[config(2, &[])]).await;
            }
            assert_eq!(from(&ask("www.org.").await), [(2, 9)]);
        });
    });

    assert_eq!(log.matches("WARN").count(), 1, "{log}");
    assert!(log.contains("nowhere"), "{log}");
}

fn at_another_port_the_proxy_answers_and_the_file_stays() {
    let log = logged(|| {
        alone(async {
            let mut names = Names::new();
            names.layer = layer_of(&names.path(), "127.0.0.1:5353");
            for _ in 0..3 {
                names.request("0", &[config(2, &[])]).await;
            }
            assert_eq!(names.layer.address().await.unwrap().port(), 5353);
            assert_eq!(names.file(), ORIGINAL);
        });
    });

    let words = "it listens at 127.0.0.1:5353, and they look for port 53";
    assert_eq!(log.matches(words).count(), 1, "{log}");
}
