//! IPv6 routes of one prefix that different writers make are legs of one route, and a dump shows
//! all legs under the mark of the first.

use crate::cases;
use nsm_netlink::{OpKind, Route};
use policyroute_suite::{Draft, Machine, Pod, Process, close, connection, policy, request};

cases![
    a_leg_of_others_beside_ours_is_tried_once_and_stays,
    a_leg_of_ours_behind_one_of_others_is_found_again,
    a_leg_of_ours_behind_one_of_others_is_changed_and_closed,
    a_close_takes_our_leg_and_no_other,
    several_legs_of_others_stay_through_everything,
    an_on_link_route_of_ours_goes_alone,
];

async fn a_leg_of_others_beside_ours_is_tried_once_and_stays<M: Machine>(pod: Pod<M>) {
    let process = ours_with_theirs_behind(&pod).await;
    pod.asked.take();

    process.call(request(&by("fe80::1"), &pod)).await.unwrap();
    assert_eq!(hops(&pod), ["fe80::1", "fe80::9"]);
    assert!(pod.asked.take().of(OpKind::DelRoute) <= 1);

    process.call(request(&by("fe80::1"), &pod)).await.unwrap();
    assert_eq!(hops(&pod), ["fe80::1", "fe80::9"]);
    assert_eq!(pod.asked.take().writes(), 0);
}

async fn a_leg_of_ours_behind_one_of_others_is_found_again<M: Machine>(pod: Pod<M>) {
    let process = theirs_with_ours_behind(&pod).await;
    pod.asked.take();

    process.call(request(&by("fe80::1"), &pod)).await.unwrap();
    Process::start(&pod)
        .call(request(&by("fe80::1"), &pod))
        .await
        .unwrap();

    assert_eq!(pod.asked.take().of(OpKind::AddRoute), 0);
    assert_eq!(hops(&pod), ["fe80::1", "fe80::9"]);
}

async fn a_leg_of_ours_behind_one_of_others_is_changed_and_closed<M: Machine>(pod: Pod<M>) {
    let mut process = theirs_with_ours_behind(&pod).await;

    process.call(request(&by("fe80::2"), &pod)).await.unwrap();
    assert_eq!(hops(&pod), ["fe80::2", "fe80::9"]);

    process = Process::start(&pod);
    process.call(request(&by("fe80::2"), &pod)).await.unwrap();
    process.call(close(&by("fe80::2"), &pod)).await.unwrap();
    assert_eq!(hops(&pod), ["fe80::9"]);
    assert_eq!(pod.our_rules(), []);
}

async fn a_close_takes_our_leg_and_no_other<M: Machine>(pod: Pod<M>) {
    let process = ours_with_theirs_behind(&pod).await;

    process.call(close(&by("fe80::1"), &pod)).await.unwrap();

    assert_eq!(hops(&pod), ["fe80::9"]);
    assert_eq!(pod.our_rules(), []);
}

async fn several_legs_of_others_stay_through_everything<M: Machine>(pod: Pod<M>) {
    let mut process = theirs_with_ours_behind(&pod).await;
    pod.append_route(&pod.foreign_default(20000, "eth0", "fe80::8"));

    for via in ["fe80::1", "fe80::2", "fe80::2"] {
        process.call(request(&by(via), &pod)).await.unwrap();
        assert_eq!(hops(&pod), [via, "fe80::8", "fe80::9"]);
        process = Process::start(&pod);
    }
    process.call(request(&by("fe80::2"), &pod)).await.unwrap();
    process.call(close(&by("fe80::2"), &pod)).await.unwrap();
    assert_eq!(hops(&pod), ["fe80::8", "fe80::9"]);
}

/// A delete without a next hop takes the first route of its prefix by its interface.
async fn an_on_link_route_of_ours_goes_alone<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    for change in [by("fe80::1"), connection("c")] {
        let process = Process::start(&pod);
        process.request(&by("::")).await.unwrap();
        let theirs = pod.foreign_default(20000, "nsm-0", "fe80::9");
        pod.append_route(&theirs);

        process.call(request(&change, &pod)).await.unwrap();

        assert!(hops(&pod).contains(&"fe80::9".to_owned()));
        assert!(routes(&pod).all(|route| route.hop.is_some_and(|hop| hop.via.is_some())));
        process.call(close(&change, &pod)).await.unwrap();
        assert_eq!(hops(&pod), ["fe80::9"]);
        pod.delete_route(&theirs);
    }
}

fn by(via: &str) -> Draft {
    connection("c").policy(policy().from("2001:db8::1").via(via))
}

fn theirs<M: Machine>(pod: &Pod<M>) -> Route {
    pod.foreign_default(20000, "eth0", "fe80::9")
}

async fn ours_with_theirs_behind<M: Machine>(pod: &Pod<M>) -> Process<M> {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    let process = Process::start(pod);
    process.request(&by("fe80::1")).await.unwrap();
    pod.append_route(&theirs(pod));
    process
}

async fn theirs_with_ours_behind<M: Machine>(pod: &Pod<M>) -> Process<M> {
    let process = ours_with_theirs_behind(pod).await;
    pod.remake_link("nsm-0");
    process.call(request(&by("fe80::1"), pod)).await.unwrap();
    let marks: Vec<u8> = routes(pod).map(|route| route.protocol).collect();
    assert_eq!(marks, [4, 4], "a dump shows the mark of the first leg");
    process
}

fn routes<M: Machine>(pod: &Pod<M>) -> impl Iterator<Item = Route> {
    pod.snapshot()
        .routes
        .into_iter()
        .filter(|route| route.table == 20000)
}

/// The next hops of the table, whoever's they are.
fn hops<M: Machine>(pod: &Pod<M>) -> Vec<String> {
    let vias = routes(pod).filter_map(|route| route.hop?.via);
    let mut vias: Vec<String> = vias.map(|via| via.to_string()).collect();
    vias.sort();
    vias
}
