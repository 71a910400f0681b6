//! Two elements with marks of their own in one namespace.

use crate::{GRACE, cases, pass};
use nsm_netlink::Owner;
use nsm_policyroute::Config;
use policyroute_suite::{Draft, Machine, OWNER, Pod, Process, config, connection, policy};

cases![
    two_owners_of_the_same_policies_leave_each_other_alone,
    two_owners_that_share_the_range_of_tables_pick_tables_of_their_own,
    left_overs_of_one_owner_are_nothing_to_the_other,
];

async fn two_owners_of_the_same_policies_leave_each_other_alone<M: Machine>(pod: Pod<M>) {
    side_by_side(&pod, other_owner("25000-29999")).await;
}

async fn two_owners_that_share_the_range_of_tables_pick_tables_of_their_own<M: Machine>(
    pod: Pod<M>,
) {
    side_by_side(&pod, other_owner("20000-24999")).await;
}

async fn left_overs_of_one_owner_are_nothing_to_the_other<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let theirs = other_owner("25000-29999");
    let left = asked().by("nsm-1");
    Process::start_with(&pod, Config::new(theirs))
        .request(&left)
        .await
        .unwrap();
    pod.delete_link("nsm-1");
    let before = pod.of(theirs);

    let ours = Process::start(&pod);
    ours.request(&asked()).await.unwrap();
    ours.close(&asked()).await.unwrap();
    ours.close(&left).await.unwrap();
    pass(2 * GRACE).await;

    assert_eq!(pod.of(theirs), before);
    assert_eq!(ours.namespaces_held(), 0);
}

async fn side_by_side<M: Machine>(pod: &Pod<M>, theirs: Owner) {
    pod.add_link("nsm-0");
    let [mut a, mut b] =
        [config(), Config::new(theirs)].map(|config| Process::start_with(pod, config));

    for _ in 0..2 {
        a.request(&asked()).await.unwrap();
        b.request(&asked()).await.unwrap();
        let before = pod.snapshot();
        a.request(&asked()).await.unwrap();
        b.request(&asked()).await.unwrap();
        assert_eq!(pod.snapshot(), before);
        assert_eq!((pod.ours().len(), pod.of(theirs).len()), (2, 2));
        [a, b] = [config(), Config::new(theirs)].map(|config| Process::start_with(pod, config));
    }
    let before = pod.of(theirs);
    a.request(&asked()).await.unwrap();
    b.request(&asked()).await.unwrap();
    a.close(&asked()).await.unwrap();
    assert_eq!(pod.of(OWNER), [""; 0]);
    assert_eq!(pod.of(theirs), before);
    b.close(&asked()).await.unwrap();
    assert_eq!(pod.of(theirs), [""; 0]);
}

fn other_owner(tables: &str) -> Owner {
    Owner {
        protocol: 79.try_into().unwrap(),
        tables: tables.parse().unwrap(),
    }
}

fn asked() -> Draft {
    connection("c").policies([
        policy().from("10.1.0.1").via("172.16.1.1"),
        policy().from("2001:db8::1").via("fe80::1"),
    ])
}
