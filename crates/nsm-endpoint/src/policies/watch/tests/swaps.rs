//! Files that are put in the place of others.

use super::*;

/// A volume as Kubernetes mounts one: the file is a link through `..data`, which is a link to a
/// directory of its version.
fn volume(hosts: &str) -> Folder {
    let folder = Folder::new();
    version(&folder, "..1", hosts);
    folder.link("..1", "..data");
    folder.link("..data/config.yaml", "config.yaml");
    folder
}

fn version(folder: &Folder, name: &str, hosts: &str) {
    fs::create_dir(folder.path(name)).unwrap();
    folder.write(&format!("{name}/config.yaml"), &file(hosts));
}

/// Changes the version of a volume, as the kubelet does, and removes the former one at once.
fn swap(folder: &Folder, former: &str, name: &str, hosts: &str) {
    version(folder, name, hosts);
    folder.link(name, "..data_tmp");
    folder.rename("..data_tmp", "..data");
    fs::remove_dir_all(folder.path(former)).unwrap();
}

#[tokio::test]
async fn a_change_is_seen_however_the_kernel_reports_it() {
    let folder = Folder::new();
    folder.write("config.yaml", &file("1"));
    let following = Following::by_notices(&folder.path("config.yaml"));

    // As write.
    folder.write("config.yaml", &file("2"));
    following.until("2").await;
    // As rename.
    folder.write("new", &file("3"));
    folder.rename("new", "config.yaml");
    following.until("3").await;
    // As the editors do it that keep a backup.
    folder.rename("config.yaml", "config.yaml~");
    folder.write("config.yaml", &file("4"));
    following.until("4").await;
    folder.remove("config.yaml~");
    // As create, of another name for a file.
    folder.write("other", &file("5"));
    folder.remove("config.yaml");
    fs::hard_link(folder.path("other"), folder.path("config.yaml")).unwrap();
    following.until("5").await;
    // As create, of a link; and behind it.
    folder.remove("config.yaml");
    folder.link("other", "config.yaml");
    folder.write("other", &file("6"));
    following.until("6").await;
    folder.write("other", &file("7"));
    following.until("7").await;
    // As nothing but a close: what is mapped is written without a write.
    let old = fs::OpenOptions::new()
        .write(true)
        .open(folder.path("other"));
    std::os::unix::fs::FileExt::write_all_at(&old.unwrap(), b"8", 15).unwrap();
    following.until("8").await;
    assert_eq!(following.logged("WARN"), 0, "{}", following.log());
}

#[tokio::test]
async fn every_swap_of_a_volume_is_seen() {
    let folder = volume("1");
    let following = Following::by_notices(&folder.path("config.yaml"));

    for (number, hosts) in (1..).zip(["2", "23", "4", "1"]) {
        let (former, name) = (format!("..{number}"), format!("..{}", number + 1));
        swap(&folder, &former, &name, hosts);
        following.until(hosts).await;
    }
    // The former version need not go.
    version(&folder, "..6", "6");
    folder.link("..6", "..data_tmp");
    folder.rename("..data_tmp", "..data");
    following.until("6").await;
    // Not the way of the kubelet, but one in which the file itself is written.
    folder.write("..data/config.yaml", &file("5"));
    following.until("5").await;
}

#[tokio::test]
async fn of_three_swaps_within_ten_milliseconds_the_last_counts() {
    let folder = volume("1");
    let following = Following::by_notices(&folder.path("config.yaml"));
    following.until("1").await;

    for (round, last) in ["12", "13", "14", "15", "16"].into_iter().enumerate() {
        let name = |version: usize| format!("..{}", 1 + 3 * round + version);
        let start = Instant::now();
        swap(&folder, &name(0), &name(1), "2");
        swap(&folder, &name(1), &name(2), "23");
        swap(&folder, &name(2), &name(3), last);
        let took = start.elapsed();

        following.until(last).await;
        assert!(took < Duration::from_millis(500), "{took:?}");
    }
    assert_eq!(following.logged("WARN"), 0, "{}", following.log());
}

#[tokio::test]
async fn a_volume_behind_links_to_directories_is_followed() {
    let folder = volume("1");
    let elsewhere = Folder::new();
    std::os::unix::fs::symlink(folder.path("..data"), elsewhere.path("policies")).unwrap();
    let following = Following::by_notices(&elsewhere.path("policies/config.yaml"));

    swap(&folder, "..1", "..2", "2");
    following.until("2").await;

    let other = volume("3");
    elsewhere.remove("policies");
    std::os::unix::fs::symlink(other.path("..data"), elsewhere.path("policies")).unwrap();
    following.until("3").await;
    swap(&other, "..1", "..2", "4");
    following.until("4").await;
}

#[tokio::test]
async fn a_file_that_is_removed_and_added_five_times_arrives_each_time() {
    let folder = Folder::new();
    folder.write("config.yaml", &file("1"));
    let following = Following::by_notices(&folder.path("config.yaml"));

    for (times, hosts) in (1..).zip(["2", "3", "4", "5", "6"]) {
        let before = following.hosts();
        folder.remove("config.yaml");
        following
            .until_logged("the policy file is gone", times)
            .await;
        assert_eq!(following.hosts(), before, "what was there last stays");

        folder.write("config.yaml", &file(hosts));
        following.until(hosts).await;
    }
}

#[tokio::test]
async fn a_directory_that_is_not_there_yet_is_waited_for() {
    let folder = Folder::new();
    let following = Following::by_notices(&folder.path("a/b/config.yaml"));

    fs::create_dir(folder.path("a")).unwrap();
    sleep(Duration::from_millis(50)).await;
    fs::create_dir(folder.path("a/b")).unwrap();
    sleep(Duration::from_millis(50)).await;
    folder.write("a/b/config.yaml", &file("1"));
    following.until("1").await;

    // And one that another is put in the place of.
    fs::create_dir(folder.path("new")).unwrap();
    folder.write("new/config.yaml", &file("2"));
    folder.rename("a/b", "a/old");
    folder.rename("new", "a/b");
    following.until("2").await;
    assert_eq!(following.logged("WARN"), 0, "{}", following.log());
}
