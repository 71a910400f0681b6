use super::*;
use crate::policy::Want;
use nsm_netlink::{Family, TableId};

const OURS: u8 = 78;
const PORT: u32 = 4711;

fn from(net: &str) -> Selector {
    Selector {
        from: Some(net.parse().unwrap()),
        ..Selector::any(Family::V4)
    }
}

/// One claim: from 10.1.0.1 by nsm-0, which has the index 5 and is up, in table 20000.
fn concern() -> Concern {
    let selector = from("10.1.0.1/32");
    let mut claims = Claims::default();
    let want = Want {
        selector: selector.clone(),
        routes: [(Family::V4.default_prefix(), None)].into(),
        index: 0,
    };
    claims.set("c".try_into().unwrap(), "nsm-0".to_owned(), vec![want]);
    claims.remember([(selector, TableId::new(20000).unwrap())].into());
    let owner = Owner {
        protocol: OURS.try_into().unwrap(),
        tables: "20000-24999".parse().unwrap(),
    };
    Concern::of(&claims, &[(5, true)].into(), owner, Band::DEFAULT)
}

fn judge(change: Change, subject: Subject) -> Verdict {
    told_by(PORT, change, subject)
}

fn told_by(port: u32, change: Change, subject: Subject) -> Verdict {
    let notification = Notification {
        port,
        change,
        subject,
    };
    concern().judge(&notification)
}

fn touched(protocol: Option<u8>) -> Verdict {
    let selectors = vec![from("10.1.0.1/32")];
    let by = Writer {
        port: PORT,
        protocol,
    };
    Verdict::Touched { selectors, by }
}

fn rule(priority: u32, from_net: &str, protocol: u8) -> Subject {
    Subject::Rule(Rule::lookup(priority, from(from_net), 20000, protocol))
}

fn route(table: u32, protocol: u8) -> Subject {
    let prefix = Family::V4.default_prefix();
    Subject::Route(Route::unicast(table, prefix, 5, None, protocol))
}

#[test]
fn a_rule_of_a_claimed_policy_is_of_concern_and_names_who_wrote_it() {
    let ours = || rule(31745, "10.1.0.1/32", OURS);
    assert_eq!(judge(Change::Removed, ours()), touched(None));
    assert_eq!(judge(Change::Added, ours()), touched(Some(OURS)));
    // A look-alike, wherever it stands.
    let alike = rule(32800, "10.1.0.1/32", 4);
    assert_eq!(judge(Change::Added, alike), touched(Some(4)));
}

#[test]
fn a_rule_of_others_is_of_concern_where_it_is_asked_before_ours() {
    for change in [Change::Added, Change::Removed] {
        assert_eq!(judge(change, rule(100, "10.1.0.0/16", 4)), Verdict::Look);
        for elsewhere in [
            rule(100, "10.2.0.0/16", 4),
            rule(32800, "10.1.0.0/16", 4),
            // Ours, of a policy that nobody claims: a left-over.
            rule(31000, "10.1.0.0/16", OURS),
        ] {
            assert_eq!(judge(change, elsewhere), Verdict::Foreign);
        }
    }
}

#[test]
fn whatever_comes_or_goes_in_the_table_of_a_policy_is_of_concern() {
    assert_eq!(judge(Change::Removed, route(20000, OURS)), touched(None));
    assert_eq!(judge(Change::Added, route(20000, 4)), touched(Some(4)));
    assert_eq!(judge(Change::Added, route(20000, 0)), touched(None));
    for table in [254, 20001] {
        let elsewhere = judge(Change::Removed, route(table, OURS));
        assert_eq!(elsewhere, Verdict::Foreign);
    }
}

#[test]
fn what_the_kernel_does_by_itself_is_nobodys_doing() {
    let went = told_by(0, Change::Removed, route(20000, OURS));
    assert_eq!(went, Verdict::Look);
}

#[test]
fn the_tables_of_the_two_families_have_nothing_to_do_with_each_other() {
    let prefix = Family::V6.default_prefix();
    let other = Route::unicast(20000, prefix, 5, None, OURS);
    let verdict = judge(Change::Removed, Subject::Route(other));
    assert_eq!(verdict, Verdict::Foreign);
}

#[test]
fn an_address_is_of_concern_where_its_interface_is() {
    for change in [Change::Added, Change::Removed] {
        assert_eq!(judge(change, Subject::Address(5)), Verdict::Look);
        assert_eq!(judge(change, Subject::Address(6)), Verdict::Foreign);
    }
}

#[test]
fn an_interface_is_of_concern_when_it_comes_goes_or_is_set_up_or_down() {
    let mut concern = concern();
    let mut judge = |index, name: &str, up, change| {
        let link = Link {
            index,
            name: name.to_owned(),
            up,
        };
        concern.judge(&Notification {
            port: 0,
            change,
            subject: Subject::Link(link),
        })
    };
    let (there, gone) = (Change::Added, Change::Removed);

    assert_eq!(
        judge(5, "nsm-0", true, there),
        Verdict::Foreign,
        "as it was"
    );
    assert_eq!(judge(5, "nsm-0", false, there), Verdict::Look);
    assert_eq!(judge(5, "nsm-0", false, there), Verdict::Foreign);
    assert_eq!(judge(5, "nsm-0", true, there), Verdict::Look);
    assert_eq!(judge(5, "nsm-0", true, gone), Verdict::Look);
    assert_eq!(judge(9, "nsm-0", false, there), Verdict::Look, "anew");
    assert_eq!(judge(9, "other", false, there), Verdict::Look, "renamed");
    assert_eq!(judge(9, "other", true, there), Verdict::Foreign);
    assert_eq!(judge(9, "nsm-0", true, there), Verdict::Look, "named so");
    assert_eq!(judge(7, "eth0", false, there), Verdict::Foreign);
    assert_eq!(judge(7, "eth0", false, gone), Verdict::Foreign);
}

#[test]
fn the_addresses_of_an_interface_that_came_anew_are_of_concern() {
    let mut concern = concern();
    let mut judge = |subject| {
        concern.judge(&Notification {
            port: 0,
            change: Change::Added,
            subject,
        })
    };
    assert_eq!(judge(Subject::Address(9)), Verdict::Foreign);
    let link = Link {
        index: 9,
        name: "nsm-0".to_owned(),
        up: false,
    };
    judge(Subject::Link(link));
    assert_eq!(judge(Subject::Address(9)), Verdict::Look);
}
