//! What a file may contain, and what becomes of it.

use std::fs::File;
use std::io::Write;

use super::*;

#[tokio::test]
async fn a_file_with_a_mistake_keeps_the_last_good_list_and_says_once_where_it_is() {
    let folder = Folder::new();
    folder.write("config.yaml", &file("12"));
    let following = Following::by_notices(&folder.path("config.yaml"));
    following.until("12").await;

    folder.write("config.yaml", "- from: 10.1.0.3\n  dstPort: 80\n");
    following
        .until_logged("config.yaml:2:3: unknown field `dstPort`", 1)
        .await;
    // The same again is nothing new.
    folder.write("config.yaml", "- from: 10.1.0.3\n  dstPort: 80\n");
    folder.write("config.yaml", "- from: 10.1.0.3\n  proto: 300\n");
    following
        .until_logged("config.yaml:2:10: policy 0: proto: \"300\"", 1)
        .await;
    assert_eq!(following.hosts(), "12");
    assert_eq!(following.logged("the policies stay as they were"), 2);

    folder.write("config.yaml", &file("12"));
    following.until_logged("policies read", 1).await;
    assert_eq!(following.hosts(), "12");
}

#[tokio::test]
async fn a_file_that_is_gone_keeps_the_last_good_list_and_an_empty_one_does_not() {
    let folder = Folder::new();
    folder.write("config.yaml", &file("12"));
    let following = Following::by_notices(&folder.path("config.yaml"));
    following.until("12").await;

    folder.remove("config.yaml");
    following
        .until_logged("is gone: the policies stay", 1)
        .await;
    assert_eq!(following.hosts(), "12");

    folder.write("config.yaml", "");
    following.until("").await;
    folder.write("config.yaml", &file("3"));
    following.until("3").await;
    assert_eq!(following.logged("WARN"), 1, "{}", following.log());
}

#[tokio::test]
async fn half_of_a_file_whose_writer_takes_his_time_is_no_list() {
    let folder = Folder::new();
    let following = Following::by_notices(&folder.path("config.yaml"));
    // It hears once it has seen something.
    folder.write("config.yaml", &file("1"));
    following.until("1").await;

    // Each piece alone would do.
    let mut written = File::create(folder.path("config.yaml")).unwrap();
    for piece in ["2", "3"] {
        written.write_all(file(piece).as_bytes()).unwrap();
        sleep(WRITING * 2 + QUIET * 5).await;
        assert_eq!(following.hosts(), "1");
    }
    drop(written);

    following.until("23").await;
    assert_eq!(following.logged("policies read"), 2, "{}", following.log());
}

#[tokio::test]
async fn a_writer_who_never_closes_the_file_is_not_waited_for_forever() {
    let folder = Folder::new();
    folder.write("config.yaml", &file("1"));
    let path = folder.path("config.yaml");
    let following = Following::begin(&path, POLL, true, WRITING / 2);
    following.until("1").await;

    let mut written = File::create(&path).unwrap();
    for hosts in ["2", "23"] {
        written
            .write_all(file(&hosts[hosts.len() - 1..]).as_bytes())
            .unwrap();
        following.until(hosts).await;
    }
    assert_eq!(following.logged("does not close it"), 1);
}

#[tokio::test]
async fn a_file_that_its_writer_has_emptied_keeps_the_policies_until_he_closes_it() {
    let folder = Folder::new();
    let path = folder.path("config.yaml");
    let following = Following::begin(&path, POLL, true, WRITING / 2);
    folder.write("config.yaml", &file("1"));
    following.until("1").await;

    let written = File::create(&path).unwrap();
    following
        .until_logged("its writer does not close it: the policies stay", 1)
        .await;
    sleep(WRITING * 2 + QUIET * 5).await;
    assert_eq!(following.hosts(), "1");
    assert_eq!(following.logged("WARN"), 1, "{}", following.log());

    drop(written);
    following.until("").await;
}

#[tokio::test]
async fn a_new_file_that_its_writer_has_not_begun_to_write_does_not_count() {
    let folder = Folder::new();
    let following = Following::by_notices(&folder.path("config.yaml"));
    folder.write("config.yaml", &file("1"));
    following.until("1").await;
    folder.remove("config.yaml");
    following.until_logged("is gone", 1).await;

    let mut written = File::create(folder.path("config.yaml")).unwrap();
    sleep(WRITING * 2 + QUIET * 5).await;
    assert_eq!(following.hosts(), "1");
    written.write_all(file("2").as_bytes()).unwrap();
    drop(written);

    following.until("2").await;
}

#[tokio::test]
async fn no_list_is_half_an_old_one_and_half_a_new_one() {
    let folder = Folder::new();
    let (one, other) = ("123456789", "987654321");
    folder.write("config.yaml", &file(one));
    let path = folder.path("config.yaml");
    let following = Following::by_notices(&path);

    for round in 0..200 {
        let text = file(if round % 2 == 0 { other } else { one });
        let mut written = File::create(&path).unwrap();
        for piece in text.as_bytes().chunks(20) {
            written.write_all(piece).unwrap();
            tokio::task::yield_now().await;
        }
        drop(written);
        if round % 10 == 0 {
            sleep(QUIET * 3).await;
        }
        let hosts = following.hosts();
        assert!(hosts == one || hosts == other, "{hosts}");
    }
    following.until(one).await;
    assert!(
        following.logged("policies read") >= 2,
        "{}",
        following.log()
    );
    assert_eq!(following.logged("WARN"), 0, "{}", following.log());
}

#[tokio::test]
async fn a_file_of_one_mebibyte_is_read_and_a_larger_one_is_refused() {
    let folder = Folder::new();
    let following = Following::by_notices(&folder.path("config.yaml"));
    let mut text = file("12");
    text.push_str(&"#".repeat((1 << 20) - text.len()));

    folder.write("config.yaml", &text);
    following.until("12").await;
    folder.write("config.yaml", &format!("{text}#"));
    following
        .until_logged("it has more than 1048576 bytes", 1)
        .await;
    assert_eq!(following.hosts(), "12");
}

#[tokio::test]
async fn what_is_no_file_does_not_hold_anybody_up() {
    let folder = Folder::new();
    let following = Following::by_notices(&folder.path("config.yaml"));

    fs::create_dir(folder.path("config.yaml")).unwrap();
    following.until_logged("cannot read", 1).await;
    fs::remove_dir(folder.path("config.yaml")).unwrap();
    let pipe = folder.path("config.yaml");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    // Neither is a file, which was said already.
    sleep(QUIET * 5).await;
    folder.remove("config.yaml");
    folder.link("config.yaml", "config.yaml");
    following.until_logged("cannot read", 2).await;
    folder.remove("config.yaml");

    folder.write("config.yaml", &file("1"));
    following.until("1").await;
}
