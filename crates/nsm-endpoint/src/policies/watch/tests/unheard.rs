//! Changes that no notice comes of, or none that says what has changed.

use std::fs::{File, FileTimes};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_change_of_which_nobody_tells_is_seen_within_the_period_of_looking() {
    let folder = Folder::new();
    folder.write("config.yaml", &file("1"));
    let path = folder.path("config.yaml");
    let times = FileTimes::new().set_modified(SystemTime::now() - WRITING);
    let age = || {
        let written = File::options().write(true).open(&path).unwrap();
        written.set_times(times).unwrap();
    };
    age();
    let following = Following::by_looking(&path);
    following.until("1").await;

    for hosts in ["2", "3", "4"] {
        let start = Instant::now();
        // Of the same length and age.
        folder.write("config.yaml", &file(hosts));
        age();

        following.until(hosts).await;

        let took = start.elapsed();
        assert!(took <= POLL + Duration::from_millis(50), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_tells_of_and_has_just_been_written_does_not_count_yet() {
    let folder = Folder::new();
    folder.write("config.yaml", &file("1"));
    let path = folder.path("config.yaml");
    let following = Following::by_looking(&path);
    following.until("1").await;
    let written = File::create(&path).unwrap();
    let change = |at| {
        written
            .set_times(FileTimes::new().set_modified(at))
            .unwrap()
    };

    for _ in 0..10 {
        change(SystemTime::now());
        sleep(POLL).await;
        assert_eq!(following.hosts(), "1");
    }

    change(SystemTime::now() - WRITING);
    following.until("").await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_tells_of_and_is_there_for_a_moment_only_does_not_count() {
    let folder = Folder::new();
    folder.write("config.yaml", &file("12"));
    let following = Following::by_looking(&folder.path("config.yaml"));
    following.until("12").await;

    for _ in 0..20 {
        // Half of it is found by one look, and not by the next.
        folder.write("config.yaml", &file("1"));
        sleep(QUIET / 2).await;
        folder.write("config.yaml", &file("12"));
        sleep(POLL + QUIET / 3).await;
    }

    assert_eq!(following.logged("policies read"), 0, "{}", following.log());
}

#[tokio::test]
async fn a_change_whose_notice_is_lost_in_a_full_queue_is_seen() {
    let folder = Folder::new();
    folder.write("config.yaml", &file("1"));
    let following = Following::by_notices(&folder.path("config.yaml"));
    following.until("1").await;
    // It has begun to hear when it has seen something.
    folder.write("config.yaml", &file("2"));
    following.until("2").await;
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let noise = ["a", "b"].map(|name| File::create(folder.path(name)).unwrap());

    // Nobody reads meanwhile: there is one thread. Equal events that follow each other are one.
    for event in 0..=limit {
        std::io::Write::write_all(&mut &noise[event % 2], b"x").unwrap();
    }
    folder.write("new", &file("3"));
    folder.rename("new", "config.yaml");

    following.until("3").await;
}

#[tokio::test]
async fn without_notices_it_is_said_once_that_changes_take_longer() {
    let mut look = Look::new(Path::new("/policies.yaml"), false);
    let log = Log::default();

    tracing::subscriber::with_default(log.subscriber(), || {
        for _ in 0..3 {
            look.is_deaf_for(&io::Error::other("too many watches"));
        }
    });

    let said = log.text().matches("too many watches").count();
    assert_eq!(said, 1, "{}", log.text());
}
