//! Traffic that is watched while something happens.

use crate::{Mesh, who_answers};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A machine at work may be late with an answer once, and then once more.
const LATE: usize = 3;

/// Does something, while the traffic of a pod to a network is asked for all the time. There must
/// be no other pod with that network's policies meanwhile.
///
/// # Panics
/// When another network has answered, or nobody several times in a row.
#[track_caller]
pub fn while_served<T>(mesh: &Mesh, pod: usize, network: usize, what: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| watch(mesh, pod, network, &over));
        // Also when it panics.
        let ends = Ends(&over);
        let result = what();
        drop(ends);
        let asked = watch
            .join()
            .unwrap_or_else(|fault| std::panic::resume_unwind(fault));
        assert!(asked > 0);
        result
    })
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Tells how often it has asked.
fn watch(mesh: &Mesh, pod: usize, network: usize, over: &AtomicBool) -> usize {
    let right = Some(network as u8);
    let (mut asked, mut late) = (0, 0);
    loop {
        let answers = who_answers(&mesh.pods[pod], network);
        let wrong = answers.iter().flatten().any(|it| Some(*it) != right);
        assert!(!wrong, "another network answers: {answers:?}");
        late = match answers == [right; 2] {
            true => 0,
            false => late + 1,
        };
        assert!(late < LATE, "nobody answers for network {network}");
        asked += 1;
        // Others need the processor, too.
        thread::sleep(Duration::from_millis(2));
        if over.load(Relaxed) {
            return asked;
        }
    }
}
