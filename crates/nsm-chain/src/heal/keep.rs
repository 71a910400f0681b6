//! The task of one connection.

use std::pin::pin;
use std::sync::{Arc, Weak};

use futures_util::StreamExt;
use http::Extensions;
use nsm_api::ConnectionId;
use nsm_api::connection::{Connection, State};
use tokio::sync::{Notify, watch};
use tokio::time::{Duration, Instant, sleep};
use tracing::{debug, info, warn};

use super::pace::{Pace, Verdict, verdict};
use super::pulse::{Pulse, Remedy};
use super::{How, Kept, announce};
use crate::begin::{Events, Outcome};
use crate::monitor::heard::{Heard, heard};
use crate::monitor::{EventStream, of_segment};
use crate::timers::{BackOff, chance};
use crate::{Error, ErrorKind};

/// The longest pause between two repairs, and between two requests for something new.
const REPAIR_PAUSE: Duration = Duration::from_secs(30);
/// The same where the next hop has been lost, and knows nothing when it is back: it may be killed
/// again and again.
const RETURN_PAUSE: Duration = Duration::from_millis(100);
const NEWS_PAUSE: Duration = Duration::from_millis(500);
/// How often a next hop may be back without knowing the connection, and without saying afterwards
/// that it stands, before that counts as any other trouble.
const RETURNS: u32 = 300;
/// The pauses between attempts to hear from a next hop, at first and at most: from one that has been
/// heard, and from one that does not tell.
const LISTEN_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(300));
const REFUSED_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));
/// A stream that has stood so long is none that ends at once.
const STOOD: Duration = Duration::from_millis(500);
/// The same between attempts of one repair, to ask again and to ask for another endpoint.
const ASK_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
const RESELECT_PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// How long the first attempt takes at most, and twice as long each that follows, up to the time of a
/// request. A close that comes meanwhile waits for it.
const ATTEMPT: Duration = Duration::from_secs(2);

/// A request that has succeeded.
pub(super) struct Answered {
    pub(super) connection: Connection,
    pub(super) to: Extensions,
    pub(super) events: Events,
}

/// Keeps one connection.
pub(super) struct Keep {
    pub(super) id: ConnectionId,
    pub(super) how: How,
    pub(super) answered: watch::Receiver<Answered>,
    pub(super) wanted: Arc<Notify>,
    pub(super) others: Weak<Kept>,
    pub(super) progress: Progress,
}

/// How far the work on a connection is.
#[derive(Default)]
pub(super) struct Progress {
    pace: Pace,
    trouble: Option<Trouble>,
    /// How often the next hop has not known the connection, since it last said that it stands.
    returns: u32,
}

/// Something to be done.
enum Task {
    /// There is something new: for this connection, or for another that belongs to it.
    News { ours: bool },
    /// The connection is down behind the next hop, or not known to it when it is heard at first.
    Down { at_first: bool },
    /// It has no pulse.
    Feel(Remedy),
    /// The next hop is not heard.
    Lost {
        error: Option<Error>,
        was_heard: bool,
        /// Whether it has said that the connection stands.
        was_up: bool,
    },
}

/// What has been done since the next hop was heard last.
struct Lost {
    pauses: BackOff,
    /// Whether the connection was asked for.
    asked: bool,
}

impl Lost {
    fn after(pauses: (Duration, Duration)) -> Self {
        Self {
            pauses: BackOff::between(pauses.0, pauses.1),
            asked: false,
        }
    }
}

/// A repair that has not succeeded yet.
struct Trouble {
    /// Since when the next hop has been there, and the connection has not worked.
    since: Instant,
    pauses: BackOff,
    within: Duration,
}

impl Trouble {
    fn begins() -> Self {
        Self {
            since: Instant::now(),
            pauses: BackOff::between(ASK_PAUSE.0, ASK_PAUSE.1),
            within: ATTEMPT,
        }
    }
}

/// The chain is gone, or the connection is not known any more: nothing will be.
struct Over;

impl Keep {
    pub(super) async fn run(mut self) {
        let mut pulse = Pulse::default();
        let mut lost = Lost::after(REFUSED_PAUSE);
        loop {
            let mut events = self.listen();
            let since = Instant::now();
            let task = self.next(&mut events, &mut pulse).await;
            drop(events);
            let task = match task {
                Task::Lost {
                    error,
                    was_heard,
                    was_up,
                } => {
                    // What is between us and a next hop that is away says nothing of the endpoint.
                    self.progress.trouble = None;
                    if was_up {
                        self.progress.pace = Pace::default();
                    }
                    if was_heard && since.elapsed() >= STOOD {
                        lost = Lost::after(LISTEN_PAUSE);
                    }
                    self.lost(error, &mut lost, &mut pulse).await
                }
                task => {
                    lost = Lost::after(LISTEN_PAUSE);
                    Ok(Some(task))
                }
            };
            let done = match task {
                Ok(Some(task)) => self.work(task, &mut pulse).await,
                Ok(None) => Ok(()),
                Err(over) => Err(over),
            };
            if let Err(Over) = done {
                return;
            }
        }
    }

    async fn work(&mut self, task: Task, pulse: &mut Pulse) -> Result<(), Over> {
        let longest = match task {
            Task::News { .. } => NEWS_PAUSE,
            Task::Down { at_first: true } if self.progress.returns < RETURNS => RETURN_PAUSE,
            Task::Down { .. } | Task::Feel(_) | Task::Lost { .. } => REPAIR_PAUSE,
        };
        // A repair that goes on has pauses of its own.
        if self.progress.trouble.is_none() {
            sleep(self.progress.pace.wait(Instant::now(), longest)).await;
        }
        match task {
            Task::News { ours } => self.renew(ours).await,
            Task::Down { at_first } => {
                self.progress.returns += u32::from(at_first);
                self.repair().await
            }
            Task::Feel(Remedy::Ask) => self.repair().await,
            Task::Feel(Remedy::Reselect) => {
                *pulse = Pulse::default();
                self.reselect().await
            }
            Task::Lost { .. } => Ok(()),
        }
    }

    fn listen(&self) -> EventStream {
        let answered = self.answered.borrow();
        let own = answered.connection.current_segment();
        let selector = own.map(of_segment).unwrap_or_default();
        self.how.watch.watch(&answered.to, selector)
    }

    /// Listens and feels until there is something to be done.
    async fn next(&mut self, events: &mut EventStream, pulse: &mut Pulse) -> Task {
        let progress = &mut self.progress;
        let mut feeling = pin!(feel(&self.how, &self.answered, pulse));
        let (mut is_heard, mut is_up) = (false, false);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.wanted.notified() => return Task::News { ours: false },
                remedy = &mut feeling, if is_heard => return Task::Feel(remedy),
            };
            let at_first = !std::mem::replace(&mut is_heard, true);
            let lost = |error| Task::Lost {
                error,
                was_heard: !at_first,
                was_up: is_up,
            };
            let event = match event.transpose() {
                Ok(Some(event)) => event,
                Ok(None) => return lost(None),
                Err(error) => return lost(Some(error)),
            };
            let answered = self.answered.borrow();
            let own = answered.connection.current_segment();
            match own.map_or(Heard::Nothing, |own| heard(&event, own)) {
                Heard::Nothing | Heard::State(State::ReselectRequested) => {}
                Heard::State(State::Up) => {
                    progress.trouble = None;
                    progress.returns = 0;
                    is_up = true;
                }
                Heard::State(State::RefreshRequested) => return Task::News { ours: true },
                Heard::State(State::Down) => return Task::Down { at_first: false },
                Heard::Unknown => return Task::Down { at_first },
            }
        }
    }

    /// Asks for the connection again, since there is something new. What fails is left to the next
    /// time that the next hop says so, which it does when it is listened to again.
    async fn renew(&mut self, ours: bool) -> Result<(), Over> {
        if ours
            && self.how.all_together
            && let Some(others) = self.others.upgrade()
        {
            others.want_others(&self.id);
        }
        debug!(connection.id = %self.id, "there is something new");
        match self.ask(ATTEMPT).await? {
            Ok(()) => {}
            Err(error) => self.log("asking again", &error, None),
        }
        Ok(())
    }

    /// Asks for the connection again, and for another endpoint when it is to be. What fails is tried
    /// again as long as the next hop is there and says that it is needed.
    async fn repair(&mut self) -> Result<(), Over> {
        info!(connection.id = %self.id, "the connection does not work: asking for it again");
        self.answered.mark_unchanged();
        let trouble = self.progress.trouble.get_or_insert_with(Trouble::begins);
        let (since, within) = (trouble.since, trouble.within);
        let error = match self.ask(within).await? {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let pause = match verdict(error.kind(), since.elapsed(), self.how.patience) {
            Verdict::Again => {
                let trouble = self.progress.trouble.get_or_insert_with(Trouble::begins);
                trouble.within = trouble.within.saturating_mul(2);
                jittered(trouble.pauses.pause())
            }
            Verdict::Another => {
                self.log("asking again", &error, None);
                return self.reselect().await;
            }
        };
        self.log("asking again", &error, Some(pause));
        self.somebody_else_within(pause).await;
        Ok(())
    }

    /// Asks for another endpoint until there is one.
    async fn reselect(&mut self) -> Result<(), Over> {
        info!(connection.id = %self.id, "asking for another endpoint");
        self.answered.mark_unchanged();
        let mut pauses = BackOff::between(RESELECT_PAUSE.0, RESELECT_PAUSE.1);
        let mut within = ATTEMPT;
        loop {
            let outcome = self.events().reselect_within(within).await;
            let error = match self.settle(outcome)? {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let pause = jittered(pauses.pause());
            self.log("asking for another endpoint", &error, Some(pause));
            if self.somebody_else_within(pause).await {
                return Ok(());
            }
            within = within.saturating_mul(2);
        }
    }

    /// The next hop is not heard. While it is not reached there is nothing to be done, and what is
    /// felt comes from that. One that is reached and does not tell is asked once whether the
    /// connection stands, and what is felt counts.
    async fn lost(
        &mut self,
        error: Option<Error>,
        lost: &mut Lost,
        pulse: &mut Pulse,
    ) -> Result<Option<Task>, Over> {
        let (kind, reason) = match error {
            Some(error) => (error.kind(), error.report().to_string()),
            None => (ErrorKind::Unavailable, "the stream has ended".to_owned()),
        };
        debug!(connection.id = %self.id, error = reason, "the next hop is not heard");
        let is_away = matches!(kind, ErrorKind::Unavailable | ErrorKind::DeadlineExceeded);
        if kind != ErrorKind::Unavailable && !std::mem::replace(&mut lost.asked, true) {
            match self.ask(ATTEMPT).await? {
                Ok(()) => {}
                Err(error) => {
                    self.log("asking again", &error, None);
                    if error.kind() == ErrorKind::NotFound {
                        return Ok(Some(Task::Feel(Remedy::Reselect)));
                    }
                }
            }
        }
        tokio::select! {
            () = sleep(jittered(lost.pauses.pause())) => Ok(None),
            remedy = feel(&self.how, &self.answered, pulse), if !is_away => {
                Ok(Some(Task::Feel(remedy)))
            }
        }
    }

    async fn ask(&mut self, within: Duration) -> Result<Result<(), Error>, Over> {
        let outcome = self.events().request_within(within).await;
        if let Ok(Outcome::NotKnown) = outcome {
            // It is given up, and there is no other endpoint yet, or it is closed.
            return self.reselect().await.map(Ok);
        }
        self.settle(outcome)
    }

    fn settle(&mut self, outcome: Result<Outcome, Error>) -> Result<Result<(), Error>, Over> {
        match outcome {
            Ok(Outcome::Done(connection)) => {
                announce(&connection);
                self.answered.mark_unchanged();
                self.progress.trouble = None;
                Ok(Ok(()))
            }
            Ok(Outcome::NotKnown | Outcome::ChainGone) => Err(Over),
            Err(error) => Ok(Err(error)),
        }
    }

    fn events(&self) -> Events {
        self.answered.borrow().events.clone()
    }

    /// Whether somebody else, a refresh or a caller, gets the connection within that time.
    async fn somebody_else_within(&mut self, pause: Duration) -> bool {
        tokio::select! {
            () = sleep(pause) => false,
            changed = self.answered.changed() => changed.is_ok(),
        }
    }

    fn log(&self, what: &str, error: &Error, pause: Option<Duration>) {
        let error = error.report();
        match pause {
            Some(pause) => {
                warn!(connection.id = %self.id, %error, ?pause, "{what} failed, will try again");
            }
            None => warn!(connection.id = %self.id, %error, "{what} failed"),
        }
    }
}

/// Feels until there is something to be done about it.
async fn feel(how: &How, answered: &watch::Receiver<Answered>, pulse: &mut Pulse) -> Remedy {
    let Some((liveness, interval)) = &how.liveness else {
        return std::future::pending().await;
    };
    loop {
        sleep(*interval).await;
        let connection = answered.borrow().connection.clone();
        let alive = liveness.is_alive(&connection).await;
        if let Some(remedy) = pulse.felt(alive) {
            return remedy;
        }
    }
}

/// From half of it to all: connections that went down together drift apart.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + chance() / 2.0)
}
