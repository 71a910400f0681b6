//! Files that change, in folders of the file system, with the notices of the kernel or without.

mod contents;
mod swaps;
mod unheard;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use nsm_chain::Monitor;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep};
use tracing::subscriber::DefaultGuard;

use super::*;
use crate::policies::list::Labels;

/// Longer than any test takes: what is seen, is seen because the kernel has told.
const NEVER: Duration = Duration::from_secs(3600);

/// A folder, which goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("nsm-endpoint-watch-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn link(&self, target: &str, name: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A file with one policy for each of these hosts.
fn file(hosts: &str) -> String {
    let items = hosts.chars().map(|host| format!("- from: 10.1.0.{host}\n"));
    items.collect()
}

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + 'static {
        let log = self.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish()
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Somebody who follows a file, what policies that gives, and what is logged meanwhile.
struct Following {
    policies: Policies,
    task: JoinHandle<Infallible>,
    log: Log,
    _logs: DefaultGuard,
}

impl Following {
    /// Hears what the kernel tells, and does not look by itself.
    fn by_notices(path: &Path) -> Self {
        Self::begin(path, NEVER, true, PATIENCE)
    }

    /// Looks every two seconds, and hears nothing.
    fn by_looking(path: &Path) -> Self {
        Self::begin(path, POLL, false, PATIENCE)
    }

    fn begin(path: &Path, poll: Duration, hears: bool, patience: Duration) -> Self {
        let log = Log::default();
        let logs = tracing::subscriber::set_default(log.subscriber());
        let (file, list) = PolicyFile::read(path).unwrap();
        let file = PolicyFile {
            poll,
            patience,
            hears,
            ..file
        };
        let policies = Policies::new(list.unwrap_or_default(), Monitor::new());
        Self {
            task: tokio::spawn(file.follow(policies.clone())),
            policies,
            log,
            _logs: logs,
        }
    }

    /// The hosts that there are policies for.
    fn hosts(&self) -> String {
        let list = self.policies.get();
        let everybody = Labels::new();
        let hosts: Vec<_> = list
            .policies_for(&everybody)
            .map(|policy| policy.from.replace("10.1.0.", "").replace("/32", ""))
            .collect();
        hosts.concat()
    }

    /// Waits until there are policies for just these hosts.
    async fn until(&self, hosts: &str) {
        until(
            &format!("{hosts:?}"),
            || self.hosts() == hosts,
            || self.log(),
        )
        .await;
    }

    async fn until_logged(&self, words: &str, times: usize) {
        until(words, || self.logged(words) >= times, || self.log()).await;
        assert_eq!(self.logged(words), times, "{}", self.log());
    }

    fn logged(&self, words: &str) -> usize {
        self.log().matches(words).count()
    }

    fn log(&self) -> String {
        self.log.text()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn until(what: &str, mut happened: impl FnMut() -> bool, why_not: impl Fn() -> String) {
    let start = Instant::now();
    while !happened() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "in vain: {what}\n{}",
            why_not()
        );
        sleep(Duration::from_millis(1)).await;
    }
}
