//! How many descriptors the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

/// Lets the process open as many as it may allow itself: the soft limit becomes the hard one
/// (getrlimit(2)).
///
/// The soft limit is 1024 nearly everywhere, for the sake of select(2), which knows no descriptor
/// beyond. Nothing here calls it, and a forwarder holds several descriptors for each connection.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => debug!(
            from = limit.current,
            to = limit.maximum,
            "more descriptors may be open"
        ),
        Err(error) => warn!(
            limit = limit.current,
            %error,
            "the limit of open descriptors cannot be raised"
        ),
    }
}
