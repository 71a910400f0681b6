//! Follows a policy file.
//!
//! inotify tells when to look, and what is found is what counts: no kind of event is trusted to mean
//! anything, and none has to come. So it is all the same whether a file is written in place, or
//! replaced by rename, or is behind the `..data` link of a Kubernetes volume, whose change is that of
//! a directory; and what no event tells of, such as a mount, or a file that is bound into a
//! container (`subPath`), is found by looking every two seconds.

mod notices;
mod settling;
mod way;

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nsm_chain::ErrorChain;
use tokio::task::spawn_blocking;
use tokio::time::{Duration, Instant, sleep_until};
use tracing::{info, warn};

use super::file::PolicyFileError;
use super::found::Found;
use super::given::Policies;
use super::list::PolicyList;
use notices::Notices;
use settling::{Settling, Step};
use way::Way;

/// How often somebody looks who hears nothing.
const POLL: Duration = Duration::from_secs(2);
/// How long it has to be quiet behind a change. Twice as long, and it counts.
const QUIET: Duration = Duration::from_millis(20);
/// How long between two looks at a file that may be half written. One that no notice comes of counts
/// when it is as old as that.
const WRITING: Duration = Duration::from_secs(1);
/// How long a writer is waited for who has a file open, and changes it no more.
const PATIENCE: Duration = Duration::from_secs(60);

/// A policy file, and what was found there last.
///
/// What counts is the content of the file at the path, links followed. A content counts when it is
/// found twice, 20 ms apart, with nothing in between, and nobody is writing it.
///
/// * Where inotify tells of the change, a file is being written from then until it is closed: a
///   list is known within 0.1 s of that. A writer who has it open for 60 s without another change
///   is warned about, and waited for no longer, unless the file is empty: one that he has made empty
///   counts only when he closes it.
/// * Where it does not tell, a file is being written until one second behind its time of
///   modification: a list is known within 3.1 s. What stands there then counts, closed or not.
///
/// A file that has a mistake, cannot be read, or is gone changes nothing: the policies stay as they
/// were, and that is logged, once for each. Only an empty list takes them away. A file has at most
/// 1 MiB.
#[derive(Debug)]
pub struct PolicyFile {
    path: PathBuf,
    found: Found,
    poll: Duration,
    patience: Duration,
    hears: bool,
}

impl PolicyFile {
    /// Reads a file. The list is `None` where there is no such file.
    ///
    /// # Errors
    ///
    /// As [`PolicyList::read`].
    pub fn read(path: &Path) -> Result<(Self, Option<PolicyList>), PolicyFileError> {
        let found = Found::at(path);
        let list = found.list(path)?;
        let file = Self {
            path: path.to_owned(),
            found,
            poll: POLL,
            patience: PATIENCE,
            hears: true,
        };
        Ok((file, list))
    }

    /// Gives the policies each list that the file has from now on.
    ///
    /// # Cancellation
    ///
    /// The future ends when it is dropped, and nothing is watched any more then. Has to be polled
    /// within a tokio runtime.
    pub async fn follow(self, policies: Policies) -> Infallible {
        let (path, poll) = (self.path, self.poll);
        let mut settling = Settling::new(self.found);
        let mut look = Look::new(&path, self.hears);
        loop {
            let found;
            (look, found) = match spawn_blocking(|| look.at_it()).await {
                Ok(looked) => looked,
                // The runtime ends, and this with it.
                Err(_) => return std::future::pending().await,
            };
            let pause = if look.is_being_written(&found, self.patience) {
                WRITING
            } else {
                match settling.found(found) {
                    Step::Same => {
                        look.is_told = false;
                        poll
                    }
                    Step::Again => look.quiet(),
                    Step::Settled(found) => {
                        take(&path, &found, &policies);
                        look.is_told = false;
                        poll
                    }
                }
            };
            look.wait(pause, poll).await;
        }
    }
}

/// Gives the policies the list of what has come to stay.
fn take(path: &Path, found: &Found, policies: &Policies) {
    match found.list(path) {
        Ok(Some(list)) => {
            let count = list.len();
            let told = policies.set(list);
            info!(path = %path.display(), policies = count, told, "policies read");
        }
        Ok(None) => warn!(
            path = %path.display(),
            "the policy file is gone: the policies stay as they were"
        ),
        Err(error) => warn!(
            error = %ErrorChain(&error),
            "the policy file cannot be used: the policies stay as they were"
        ),
    }
}

/// Looks at a path, and waits for a reason to look again.
struct Look {
    path: PathBuf,
    /// An absolute one.
    from_root: PathBuf,
    notices: Option<Notices>,
    /// Whether a notice came of what is there now.
    is_told: bool,
    /// When the file was changed last, as it says.
    modified: Option<SystemTime>,
    /// Whether it was said that a writer takes too long. Said again of the next.
    is_late: bool,
    /// Whether it was said that not all is heard.
    is_deaf: bool,
}

impl Look {
    fn new(path: &Path, hears: bool) -> Self {
        let mut look = Self {
            path: path.to_owned(),
            from_root: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            notices: None,
            is_told: false,
            modified: None,
            is_late: false,
            is_deaf: false,
        };
        if hears {
            match Notices::new() {
                Ok(notices) => look.notices = Some(notices),
                Err(error) => look.is_deaf_for(&error),
            }
        }
        look
    }

    /// Looks, after it has made sure to hear of what changes behind that.
    fn at_it(mut self) -> (Self, Found) {
        if let Some(notices) = &mut self.notices
            && let Err(error) = notices.follow(&Way::along(&self.from_root))
        {
            self.is_deaf_for(&error);
        }
        let found = Found::at(&self.path);
        let metadata = std::fs::metadata(&self.path);
        self.modified = metadata.and_then(|it| it.modified()).ok();
        (self, found)
    }

    /// Whether what was found may be half of what somebody is writing.
    fn is_being_written(&mut self, found: &Found, patience: Duration) -> bool {
        let Found::Content(content) = found else {
            return false;
        };
        let open = self.notices.as_ref().and_then(Notices::open);
        // One that was only made is half of something as long as there is nothing in it.
        let Some(open) = open.filter(|it| it.is_changed || content.is_empty()) else {
            self.is_late = false;
            return !self.is_told && self.is_fresh();
        };
        if open.since.elapsed() < patience {
            self.is_late = false;
            return true;
        }
        let waits_on = open.is_changed && content.is_empty();
        if !std::mem::replace(&mut self.is_late, true) {
            let path = self.path.display();
            match waits_on {
                true => warn!(
                    %path,
                    "the policy file is empty, and its writer does not close it: the policies stay \
                     as they were until then"
                ),
                false => warn!(
                    %path,
                    "the writer of the policy file does not close it: what stands there counts"
                ),
            }
        }
        waits_on
    }

    /// Whether the file has changed a moment ago. One whose time is still to come, by another clock,
    /// is not waited for.
    fn is_fresh(&self) -> bool {
        let age = self.modified.and_then(|it| it.elapsed().ok());
        age.is_some_and(|age| age < WRITING)
    }

    /// How long it has to be quiet.
    fn quiet(&self) -> Duration {
        let notices = self.notices.as_ref();
        let open = notices.and_then(Notices::open);
        match open.is_some_and(|it| it.is_changed) {
            true => WRITING,
            false => QUIET,
        }
    }

    /// Waits that long, or until it has been quiet behind a change, and no longer than `at_most`.
    async fn wait(&mut self, pause: Duration, at_most: Duration) {
        let start = Instant::now();
        let mut until = start + pause;
        loop {
            let Some(notices) = &mut self.notices else {
                return sleep_until(until).await;
            };
            let heard = tokio::select! {
                () = sleep_until(until) => return,
                heard = notices.changed() => heard,
            };
            match heard {
                Ok(()) => self.is_told = true,
                Err(error) => {
                    self.is_deaf_for(&error);
                    self.notices = None;
                }
            }
            until = (Instant::now() + self.quiet()).min(start + at_most);
        }
    }

    fn is_deaf_for(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.is_deaf, true) {
            warn!(
                path = %self.path.display(),
                %error,
                "the kernel tells nothing of the policy file: a change is found within 3 s"
            );
        }
    }
}

#[cfg(test)]
mod tests;
