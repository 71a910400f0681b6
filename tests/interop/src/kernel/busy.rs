//! Somebody who changes rules and routes of a pod as fast as the kernel lets him.

use super::Error;
use super::pod::Pod;
use nsm_netlink::{Family, Kernel, Op, Placement, Route, Rule, Selector};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// His table and the mark of what he makes (`RTPROT_BOOT`).
const TABLE: u32 = 7777;
const BOOT: u8 = 3;

/// He works until this ends, and leaves nothing.
#[derive(Debug)]
pub(crate) struct Busy {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Busy {
    pub(crate) fn start(pod: &Pod) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut kernel = pod.kernel()?;
        let mut links = kernel.links()?.into_iter();
        let eth0 = links.find(|link| link.name == "eth0");
        let eth0 = eth0.ok_or("a pod without eth0")?.index;
        let rule = Rule::lookup(19999, Selector::any(Family::V4), TABLE, BOOT);
        let route = Route::unicast(TABLE, "203.0.113.0/24".parse()?, eth0, None, BOOT);
        let change = [
            Op::AddRoute(route.clone(), Placement::Append),
            Op::AddRule(rule.clone()),
            Op::DelRule(rule),
            Op::DelRoute(route),
        ];
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                kernel.execute(&change)?;
            }
            Ok(())
        });
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    pub(crate) fn end(mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err("whoever was busy panicked".into()),
            Some(Ok(result)) => result,
            None => Ok(()),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
