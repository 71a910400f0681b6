use super::*;
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::INTERFACE_NAME;
use nsm_netlink::NetnsId;
use std::slice::from_ref;

/// The number of the endpoint's namespace in the client's, and the other way round.
const NUMBER: i32 = 5;
const BACK: i32 = 9;

fn ours() -> Ours {
    Ours::new(78.try_into().unwrap(), "6.1")
}

fn mark(id: &str) -> Mark {
    Mark::new(78.try_into().unwrap(), NetnsId { dev: 4, ino: 7 }, id)
}

fn wanted(endpoint_name: Option<&str>) -> Wanted {
    let connection = Connection {
        mechanism: Some(Mechanism::kernel().with_parameter(INTERFACE_NAME, "nsm-1")),
        ..Connection::default()
    };
    Wanted::parse(&connection, mark("nsc-0"), endpoint_name).unwrap()
}

/// A pair that is right: the client's end has index 3, the endpoint's 8.
fn pair(wanted: &Wanted) -> (Interface, Interface) {
    let end = |index, end: &End, leads_to, netns| Interface {
        index,
        name: end.name().to_owned(),
        up: true,
        kind: Some("veth".to_owned()),
        alias: Some(wanted.mark.as_str().to_owned()),
        mac: Some(end.hardware_address(&wanted.mark)),
        mtu: 1500,
        group: 0,
        peer: Some(Peer {
            index: leads_to,
            netns: Some(netns),
        }),
    };
    (
        end(3, &wanted.client, 8, NUMBER),
        end(8, &wanted.endpoint, 3, BACK),
    )
}

fn stranger(index: u32, name: &str) -> Interface {
    Interface {
        index,
        name: name.to_owned(),
        up: true,
        kind: Some("veth".to_owned()),
        alias: None,
        mac: Some([2, 9, 9, 9, 9, 9]),
        mtu: 1500,
        group: 0,
        peer: None,
    }
}

fn decide(wanted: &Wanted, client: &[Interface], endpoint: &[Interface]) -> Result<Step, Refused> {
    let number = Some(NUMBER).filter(|_| !client.is_empty());
    let seen = Seen {
        client,
        endpoint,
        number,
    };
    next(wanted, ours(), &seen)
}

fn makes(wanted: &Wanted, endpoint: &str) -> Result<Step, Refused> {
    Ok(Step::Make {
        client: wanted.client.name().to_owned(),
        endpoint: endpoint.to_owned(),
    })
}

fn makes_by_default(wanted: &Wanted) -> Result<Step, Refused> {
    makes(wanted, wanted.endpoint.name())
}

#[test]
fn where_nothing_is_a_pair_is_made_with_the_names_that_are_asked_for() {
    let want = wanted(Some("client-1"));

    assert_eq!(decide(&want, &[], &[]), makes(&want, "client-1"));
}

#[test]
fn an_end_that_nobody_named_has_a_name_of_the_connection() {
    let want = wanted(None);
    let name = mark("nsc-0").names(Side::Endpoint).next().unwrap();

    assert_eq!(decide(&want, &[], &[]), makes(&want, &name));
}

#[test]
fn a_pair_that_is_right_stands() {
    let want = wanted(None);
    let (here, there) = pair(&want);

    let step = decide(&want, from_ref(&here), from_ref(&there));

    let (client, endpoint) = (Box::new(here.clone()), Box::new(there));
    assert_eq!(step, Ok(Step::Stands { client, endpoint }));
    assert!(change(&here, &want, ours()).is_empty());
}

#[test]
fn an_end_of_the_endpoints_that_nobody_names_keeps_the_name_that_it_has() {
    let want = wanted(None);
    let (here, mut there) = pair(&want);
    there.name = "of-another-time".to_owned();

    let step = decide(&want, from_ref(&here), from_ref(&there));

    let (client, endpoint) = (Box::new(here), Box::new(there));
    assert_eq!(step, Ok(Step::Stands { client, endpoint }));
}

#[test]
fn a_clients_end_that_nobody_names_has_the_name_that_the_client_is_told() {
    let connection = Connection {
        mechanism: Some(Mechanism::kernel()),
        ..Connection::default()
    };
    let want = Wanted::parse(&connection, mark("nsc-0"), None).unwrap();
    let (mut here, there) = pair(&want);
    here.name = "of-another-time".to_owned();

    let step = decide(&want, &[here], &[there]);

    assert_eq!(step, Ok(Step::Remove(Side::Client, 3)));
}

#[test]
fn a_pair_of_a_process_that_was_killed_before_it_marked_it_is_taken_over_and_marked() {
    let want = wanted(None);
    let (mut here, mut there) = pair(&want);
    here.alias = None;
    there.alias = None;
    there.group = ours().unmarked();
    there.up = false;

    let step = decide(&want, from_ref(&here), from_ref(&there));

    assert!(matches!(step, Ok(Step::Stands { .. })));
    let mark = Some(want.mark.as_str());
    assert_eq!(change(&here, &want, ours()).alias, mark);
    let there = change(&there, &want, ours());
    assert_eq!((there.alias, there.state), (mark, Some(LinkState::Up)));
    assert_eq!(there.group, Some(0));
}

#[test]
fn a_pair_that_is_wrong_in_anything_goes_first() {
    let want = wanted(Some("client-1"));
    let (here, there) = pair(&want);
    let mut renamed = here.clone();
    renamed.name = "nsm-0".to_owned();
    let mut elsewhere = here.clone();
    elsewhere.peer = Some(Peer {
        index: 8,
        netns: Some(6),
    });
    let mut moved = there.clone();
    moved.peer = Some(Peer {
        index: 4,
        netns: Some(BACK),
    });
    let mut other_name = there.clone();
    other_name.name = "x".to_owned();

    for (client, endpoint) in [
        (renamed, there.clone()),
        (elsewhere, there.clone()),
        (here.clone(), moved),
        (here.clone(), other_name),
    ] {
        let step = decide(&want, &[client], &[endpoint]);
        assert_eq!(step, Ok(Step::Remove(Side::Client, 3)));
    }
    // Its other end is nowhere.
    assert_eq!(
        decide(&want, &[here], &[]),
        Ok(Step::Remove(Side::Client, 3))
    );
}

#[test]
fn a_hardware_address_that_is_asked_for_has_to_be_there() {
    let mut want = wanted(None);
    let (here, there) = pair(&want);
    want.client.mac = Some([2, 1, 1, 1, 1, 1]);

    let step = decide(&want, &[here], &[there]);

    assert_eq!(step, Ok(Step::Remove(Side::Client, 3)));
}

#[test]
fn a_half_in_the_endpoints_namespace_goes() {
    let want = wanted(None);
    let (_, there) = pair(&want);

    assert_eq!(
        decide(&want, &[], &[there]),
        Ok(Step::Remove(Side::Endpoint, 8))
    );
}

#[test]
fn a_second_pair_of_the_connection_goes() {
    let want = wanted(None);
    let (here, there) = pair(&want);
    let mut second = here.clone();
    second.index = 11;
    second.name = "nsm-9".to_owned();

    let step = decide(&want, &[second, here], &[there]);

    assert_eq!(step, Ok(Step::Remove(Side::Client, 11)));
}

#[test]
fn a_strangers_name_is_refused_at_either_end_before_anything_goes() {
    let want = wanted(Some("client-1"));
    let (mut here, there) = pair(&want);
    here.name = "nsm-0".to_owned();

    let step = decide(&want, &[here.clone(), stranger(4, "nsm-1")], &[there]);
    assert_eq!(
        step,
        Err(Refused::Foreign(Side::Client, "nsm-1".to_owned()))
    );

    let step = decide(&want, &[here], &[stranger(2, "client-1")]);
    assert_eq!(
        step,
        Err(Refused::Foreign(Side::Endpoint, "client-1".to_owned()))
    );
}

#[test]
fn a_strangers_interface_without_an_alias_is_no_unfinished_one() {
    let want = wanted(None);
    let mut bridge = stranger(4, "nsm-1");
    bridge.mac = Some(want.client.hardware_address(&want.mark));
    bridge.kind = Some("bridge".to_owned());

    let mut grouped = stranger(4, "nsm-1");
    grouped.group = 5;

    for stranger in [bridge, stranger(4, "nsm-1"), grouped] {
        let step = decide(&want, &[stranger], &[]);
        assert_eq!(
            step,
            Err(Refused::Foreign(Side::Client, "nsm-1".to_owned()))
        );
    }
}

#[test]
fn what_a_process_left_unmarked_that_was_killed_is_ours_whoever_comes_for_its_name() {
    let want = wanted(None);
    let mut left = stranger(4, "nsm-1");
    left.group = ours().unmarked();

    let step = decide(&want, from_ref(&left), &[]);
    assert_eq!(step, Ok(Step::Remove(Side::Client, 4)));

    // And the connection's own goes if it has another name by now.
    let (mut here, _) = pair(&want);
    here.alias = None;
    here.name = "nsm-9".to_owned();
    assert_eq!(decide(&want, from_ref(&here), &[]), makes_by_default(&want));
    here.group = ours().unmarked();
    assert_eq!(
        decide(&want, from_ref(&here), &[]),
        Ok(Step::Remove(Side::Client, 3))
    );
}

#[test]
fn another_connection_of_ours_gives_its_name_to_the_client_that_asks_for_it() {
    let want = wanted(None);
    let mut other = stranger(4, "nsm-1");
    other.alias = Some(mark("nsc-9").as_str().to_owned());

    assert_eq!(
        decide(&want, &[other], &[]),
        Ok(Step::Remove(Side::Client, 4))
    );
}

#[test]
fn an_endpoint_that_asks_for_one_name_for_all_has_others_for_the_rest() {
    let want = wanted(Some("client-1"));
    let mut other = stranger(4, "client-1");
    other.alias = Some(mark("nsc-9").as_str().to_owned());
    let own = mark("nsc-0").names(Side::Endpoint).next().unwrap();

    assert_eq!(decide(&want, &[], &[other.clone()]), makes(&want, &own));

    // And keeps it when the one that was asked for becomes free.
    let (here, mut there) = pair(&want);
    there.name = own;
    let step = decide(&want, &[here], &[there]);
    assert!(matches!(step, Ok(Step::Stands { .. })));
}

#[test]
fn a_second_forwarder_with_another_number_is_a_stranger() {
    let want = wanted(None);
    let other = Mark::new(77.try_into().unwrap(), NetnsId { dev: 4, ino: 7 }, "nsc-0");
    let mut interface = stranger(4, "nsm-1");
    interface.alias = Some(other.as_str().to_owned());

    let step = decide(&want, &[interface], &[]);

    assert_eq!(
        step,
        Err(Refused::Foreign(Side::Client, "nsm-1".to_owned()))
    );
}
