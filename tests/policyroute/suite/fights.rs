//! Somebody takes away again and again what stands: it is put back, but no faster than is good for
//! anybody.

use crate::{at_once, cases, live, within};
use nsm_netlink::{Errno, Kernel, Op, OpKind, Route, Rule};
use nsm_policyroute::Config;
use policyroute_suite::{Draft, Machine, Pod, Process, config, connection, policy, warnings};
use std::cell::Cell;
use std::time::Duration;
use tokio::time::Instant;

cases![
    a_policy_that_is_fought_is_put_back_after_growing_pauses,
    the_writer_is_named_by_the_protocol_number_of_what_it_puts_there,
    the_other_policies_are_repaired_at_once_meanwhile,
    all_policies_that_are_fought_at_once_are_told_of_once,
    when_it_is_over_the_policy_is_put_back_and_later_repaired_at_once_again,
    a_request_puts_back_what_is_fought,
    whoever_deletes_now_and_then_is_not_fought,
];

const SECOND: Duration = Duration::from_secs(1);

fn of(policies: u8) -> Draft {
    let policies = 1..=policies;
    connection("c").policies(policies.map(|i| policy().from(&format!("10.1.0.{i}"))))
}

async fn start<M: Machine>(pod: &Pod<M>, policies: u8) -> (Process<M>, Vec<Rule>) {
    pod.add_link("nsm-0");
    let watching = Config {
        watch: true,
        ..config()
    };
    let process = Process::start_with(pod, watching);
    process.request(&of(policies)).await.unwrap();
    pod.watch.bursts();
    let mut rules = pod.our_rules();
    rules.sort();
    (process, rules)
}

/// Deletes rules again and again, through one socket.
struct Fighter<K> {
    kernel: K,
    rules: Vec<Rule>,
    /// How often one of them stood.
    found: Cell<usize>,
}

impl<K: Kernel> Fighter<K> {
    fn new(kernel: K, rules: &[Rule]) -> Self {
        Self {
            kernel,
            rules: rules.to_vec(),
            found: Cell::new(0),
        }
    }

    async fn fight(&mut self, time: Duration) {
        let end = Instant::now() + time;
        let deletes: Vec<_> = self.rules.iter().cloned().map(Op::DelRule).collect();
        while Instant::now() < end {
            let done = self.kernel.execute(&deletes).unwrap();
            let gone = |it: &nsm_netlink::Refusal| it.errno == Errno::ENOENT;
            assert!(done.iter().flat_map(|it| it.as_ref().err()).all(gone));
            let found = done.iter().filter(|it| it.is_ok()).count();
            self.found.set(self.found.get() + found);
            live(Duration::from_millis(5)).await;
        }
    }
}

async fn a_policy_that_is_fought_is_put_back_after_growing_pauses<M: Machine>(pod: Pod<M>) {
    let (_process, rules) = start(&pod, 1).await;
    let mut fighter = Fighter::new(pod.kernel(), &rules);
    let port = fighter.kernel.port();

    fighter.fight(140 * SECOND).await;

    // 6 at once, then after 1, 3, 7, 15, 31, 63 and 123 s.
    let put_back = pod.watch.writes();
    assert!((12..=13).contains(&put_back.len()), "{}", put_back.len());
    assert!(put_back.iter().all(|it| it.op.kind() == OpKind::AddRule));
    assert_eq!(fighter.found.get(), put_back.len() + 1);
    let warnings = warnings();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    let words = ["from 10.1.0.1]", &format!("netlink port {port} ")];
    for words in words {
        assert!(warnings[0].contains(words), "no {words} in {warnings:?}");
    }
}

async fn the_writer_is_named_by_the_protocol_number_of_what_it_puts_there<M: Machine>(pod: Pod<M>) {
    let (_process, _) = start(&pod, 1).await;
    let theirs: Route = pod.foreign_default(20000, "nsm-0", "172.16.7.1");

    let end = Instant::now() + 5 * SECOND;
    while Instant::now() < end {
        if let Some(ours) = pod.our_routes().first() {
            pod.delete_route(ours);
            pod.add_route(&theirs);
        }
        live(Duration::from_millis(5)).await;
        if pod.snapshot().routes.contains(&theirs) {
            pod.delete_route(&theirs);
        }
    }

    let fought: Vec<_> = warnings()
        .into_iter()
        .filter(|it| it.contains("again and again"))
        .collect();
    assert_eq!(fought.len(), 1, "{fought:#?}");
    assert!(
        fought[0].contains(&format!("protocol number {},", theirs.protocol)),
        "{fought:?}"
    );
}

async fn the_other_policies_are_repaired_at_once_meanwhile<M: Machine>(pod: Pod<M>) {
    let (_process, rules) = start(&pod, 9).await;
    let (fought, others) = rules.split_at(1);
    let mut fighter = Fighter::new(pod.kernel(), fought);
    for other in others {
        fighter.fight(SECOND).await;
        assert!(!pod.our_rules().contains(&fought[0]));

        pod.delete_rule(other);

        at_once("it is back", || pod.our_rules().contains(other)).await;
    }
    let fought =
        |it: &nsm_netlink::fake::Write| matches!(&it.op, Op::AddRule(r) if fought.contains(r));
    let writes = pod.watch.writes();
    let of_fought = writes.iter().filter(|it| fought(it)).count();
    assert!((8..=9).contains(&of_fought), "{of_fought}");
    assert_eq!(writes.len() - of_fought, 8);
    assert_eq!(warnings().len(), 1);
}

async fn all_policies_that_are_fought_at_once_are_told_of_once<M: Machine>(pod: Pod<M>) {
    let (_process, rules) = start(&pod, 9).await;
    let mut fighter = Fighter::new(pod.kernel(), &rules);

    fighter.fight(10 * SECOND).await;

    let warnings = warnings();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("and 8 more"), "{warnings:?}");
    let put_back = pod.watch.writes().len();
    assert!((9 * 9..=9 * 10).contains(&put_back), "{put_back}");
}

async fn when_it_is_over_the_policy_is_put_back_and_later_repaired_at_once_again<M: Machine>(
    pod: Pod<M>,
) {
    let (_process, rules) = start(&pod, 1).await;
    Fighter::new(pod.kernel(), &rules).fight(5 * SECOND).await;
    assert_eq!(pod.our_rules(), []);

    within(4 * SECOND, "it is back", || pod.our_rules() == rules).await;
    live(70 * SECOND).await;

    for _ in 0..5 {
        pod.delete_rule(&rules[0]);
        at_once("it is back at once", || pod.our_rules() == rules).await;
    }
    assert_eq!(warnings().len(), 1);
}

async fn a_request_puts_back_what_is_fought<M: Machine>(pod: Pod<M>) {
    let (process, rules) = start(&pod, 1).await;
    Fighter::new(pod.kernel(), &rules).fight(5 * SECOND).await;
    assert_eq!(pod.our_rules(), []);

    process.request(&of(1)).await.unwrap();

    assert_eq!(pod.our_rules(), rules);
}

async fn whoever_deletes_now_and_then_is_not_fought<M: Machine>(pod: Pod<M>) {
    let (_process, rules) = start(&pod, 1).await;
    for _ in 0..40 {
        pod.delete_rule(&rules[0]);
        at_once("it is back", || pod.our_rules() == rules).await;
        live(Duration::from_millis(2500)).await;
    }
    assert_eq!(warnings(), [""; 0]);
}
