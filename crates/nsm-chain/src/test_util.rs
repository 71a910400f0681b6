//! For tests of elements, behind the feature `test-util`.
//!
//! ```
//! # use nsm_api::connection::Connection;
//! # use nsm_chain::{Call, ErrorKind, test_util::{FailOn, Recorder, echo}};
//! # use tower::{ServiceBuilder, ServiceExt};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let below = Recorder::new();
//! let chain = ServiceBuilder::new()
//!     // .layer(the element under test)
//!     .layer(below.clone())
//!     .layer(FailOn::close(1))
//!     .service(echo());
//!
//! let error = chain.oneshot(Call::close(Connection::default())).await.unwrap_err();
//!
//! assert_eq!(error.kind(), ErrorKind::Unavailable);
//! assert_eq!(below.operations(), ["close"]);
//! # }
//! ```

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use tokio::time::{Duration, sleep};
use tower::{Layer, Service};

use crate::{BoxFuture, Call, End, Error, ErrorKind, NetworkService, take_ready};

/// A far end that answers with what it is asked for.
pub fn echo() -> End {
    End
}

/// A layer that records each call that goes by. Clones share the record.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Recorder {
    /// A recorder that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().clone()
    }

    /// The last call.
    ///
    /// # Panics
    ///
    /// If there was none.
    #[track_caller]
    pub fn last(&self) -> Call {
        match self.lock().last() {
            Some(call) => call.clone(),
            None => panic!("no call has gone by"),
        }
    }

    /// The operations so far, by name.
    pub fn operations(&self) -> Vec<&'static str> {
        self.lock()
            .iter()
            .map(|call| call.operation.name())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Layer<S> for Recorder {
    type Service = Recorded<S>;

    fn layer(&self, inner: S) -> Recorded<S> {
        Recorded {
            inner,
            recorder: self.clone(),
        }
    }
}

/// The service of [`Recorder`].
#[derive(Clone, Debug)]
pub struct Recorded<S> {
    inner: S,
    recorder: Recorder,
}

impl<S: NetworkService> Service<Call> for Recorded<S> {
    type Response = Connection;
    type Error = Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        self.recorder.lock().push(call.clone());
        self.inner.call(call)
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails.
    Error(ErrorKind),
    /// The call takes so long, and is well otherwise.
    Delay(Duration),
    /// The call panics.
    Panic,
}

/// A layer that lets something go wrong with certain calls. Clones count together; several of
/// them, one on the other, make a script.
#[derive(Clone, Debug)]
pub struct FailOn {
    operation: &'static str,
    nth: usize,
    later_too: bool,
    fault: Fault,
    after: bool,
    seen: Arc<AtomicUsize>,
}

impl FailOn {
    /// The `nth` request, counted from 1, is answered with [`ErrorKind::Unavailable`], and does
    /// not go on.
    pub fn request(nth: usize) -> Self {
        Self::new("request", nth)
    }

    /// The same for a close.
    pub fn close(nth: usize) -> Self {
        Self::new("close", nth)
    }

    fn new(operation: &'static str, nth: usize) -> Self {
        Self {
            operation,
            nth,
            later_too: false,
            fault: Fault::Error(ErrorKind::Unavailable),
            after: false,
            seen: Arc::default(),
        }
    }

    /// All later ones too.
    #[must_use]
    pub fn and_later(mut self) -> Self {
        self.later_too = true;
        self
    }

    /// Another fault.
    #[must_use]
    pub fn with(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    /// It goes wrong on the way up: the call has been well below.
    #[must_use]
    pub fn on_the_way_up(mut self) -> Self {
        self.after = true;
        self
    }

    fn hits(&self, call: &Call) -> bool {
        if call.operation.name() != self.operation {
            return false;
        }
        let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        seen == self.nth || (self.later_too && seen > self.nth)
    }
}

impl Fault {
    async fn strike(self) -> Result<(), Error> {
        match self {
            Self::Error(kind) => Err(Error::new(kind, "fail_on", "injected")),
            Self::Delay(duration) => {
                sleep(duration).await;
                Ok(())
            }
            Self::Panic => panic!("injected"),
        }
    }
}

impl<S> Layer<S> for FailOn {
    type Service = Failing<S>;

    fn layer(&self, inner: S) -> Failing<S> {
        Failing {
            inner,
            fail_on: self.clone(),
        }
    }
}

/// The service of [`FailOn`].
#[derive(Clone, Debug)]
pub struct Failing<S> {
    inner: S,
    fail_on: FailOn,
}

impl<S: NetworkService> Service<Call> for Failing<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        if !self.fail_on.hits(&call) {
            return Box::pin(inner.call(call));
        }
        let FailOn { fault, after, .. } = self.fail_on;
        Box::pin(async move {
            if after {
                let connection = inner.call(call).await?;
                fault.strike().await?;
                Ok(connection)
            } else {
                fault.strike().await?;
                inner.call(call).await
            }
        })
    }
}

/// How far a future came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled<T> {
    /// What the future gave, if it came to its end.
    pub output: Option<T>,
    /// How often it was polled.
    pub polls: usize,
}

/// Polls a future `polls` times, each time when it asks for it, and then drops it if it has not
/// come to its end: a caller that goes away at that await.
///
/// ```
/// # use nsm_chain::test_util::poll_n_then_drop;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// for polls in 0.. {
///     let call = tokio::task::yield_now();
///     // Here: assert what must hold wherever the caller goes away.
///     if poll_n_then_drop(call, polls).await.output.is_some() {
///         break;
///     }
/// }
/// # }
/// ```
pub async fn poll_n_then_drop<F: Future>(future: F, polls: usize) -> Polled<F::Output> {
    let mut future = pin!(future);
    let mut polled = 0;
    let output = poll_fn(|cx| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polled == polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    Polled {
        output,
        polls: polled,
    }
}
