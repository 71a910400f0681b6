//! A namespace that is full of others' rules, which come and go while ours are looked for.

use crate::cases;
use nsm_chain::ErrorKind;
use nsm_netlink::Rule;
use policyroute_suite::{Draft, Machine, Pod, Process, close, connection, policy, request, rule};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

cases![ours_are_found_among_thousands_of_rules_that_come_and_go];

async fn ours_are_found_among_thousands_of_rules_that_come_and_go<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_rules(&others());
    pod.short_reads();
    let before = pod.snapshot();
    let crowd = Crowd::start(&pod);
    let mut process = Process::start(&pod);
    patiently(async || process.call(request(&three(), &pod)).await).await;
    let ours = pod.our_rules();

    for _ in 0..5 {
        process = Process::start(&pod);
        patiently(async || process.call(request(&three(), &pod)).await).await;
    }
    crowd.stop();
    process.request(&three()).await.unwrap();
    assert_eq!(pod.our_rules(), ours);
    assert_eq!(pod.ours().len(), 3);

    let crowd = Crowd::start(&pod);
    patiently(async || process.call(close(&three(), &pod)).await).await;
    crowd.stop();
    assert_eq!(pod.snapshot(), before);
}

/// Somebody who adds and deletes rules all the time, in front of all others.
struct Crowd {
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Crowd {
    fn start<M: Machine>(pod: &Pod<M>) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let (pod, stop) = (pod.clone(), Arc::clone(&stopped));
        let thread = std::thread::spawn(move || {
            let rules: Vec<Rule> = (1..=5).map(|i| rule(i, "10.6.0.0/16", 100, 4)).collect();
            while !stop.load(Ordering::Relaxed) {
                pod.add_rules(&rules);
                rules.iter().for_each(|rule| pod.delete_rule(rule));
            }
        });
        Self { stopped, thread }
    }

    fn stop(self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// Who cannot read in peace says so, and may be asked again.
async fn patiently<T>(call: impl AsyncFn() -> Result<T, nsm_chain::Error>) {
    for _ in 0..100 {
        match call().await {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable),
        }
    }
    panic!("never");
}

fn others() -> Vec<Rule> {
    let of = |i: u32| {
        let (a, b) = (i / 250, i % 250);
        let v4 = rule(1000 + i, &format!("10.{a}.{b}.1/32"), 100, 4);
        let v6 = rule(1000 + i, &format!("2001:db8:{a}::{b}/128"), 100, 4);
        [v4, v6]
    };
    (0..3000).flat_map(of).collect()
}

fn three() -> Draft {
    connection("c").policies([
        policy().from("10.200.0.1"),
        policy().from("10.200.0.2").via("172.16.1.1"),
        policy().from("2001:db8::1").via("fe80::1"),
    ])
}
