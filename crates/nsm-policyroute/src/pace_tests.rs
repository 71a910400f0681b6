use super::*;
use nsm_netlink::Family;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn policy(proto: u8) -> Selector {
    Selector {
        proto: Some(proto),
        ..Selector::any(Family::V4)
    }
}

fn somebody() -> Writer {
    Writer {
        port: 4711,
        protocol: None,
    }
}

fn touch(pace: &mut Pace, proto: u8, now: Instant) {
    let selectors = vec![policy(proto)];
    let by = somebody();
    pace.hear(Verdict::Touched { selectors, by }, now);
}

/// A policy is touched, and repaired as soon as it may be. Tells when, and who is warned of.
fn round(pace: &mut Pace, proto: u8, now: Instant) -> (Instant, Option<Fought>) {
    touch(pace, proto, now);
    let at = pace.next().unwrap();
    pace.begin(at);
    assert!(!pace.paused(at).contains(&policy(proto)));
    let look = Look {
        repaired: [policy(proto)].into(),
        ..Look::default()
    };
    (at, pace.done(&look, at))
}

#[test]
fn nothing_is_due_until_something_of_concern_is_heard() {
    let (mut pace, now) = (Pace::default(), Instant::now());
    pace.hear(Verdict::Foreign, now);
    assert_eq!(pace.next(), None);

    pace.hear(Verdict::Look, now);
    assert_eq!(pace.next(), Some(now + GATHER));
}

#[test]
fn what_comes_together_is_looked_at_once_and_not_later_for_it() {
    let (mut pace, now) = (Pace::default(), Instant::now());
    for ms in 0..4 {
        pace.hear(Verdict::Look, now + ms * MS);
    }
    assert_eq!(pace.next(), Some(now + GATHER));

    pace.begin(now + GATHER);
    pace.done(&Look::default(), now + GATHER);
    assert_eq!(pace.next(), None);
}

#[test]
fn looks_come_in_a_burst_and_then_twice_a_second_and_the_burst_is_earned_back() {
    let (mut pace, start) = (Pace::default(), Instant::now());
    let mut now = start;
    let mut look = |now: &mut Instant| {
        pace.hear(Verdict::Look, *now);
        let waited = pace.next().unwrap() - *now;
        *now += waited;
        pace.begin(*now);
        pace.done(&Look::default(), *now);
        waited
    };

    for _ in 0..BURST {
        assert_eq!(look(&mut now), GATHER);
    }
    // What the burst itself took counts.
    let first = look(&mut now);
    assert_eq!(first, INTERVAL - (BURST - 1) * GATHER);
    for _ in 0..10 {
        assert_eq!(look(&mut now), INTERVAL);
    }
    now += BURST * INTERVAL;
    for _ in 0..BURST {
        assert_eq!(look(&mut now), GATHER);
    }
}

#[test]
fn a_policy_that_is_touched_again_and_again_waits_longer_each_time_and_a_minute_at_most() {
    let (mut pace, mut now) = (Pace::default(), Instant::now());
    let mut waited = Vec::new();
    let mut warned = Vec::new();
    for _ in 0..16 {
        let (at, fought) = round(&mut pace, 6, now);
        waited.push((at - now).as_secs());
        warned.extend(fought);
        now = at;
    }

    assert_eq!(
        waited,
        [0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    );
    let fought = Fought {
        selector: policy(6),
        others: 0,
        by: somebody(),
    };
    assert_eq!(warned, [fought]);
}

#[test]
fn other_policies_do_not_wait_for_one_that_is_fought_and_leave_it_alone() {
    let (mut pace, mut now) = (Pace::default(), Instant::now());
    for _ in 0..FIGHT {
        now = round(&mut pace, 6, now).0;
    }
    touch(&mut pace, 6, now);
    assert_eq!(pace.next(), Some(now + FIRST_PAUSE));

    touch(&mut pace, 17, now);

    let at = now + GATHER;
    assert_eq!(pace.next(), Some(at));
    assert_eq!(pace.paused(at), [policy(6)].into());
    pace.begin(at);
    let look = Look {
        repaired: [policy(17)].into(),
        withheld: [policy(6)].into(),
        failed: false,
    };
    assert_eq!(pace.done(&look, at), None);
    assert_eq!(pace.next(), Some(now + FIRST_PAUSE), "it still waits");
}

/// An interface that flaps needs repairs, too.
#[test]
fn what_nobody_has_touched_is_repaired_without_pauses() {
    let (mut pace, mut now) = (Pace::default(), Instant::now());
    for _ in 0..2 * BURST {
        pace.hear(Verdict::Look, now);
        now = pace.next().unwrap();
        pace.begin(now);
        let look = Look {
            repaired: [policy(6)].into(),
            ..Look::default()
        };
        assert_eq!(pace.done(&look, now), None);
        assert_eq!(pace.paused(now), [].into());
    }
}

/// What somebody puts beside ours is looked at and let be.
#[test]
fn whoever_touches_without_harm_is_not_fought() {
    let (mut pace, mut now) = (Pace::default(), Instant::now());
    for _ in 0..2 * BURST {
        touch(&mut pace, 6, now);
        now = pace.next().unwrap();
        pace.begin(now);
        assert_eq!(pace.done(&Look::default(), now), None);
        assert_eq!(pace.paused(now), [].into());
    }
}

#[test]
fn repairs_that_are_far_apart_are_no_fight() {
    let (mut pace, mut now) = (Pace::default(), Instant::now());
    for _ in 0..20 {
        let (at, fought) = round(&mut pace, 6, now);
        assert_eq!((at - now, fought), (GATHER, None));
        now += WINDOW / (FIGHT as u32 - 1);
    }
}

#[test]
fn a_fight_is_over_a_minute_after_the_last_pause_and_then_begins_anew() {
    for (quiet, waits) in [(QUIET - SECOND, true), (QUIET, false)] {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..=FIGHT {
            now = round(&mut pace, 6, now).0;
        }
        now += 2 * FIRST_PAUSE + quiet;
        let (at, _) = round(&mut pace, 6, now);
        assert_eq!(at - now, GATHER);

        let (next, _) = round(&mut pace, 6, at);
        assert_eq!(next - at > SECOND, waits, "{quiet:?}");
    }
}

#[test]
fn what_is_known_of_a_writer_stays_known() {
    let (mut pace, mut now) = (Pace::default(), Instant::now());
    let mut warned = None;
    for port in 1..=FIGHT as u32 {
        for protocol in [Some(4), None] {
            let selectors = vec![policy(6)];
            let by = Writer { port, protocol };
            pace.hear(Verdict::Touched { selectors, by }, now);
        }
        now = pace.next().unwrap();
        let look = Look {
            repaired: [policy(6), policy(17)].into(),
            ..Look::default()
        };
        warned = warned.or(pace.done(&look, now));
    }

    let by = Writer {
        port: FIGHT as u32,
        protocol: Some(4),
    };
    assert_eq!(warned.map(|it| it.by), Some(by));
    let told = "protocol number 4, netlink port 6 (mostly the process id)";
    assert_eq!(by.to_string(), told);
}

#[test]
fn what_fails_is_tried_again_after_growing_pauses_until_it_goes_well() {
    let (mut pace, mut now) = (Pace::default(), Instant::now());
    pace.hear(Verdict::Look, now);
    let mut waited = Vec::new();
    for round in 0..12 {
        if round % 2 == 0 {
            pace.failed(now);
        } else {
            let look = Look {
                failed: true,
                ..Look::default()
            };
            pace.done(&look, now);
        }
        let next = pace.next().unwrap();
        waited.push((next - now).as_millis());
        now = next;
        pace.begin(now);
    }
    assert_eq!(
        waited,
        [
            100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000
        ]
    );

    pace.done(&Look::default(), now);
    assert_eq!(pace.next(), None);
    pace.failed(now);
    assert_eq!(pace.next(), Some(now + FIRST_RETRY));
}

#[test]
fn a_fight_whose_pause_is_over_does_not_hurry_what_fails() {
    let (mut pace, mut now) = (Pace::default(), Instant::now());
    for _ in 0..FIGHT {
        now = round(&mut pace, 6, now).0;
    }
    touch(&mut pace, 6, now);
    now = pace.next().unwrap();
    for pause in [1, 2, 4, 8] {
        pace.begin(now);
        pace.failed(now);
        assert_eq!(pace.next(), Some(now + pause * FIRST_RETRY));
        now += pause * FIRST_RETRY;
    }
}

#[test]
fn what_is_heard_of_a_namespace_that_could_not_be_looked_at_does_not_hurry_it() {
    let (mut pace, mut now) = (Pace::default(), Instant::now());
    for pause in [1, 2, 4, 8] {
        pace.failed(now);
        pace.hear(Verdict::Look, now);
        touch(&mut pace, 6, now);
        assert_eq!(pace.next(), Some(now + pause * FIRST_RETRY));
        now += pause * FIRST_RETRY;
        pace.begin(now);
    }
    pace.failed(now);

    // A request has looked meanwhile.
    pace.done(&Look::default(), now);
    assert_eq!(pace.next(), None);
    pace.hear(Verdict::Look, now);
    assert_eq!(pace.next(), Some(now + GATHER));
}

#[test]
fn other_policies_do_not_wait_for_one_that_cannot_be_repaired() {
    let (mut pace, mut now) = (Pace::default(), Instant::now());
    for _ in 0..8 {
        let look = Look {
            failed: true,
            ..Look::default()
        };
        pace.done(&look, now);
        touch(&mut pace, 6, now);
        assert_eq!(pace.next(), Some(now + GATHER));
        now += GATHER;
        pace.begin(now);
    }
}
