use super::*;
use nsm_api::connection::Mechanism;
use nsm_api::connectioncontext::{ConnectionContext, EthernetContext};
use nsm_api::mechanism::INTERFACE_NAME;
use nsm_netlink::NetnsId;

fn mark() -> Mark {
    Mark::new(78.try_into().unwrap(), NetnsId { dev: 4, ino: 7 }, "nsc-0")
}

fn connection(change: impl FnOnce(&mut IpContext)) -> Connection {
    let mut connection = Connection {
        mechanism: Some(Mechanism::kernel().with_parameter(INTERFACE_NAME, "nsm-1")),
        payload: IP.to_owned(),
        ..Connection::default()
    };
    change(connection.ip_context_mut());
    connection
}

fn with_context(change: impl FnOnce(&mut ConnectionContext)) -> Connection {
    let mut connection = connection(|_| {});
    change(connection.context.get_or_insert_default());
    connection
}

fn parsed(connection: &Connection) -> Result<Wanted, Invalid> {
    Wanted::parse(connection, mark(), None)
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn the_client_has_the_source_and_the_endpoint_the_destination() {
    let wanted = parsed(&connection(|ip| {
        ip.src_ip_addrs = texts(&["172.16.1.2/32", "2001:db8::2"]);
        ip.dst_ip_addrs = texts(&["172.16.1.1/32"]);
    }))
    .unwrap();

    let addresses =
        |list: &[&str]| -> Vec<IpNet> { list.iter().map(|text| text.parse().unwrap()).collect() };
    assert_eq!(
        wanted.client.addresses,
        addresses(&["172.16.1.2/32", "2001:db8::2/128"])
    );
    assert_eq!(wanted.endpoint.addresses, addresses(&["172.16.1.1/32"]));
    assert_eq!(wanted.client.names, ["nsm-1"]);
    let routes: Vec<_> = wanted
        .endpoint
        .routes
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(routes, ["172.16.1.2/32", "2001:db8::2/128"]);
}

#[test]
fn a_name_that_was_proposed_to_the_endpoint_is_no_wish_of_it() {
    let connection = connection(|_| {});
    let own: Vec<_> = mark().names(Side::Endpoint).collect();
    for (answered, is_wish) in [(own[0].as_str(), false), ("nse-1", true)] {
        let wanted = Wanted::parse(&connection, mark(), Some(answered)).unwrap();

        assert_eq!(wanted.endpoint.asked, is_wish);
        assert_eq!(wanted.endpoint.name(), answered);
        assert!(wanted.endpoint.names.ends_with(&own));
    }
}

#[test]
fn a_connection_without_a_context_wants_a_pair_and_nothing_on_it() {
    let wanted = parsed(&Connection::default()).unwrap();

    assert_eq!(wanted.client.addresses, []);
    assert!(wanted.client.routes.is_empty() && wanted.client.opposite.is_empty());
    assert_eq!(wanted.mtu, None);
    assert_eq!(wanted.client.names.len(), 1, "a name of its own");
}

#[test]
fn the_other_end_is_a_neighbour_where_packets_are_carried() {
    let mut connection = connection(|ip| {
        ip.src_ip_addrs = texts(&["172.16.1.2/32"]);
        ip.dst_ip_addrs = texts(&["172.16.1.1/32"]);
        ip.ip_neighbors.push(IpNeighbor {
            ip: "172.16.1.9".to_owned(),
            hardware_address: "02:00:00:00:00:09".to_owned(),
        });
    });
    let other = Some([2, 0, 0, 0, 0, 1]);
    let wanted = parsed(&connection).unwrap();

    let expected = [
        (ip("172.16.1.1"), [2, 0, 0, 0, 0, 1]),
        (ip("172.16.1.9"), [2, 0, 0, 0, 0, 9]),
    ];
    assert_eq!(wanted.client.neighbours(other), expected.into());
    let expected = [(ip("172.16.1.2"), [2, 0, 0, 0, 0, 1])];
    assert_eq!(wanted.endpoint.neighbours(other), expected.into());

    connection.payload = "ETHERNET".to_owned();
    let wanted = parsed(&connection).unwrap();
    assert_eq!(wanted.endpoint.neighbours(other), BTreeMap::new());
}

#[test]
fn addresses_that_no_interface_can_have_are_named() {
    for wrong in [
        "",
        "x",
        "172.16.1.2/33",
        "0.0.0.0/0",
        "224.0.0.1/32",
        "127.0.0.1/8",
        "::1/128",
        "::/0",
        "ff02::1/128",
        "172.16.1.2 ",
        "::ffff:172.16.1.2/128",
        "172.16.1.2/0",
        "172.016.1.2/32",
    ] {
        let error = parsed(&connection(|ip| {
            ip.src_ip_addrs = texts(&["172.16.1.2/32", wrong]);
        }));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("src_ip_addrs 1 "), "{error}");
    }
}

#[test]
fn of_an_address_that_is_listed_twice_the_first_counts() {
    let wanted = parsed(&connection(|ip| {
        ip.src_ip_addrs = texts(&["172.16.1.2/24", "172.16.1.2/32", "172.16.1.2/24"]);
    }));

    let expected: IpNet = "172.16.1.2/24".parse().unwrap();
    assert_eq!(wanted.unwrap().client.addresses, [expected]);
}

#[test]
fn names_and_hardware_addresses_are_checked() {
    let named = |name: &str| Connection {
        mechanism: Some(Mechanism::kernel().with_parameter(INTERFACE_NAME, name)),
        ..Connection::default()
    };
    for wrong in ["../../x", "a b", "0123456789012345", "all"] {
        let error = parsed(&named(wrong)).unwrap_err().to_string();
        assert!(error.starts_with("client's interface name"), "{error}");
        let error = Wanted::parse(&named("nsm-1"), mark(), Some(wrong)).unwrap_err();
        assert!(error.to_string().starts_with("endpoint's"), "{error}");
    }
    for wrong in [
        "x",
        "02:00:00:00:00",
        "03:00:00:00:00:01",
        "02:00:00:00:00:+1",
        "00:00:00:00:00:00",
    ] {
        let error = parsed(&with_context(|context| {
            context.ethernet_context = Some(EthernetContext {
                dst_mac: wrong.to_owned(),
                ..EthernetContext::default()
            });
        }));
        assert!(
            error.unwrap_err().to_string().starts_with("dst_mac"),
            "{wrong}"
        );
    }
}

#[test]
fn a_hardware_address_that_is_given_is_taken() {
    let wanted = parsed(&with_context(|context| {
        context.ethernet_context = Some(EthernetContext {
            src_mac: "02-fe-aa-BB-00-01".to_owned(),
            ..EthernetContext::default()
        });
    }))
    .unwrap();

    assert_eq!(wanted.client.mac, Some([2, 0xfe, 0xaa, 0xbb, 0, 1]));
    assert_eq!(wanted.endpoint.mac, None);
}

#[test]
fn an_mtu_fits_the_interface_and_its_addresses() {
    let with_mtu = |mtu, addresses: &[&str]| {
        let mut connection = with_context(|context| context.mtu = mtu);
        connection.ip_context_mut().src_ip_addrs = texts(addresses);
        parsed(&connection)
    };
    assert_eq!(with_mtu(1400, &[]).unwrap().mtu, Some(1400));
    assert_eq!(with_mtu(1279, &["172.16.1.2/32"]).unwrap().mtu, Some(1279));
    for (mtu, address) in [
        (67, "172.16.1.2/32"),
        (65536, "172.16.1.2/32"),
        (1279, "2001:db8::2"),
    ] {
        assert_eq!(with_mtu(mtu, &[address]), Err(Invalid::Mtu(mtu)));
    }
}

#[test]
fn lists_are_bounded() {
    let many = vec!["172.16.1.2/32".to_owned(); 5000];

    let error = parsed(&connection(|ip| ip.dst_ip_addrs = many)).unwrap_err();

    assert!(error.is_too_much());
}
