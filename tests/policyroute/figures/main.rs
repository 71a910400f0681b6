//! How pods stand, followed from the pod to an exporter of metrics, on the fake and on the real
//! kernel.
//!
//! A program of its own: the element takes the meter provider that is the global one, so one case
//! at a time runs here.

#![allow(clippy::unwrap_used, reason = "a call that must go well")]

mod exporter;

use exporter::Exporter;
use kernel_suite::sandbox::{self, Missing};
use libtest_mimic::{Arguments, Trial};
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, OpKind};
use nsm_policyroute::Config;
use policyroute_suite::{
    Draft, Fake, Machine, Pod, Process, Real, config, connection, policy, request, rule, trial,
};
use std::process::ExitCode;
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(15 * 60);

fn main() -> Result<ExitCode, Missing> {
    let sandboxed = sandbox::enter_or_skip("figures on the real kernel")?;
    let mut trials = all::<Fake>();
    if sandboxed {
        trials.extend(all::<Real>());
    }
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

fn all<M: Machine>() -> Vec<Trial> {
    macro_rules! trials {
        ($($case:ident),* $(,)?) => { vec![$(trial::<M, _, _>(stringify!($case), $case::<M>)),*] };
    }
    trials![
        a_conflict_is_a_figure_until_it_is_over,
        left_overs_are_a_figure_until_they_are_gone,
        a_rule_of_others_is_a_figure_as_long_as_it_stands,
        figures_are_those_of_all_pods_together,
        work_is_counted_by_what_was_done_and_how_it_ended,
        what_is_put_back_without_a_request_is_counted_as_drift,
    ]
}

async fn a_conflict_is_a_figure_until_it_is_over<M: Machine>(pod: Pod<M>) {
    let exporter = Exporter::install();
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = Process::start(&pod);
    let [a, b] = [("a", "nsm-0"), ("b", "nsm-1")].map(|(id, link)| of(id, "10.1.0.1").by(link));

    process.request(&a).await.unwrap();
    assert_eq!(exporter.standing("conflicts"), 0);
    process.request(&b).await.unwrap();
    process.request(&a).await.unwrap();
    assert_eq!(exporter.standing("conflicts"), 1);
    assert_eq!(exporter.standing("wanted"), 1, "they share a rule");

    process.close(&b).await.unwrap();
    assert_eq!(exporter.standing("conflicts"), 0);
    process.close(&a).await.unwrap();
    exporter.nothing_stands();
}

async fn left_overs_are_a_figure_until_they_are_gone<M: Machine>(pod: Pod<M>) {
    let exporter = Exporter::install();
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let former = Process::start(&pod);
    for (id, from) in [("l1", "10.3.0.1"), ("l2", "10.3.0.2")] {
        former.request(&of(id, from).by("nsm-1")).await.unwrap();
    }
    pod.delete_link("nsm-1");

    // Another process, and figures that begin anew.
    let exporter_before = exporter;
    let exporter = Exporter::install();
    let process = Process::start(&pod);
    process.request(&of("c", "10.1.0.1")).await.unwrap();
    assert_eq!(exporter.standing("leftovers"), 2);
    assert_eq!(exporter_before.standing("leftovers"), 0);

    process.request(&of("l1", "10.3.0.1")).await.unwrap();
    assert_eq!(exporter.standing("leftovers"), 1, "it has come back");
    tokio::time::sleep(2 * GRACE).await;
    assert_eq!(exporter.standing("leftovers"), 0);
    assert_eq!(exporter.standing("wanted"), 2);
    for (id, from) in [("c", "10.1.0.1"), ("l1", "10.3.0.1")] {
        process.close(&of(id, from)).await.unwrap();
    }
    exporter.nothing_stands();
}

async fn a_rule_of_others_is_a_figure_as_long_as_it_stands<M: Machine>(pod: Pod<M>) {
    let exporter = Exporter::install();
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let asked = of("c", "10.1.0.1").policy(policy().from("10.1.0.2"));
    let shadows = rule(300, "10.1.0.0/24", 100, 4);
    let looks_alike = rule(32000, "10.1.0.1/32", 100, 4);
    let does_both = rule(31745, "10.1.0.2/32", 100, 4);

    for (other, shadowed, alike) in [(&shadows, 2, 0), (&looks_alike, 0, 1), (&does_both, 1, 1)] {
        pod.add_rule(other);
        process.request(&asked).await.unwrap();
        assert_eq!(exporter.standing("shadowed"), shadowed, "{other}");
        assert_eq!(exporter.standing("lookalikes"), alike, "{other}");
        pod.delete_rule(other);
        process.request(&asked).await.unwrap();
        assert_eq!(exporter.standing("shadowed"), 0, "{other}");
        assert_eq!(exporter.standing("lookalikes"), 0, "{other}");
        process.close(&asked).await.unwrap();
    }
    exporter.nothing_stands();
}

async fn figures_are_those_of_all_pods_together<M: Machine>(pod: Pod<M>) {
    let exporter = Exporter::install();
    let other = Pod::<M>::boot();
    let process = Process::start(&pod);
    for (i, pod) in [&pod, &other].into_iter().enumerate() {
        pod.add_link("nsm-0");
        pod.add_rule(&rule(32000, "10.1.0.1/32", 100, 4));
        let asked = of(&format!("c{i}"), "10.1.0.1");
        process.call(request(&asked, pod)).await.unwrap();
    }

    assert_eq!(exporter.standing("wanted"), 2);
    assert_eq!(exporter.standing("lookalikes"), 2);
    process.close(&of("c1", "10.1.0.1")).await.unwrap();
    assert_eq!(exporter.standing("wanted"), 1);
    assert_eq!(exporter.standing("lookalikes"), 1);
    process.close(&of("c0", "10.1.0.1")).await.unwrap();
    exporter.nothing_stands();
}

async fn work_is_counted_by_what_was_done_and_how_it_ended<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    Process::start(&pod)
        .request(&of("c", "10.1.0.1"))
        .await
        .unwrap();
    let exporter = Exporter::install();
    let process = Process::start(&pod);

    process.request(&of("c", "10.1.0.1")).await.unwrap();
    pod.delete_route(&pod.our_routes()[0]);
    process.request(&of("c", "10.1.0.1")).await.unwrap();
    pod.faults
        .set(Fault::once(OpKind::AddRule, 1, Effect::Errno(Errno::EPERM)));
    process.request(&of("d", "10.1.0.2")).await.unwrap_err();
    process.close(&of("c", "10.1.0.1")).await.unwrap();

    for (figure, value) in [
        ("rules adopted", 1),
        ("rules removed", 1),
        ("routes added", 1),
        ("drift_repaired", 1),
        ("refusals EPERM", 1),
        ("reconciles ok", 3),
        ("reconciles permission denied", 1),
    ] {
        assert_eq!(exporter.figure(figure), value, "{figure}");
    }
    exporter.nothing_stands();
}

async fn what_is_put_back_without_a_request_is_counted_as_drift<M: Machine>(pod: Pod<M>) {
    let exporter = Exporter::install();
    pod.add_link("nsm-0");
    let watching = Config {
        watch: true,
        ..config()
    };
    let process = Process::start_with(&pod, watching);
    process.request(&of("c", "10.1.0.1")).await.unwrap();
    assert_eq!(exporter.figure("drift_repaired"), 0);

    pod.delete_rule(&pod.our_rules()[0]);
    pod.delete_route(&pod.our_routes()[0]);
    while pod.our_rules().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    process.close(&of("c", "10.1.0.1")).await.unwrap();

    assert_eq!(exporter.figure("drift_repaired"), 2);
    assert_eq!(exporter.figure("reconciles ok"), 3);
    exporter.nothing_stands();
}

fn of(id: &str, from: &str) -> Draft {
    connection(id).policy(policy().from(from))
}
