//! A caller may go away at any await: what has begun runs to its end, and the next call finds what
//! it needs.

use crate::{GRACE, cases, pass};
use nsm_chain::test_util::poll_n_then_drop;
use nsm_netlink::OpKind;
use policyroute_suite::{Draft, Machine, Pod, Process, close, connection, policy, request};

cases![
    a_request_that_nobody_waits_for_is_made_whole_by_the_next,
    a_request_that_nobody_waits_for_is_made_whole_by_the_next_below_begin,
    a_request_that_nobody_waits_for_is_taken_back_by_a_close,
    a_request_that_nobody_waits_for_is_taken_back_by_a_close_below_begin,
    a_change_that_nobody_waits_for_is_the_old_or_the_new_one,
    work_in_the_kernel_goes_on_when_its_caller_leaves,
    a_move_that_nobody_waits_for_leaves_nothing_behind,
    a_close_finds_what_a_request_that_is_still_at_work_will_have_claimed,
    a_close_that_nobody_waits_for_is_made_good_by_the_next,
    a_close_that_nobody_waits_for_is_made_good_by_the_next_below_begin,
    a_close_that_nobody_waits_for_lets_the_next_request_in,
];

async fn a_request_that_nobody_waits_for_is_made_whole_by_the_next<M: Machine>(pod: Pod<M>) {
    next_request_makes_whole(&pod, Process::start(&pod)).await;
}

async fn a_request_that_nobody_waits_for_is_made_whole_by_the_next_below_begin<M: Machine>(
    pod: Pod<M>,
) {
    next_request_makes_whole(&pod, Process::start(&pod).below_begin()).await;
}

async fn a_request_that_nobody_waits_for_is_taken_back_by_a_close<M: Machine>(pod: Pod<M>) {
    close_takes_back(&pod, Process::start(&pod)).await;
}

async fn a_request_that_nobody_waits_for_is_taken_back_by_a_close_below_begin<M: Machine>(
    pod: Pod<M>,
) {
    close_takes_back(&pod, Process::start(&pod).below_begin()).await;
}

async fn a_change_that_nobody_waits_for_is_the_old_or_the_new_one<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    for polls in 0.. {
        process.request(&one()).await.unwrap();
        let changed = connection("c").policy(policy().from("10.1.0.2").via("172.16.1.2"));

        let polled = poll_n_then_drop(process.call(request(&changed, &pod)), polls).await;
        pass(GRACE / 100).await;

        let [line] = <[_; 1]>::try_from(pod.ours()).unwrap();
        assert!(
            line.contains("from 10.1.0.1") || line.contains("from 10.1.0.2"),
            "{line}"
        );
        assert_eq!(pod.our_routes().len(), 1);
        if polled.output.is_some() {
            break;
        }
    }
}

async fn work_in_the_kernel_goes_on_when_its_caller_leaves<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let (at_work, go_on) = pod.stop_at(OpKind::AddRoute);
    let caller = tokio::spawn(process.call(request(&one(), &pod)));
    at_work.await.unwrap();

    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    go_on.send(()).unwrap();
    pass(GRACE / 100).await;

    assert_eq!(pod.ours(), ONE);
    process.close(&one()).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
}

async fn a_move_that_nobody_waits_for_leaves_nothing_behind<M: Machine>(pod: Pod<M>) {
    let other = Pod::<M>::boot();
    pod.add_link("nsm-0");
    other.add_link("nsm-0");
    let process = Process::start(&pod);
    for polls in 0.. {
        process.request(&one()).await.unwrap();

        let moves = process.call(request(&one(), &other));
        let polled = poll_n_then_drop(moves, polls).await;
        pass(GRACE / 100).await;

        let stands = pod.ours().len() + other.ours().len();
        assert_eq!((stands, process.namespaces_held()), (1, 1), "polls {polls}");
        process.close(&one()).await.unwrap();
        assert_eq!(process.namespaces_held(), 0);
        if polled.output.is_some() {
            break;
        }
    }
}

async fn a_close_finds_what_a_request_that_is_still_at_work_will_have_claimed<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let (at_work, go_on) = pod.stop_at(OpKind::AddRoute);
    let caller = tokio::spawn(process.call(request(&one(), &pod)));
    at_work.await.unwrap();
    caller.abort();

    let closing = tokio::spawn(process.call(close(&one(), &pod)));
    tokio::task::yield_now().await;
    go_on.send(()).unwrap();
    closing.await.unwrap().unwrap();

    pass(GRACE).await;
    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn a_close_that_nobody_waits_for_is_made_good_by_the_next<M: Machine>(pod: Pod<M>) {
    next_close_makes_good(&pod, Process::start(&pod)).await;
}

async fn a_close_that_nobody_waits_for_is_made_good_by_the_next_below_begin<M: Machine>(
    pod: Pod<M>,
) {
    next_close_makes_good(&pod, Process::start(&pod).below_begin()).await;
}

async fn a_close_that_nobody_waits_for_lets_the_next_request_in<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    for begin in [false, true] {
        let mut process = Process::start(&pod);
        if begin {
            process = process.below_begin();
        }
        for polls in 0.. {
            process.request(&one()).await.unwrap();
            let polled = poll_n_then_drop(process.call(close(&one(), &pod)), polls).await;

            process.call(request(&one(), &pod)).await.unwrap();
            assert_eq!(pod.ours().len(), 1);
            pass(2 * GRACE).await;
            assert_eq!(pod.ours().len(), 1, "polls {polls}, begin {begin}");
            if polled.output.is_some() {
                break;
            }
        }
        process.close(&one()).await.unwrap();
        assert_eq!(pod.ours(), [""; 0]);
    }
}

async fn next_request_makes_whole<M: Machine>(pod: &Pod<M>, process: Process<M>) {
    pod.add_link("nsm-0");
    for polls in 0.. {
        let polled = poll_n_then_drop(process.call(request(&one(), pod)), polls).await;

        process.call(request(&one(), pod)).await.unwrap();
        assert_eq!(pod.ours(), ONE);
        assert_eq!(pod.watch.writes().len(), 2, "polls {polls}");

        process.close(&one()).await.unwrap();
        assert_eq!(pod.ours(), [""; 0]);
        assert_eq!(process.namespaces_held(), 0);
        pod.watch.bursts();
        if polled.output.is_some() {
            break;
        }
    }
}

async fn close_takes_back<M: Machine>(pod: &Pod<M>, process: Process<M>) {
    pod.add_link("nsm-0");
    for polls in 0.. {
        let polled = poll_n_then_drop(process.call(request(&one(), pod)), polls).await;

        process.call(close(&one(), pod)).await.unwrap();

        // At the latest what a close of an unknown connection has named.
        pass(GRACE).await;
        assert_eq!(pod.ours(), [""; 0], "polls {polls}");
        assert_eq!(process.namespaces_held(), 0);
        if polled.output.is_some() {
            break;
        }
    }
}

async fn next_close_makes_good<M: Machine>(pod: &Pod<M>, process: Process<M>) {
    pod.add_link("nsm-0");
    for polls in 0.. {
        process.request(&one()).await.unwrap();
        let polled = poll_n_then_drop(process.call(close(&one(), pod)), polls).await;

        process.call(close(&one(), pod)).await.unwrap();

        pass(GRACE).await;
        assert_eq!(pod.ours(), [""; 0], "polls {polls}");
        assert_eq!(process.namespaces_held(), 0);
        if polled.output.is_some() {
            break;
        }
    }
}

const ONE: [&str; 1] = ["31745: from 10.1.0.1 -> 20000: default via 172.16.1.1 dev nsm-0"];

fn one() -> Draft {
    connection("c").policy(policy().from("10.1.0.1").via("172.16.1.1"))
}
