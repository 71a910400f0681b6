//! What is left when nobody follows a file any more. It is the only test of its process: others
//! have descriptors, too.

// What fails here fails a test.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::{Duration, Instant};

use nsm_chain::Monitor;
use nsm_endpoint::{Policies, PolicyFile};

/// What the open descriptors of this process are of.
fn descriptors() -> Vec<String> {
    let all = fs::read_dir("/proc/self/fd").unwrap();
    let targets = all.filter_map(|it| fs::read_link(it.ok()?.path()).ok());
    let mut targets: Vec<_> = targets
        .map(|it| it.display().to_string())
        .filter(|it| !it.starts_with("/proc"))
        .collect();
    targets.sort();
    targets
}

async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(20), "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn one_who_follows_a_file_no_more_leaves_no_task_and_no_descriptor() {
    let name = format!("nsm-endpoint-ends-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder).unwrap();
    let path = folder.join("config.yaml");
    fs::write(&path, "").unwrap();
    let before = descriptors();
    let metrics = tokio::runtime::Handle::current().metrics();
    let tasks = metrics.num_alive_tasks();

    for host in 1..=5 {
        let (file, list) = PolicyFile::read(&path).unwrap();
        let policies = Policies::new(list.unwrap_or_default(), Monitor::new());
        let following = tokio::spawn(file.follow(policies.clone()));
        until("it hears", || descriptors().concat().contains("inotify")).await;
        // Each time in another directory, behind a link.
        let target = folder.join(format!("{host}.yaml"));
        fs::write(&target, format!("- from: 10.1.0.{host}\n")).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        until("it is read", || policies.get().len() == 1).await;

        following.abort();
        assert!(following.await.unwrap_err().is_cancelled());
        until("all is let go", || descriptors() == before).await;
        assert_eq!(metrics.num_alive_tasks(), tasks);
    }
    fs::remove_dir_all(&folder).unwrap();
}
