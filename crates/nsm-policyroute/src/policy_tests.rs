use super::*;
use nsm_api::connectioncontext::Route;

const LIMITS: Limits = Limits {
    policies: 1024,
    routes: 4096,
    strict: false,
};
const BOTH: [&str; 2] = ["172.16.1.4/24", "2001:db8::4/64"];

fn policy(from: &str, proto: &str, dst_port: &str, routes: &[(&str, &str)]) -> PolicyRoute {
    PolicyRoute {
        from: from.to_owned(),
        proto: proto.to_owned(),
        dst_port: dst_port.to_owned(),
        src_port: String::new(),
        routes: routes
            .iter()
            .map(|(prefix, next_hop)| Route {
                prefix: (*prefix).to_owned(),
                next_hop: (*next_hop).to_owned(),
            })
            .collect(),
    }
}

fn read(policies: &[PolicyRoute]) -> Result<Vec<Want>, PolicyError> {
    parse(policies, &BOTH.map(str::to_owned), &LIMITS)
}

fn report(error: &PolicyError) -> String {
    nsm_chain::ErrorChain(error).to_string()
}

fn refusal(policy: PolicyRoute) -> String {
    let good = self::policy("10.9.9.9", "", "", &[]);
    let error = read(&[good, policy]).unwrap_err();
    report(&error)
}

fn selectors(wants: &[Want]) -> Vec<String> {
    wants
        .iter()
        .map(|want| format!("{} {}", want.selector.family, want.selector))
        .collect()
}

fn routes(want: &Want) -> Vec<String> {
    want.routes
        .iter()
        .map(|(prefix, via)| via.map_or(prefix.to_string(), |via| format!("{prefix} via {via}")))
        .collect()
}

#[test]
fn a_policy_without_routes_takes_the_default_route_of_its_family_on_link() {
    let wants = read(&[
        policy("10.1.0.1", "", "", &[]),
        policy("2001:db8::1", "", "", &[]),
    ]);
    let wants = wants.unwrap();

    assert_eq!(
        selectors(&wants),
        ["IPv4 from 10.1.0.1", "IPv6 from 2001:db8::1"]
    );
    assert_eq!(routes(&wants[0]), ["0.0.0.0/0"]);
    assert_eq!(routes(&wants[1]), ["::/0"]);
}

#[test]
fn host_bits_are_masked_and_an_unspecified_next_hop_is_on_link() {
    let wants = read(&[
        policy("10.1.0.9/24", "", "", &[("10.5.0.9/16", "0.0.0.0")]),
        policy("2001:db8::9/120", "", "", &[("2004::5/120", "::")]),
    ])
    .unwrap();

    assert_eq!(
        selectors(&wants),
        ["IPv4 from 10.1.0.0/24", "IPv6 from 2001:db8::/120"]
    );
    assert_eq!(routes(&wants[0]), ["10.5.0.0/16"]);
    assert_eq!(routes(&wants[1]), ["2004::/120"]);
}

#[test]
fn all_spellings_of_a_policy_are_one_policy() {
    let wants = read(&[
        policy("2001:0DB8:0:0::00A1/128", "tcp", "6666-6666", &[]),
        policy("2001:db8::a1", "6", "6666", &[]),
        policy("2001:db8::a1", "06", "6666", &[]),
    ])
    .unwrap();

    assert_eq!(
        selectors(&wants),
        ["IPv6 from 2001:db8::a1 ipproto tcp dport 6666"]
    );
}

#[test]
fn policies_of_one_selector_are_one_with_the_union_of_their_routes() {
    let wants = read(&[
        policy("10.1.0.1", "", "", &[("10.5.0.0/16", "172.16.1.1")]),
        policy("10.1.0.2", "", "", &[]),
        policy(
            "10.1.0.1/32",
            "",
            "",
            &[("10.6.0.0/16", ""), ("10.5.0.0/16", "172.16.1.1")],
        ),
    ])
    .unwrap();

    assert_eq!(
        selectors(&wants),
        ["IPv4 from 10.1.0.1", "IPv4 from 10.1.0.2"]
    );
    assert_eq!(
        routes(&wants[0]),
        ["10.5.0.0/16 via 172.16.1.1", "10.6.0.0/16"]
    );
    assert_eq!((wants[0].index, wants[1].index), (0, 1));
}

#[test]
fn a_policy_without_from_takes_the_family_of_its_routes_else_of_each_source_address() {
    let wants = read(&[
        policy("", "17", "6666", &[("::/0", "fe80::1")]),
        policy("", "17", "6667", &[]),
    ])
    .unwrap();

    assert_eq!(
        selectors(&wants),
        [
            "IPv6 from all ipproto udp dport 6666",
            "IPv4 from all ipproto udp dport 6667",
            "IPv6 from all ipproto udp dport 6667",
        ]
    );
}

#[test]
fn from_of_length_0_is_no_from_but_tells_the_family() {
    let wants = read(&[policy("::/0", "17", "", &[])]).unwrap();

    assert_eq!(selectors(&wants), ["IPv6 from all ipproto udp"]);
}

#[test]
fn a_policy_without_any_selector_selects_the_connections_own_addresses() {
    let wants = read(&[policy("", "", "", &[])]).unwrap();
    assert_eq!(
        selectors(&wants),
        ["IPv4 from 172.16.1.4", "IPv6 from 2001:db8::4"]
    );

    let wants = read(&[policy("0.0.0.0/0", "", "", &[])]).unwrap();
    assert_eq!(selectors(&wants), ["IPv4 from 172.16.1.4"]);

    let error = parse(&[policy("", "", "", &[("10.0.0.0/8", "")])], &[], &LIMITS).unwrap_err();
    assert_eq!(error.reason, Reason::NoSource(Family::V4));
}

#[test]
fn a_policy_that_nothing_tells_the_family_of_is_refused() {
    let error = parse(
        &[policy("", "6", "", &[])],
        &["nonsense".to_owned()],
        &LIMITS,
    )
    .unwrap_err();

    assert_eq!((error.index, error.reason), (0, Reason::NoFamily));
}

#[test]
fn addresses_that_do_not_parse_are_refused_with_index_and_field() {
    for from in [
        "10.1.0",
        "10.1.0.1/33",
        "foo",
        " 10.1.0.1",
        "2001:db8::g",
        "10.1.0.1/",
    ] {
        let text = refusal(policy(from, "", "", &[]));
        assert!(text.starts_with("policy 1: from: "), "{text}");
        assert!(text.contains(from), "{text}");
    }
    assert!(refusal(policy("::ffff:10.1.0.1", "", "", &[])).starts_with("policy 1: from: "));
    assert!(refusal(policy("10.1.0.1", "", "", &[("x", "")])).contains("routes[0].prefix"));
    assert!(refusal(policy("10.1.0.1", "", "", &[("", "")])).contains("routes[0].prefix"));
    let route = [("10.0.0.0/8", ""), ("10.0.0.0/9", "10.0.0.0/8")];
    assert!(refusal(policy("10.1.0.1", "", "", &route)).contains("routes[1].nexthop"));
}

#[test]
fn protocols_outside_1_to_255_and_unknown_names_are_refused() {
    for proto in [
        "0",
        "256",
        "-1",
        "foo",
        " 6",
        "+6",
        "262",
        "99999999999",
        "hopopt",
    ] {
        let text = refusal(policy("10.1.0.1", proto, "", &[]));
        assert!(text.starts_with("policy 1: proto: "), "{text}");
    }
    for proto in ["1", "255", "udp", "SCTP", "icmpv6"] {
        assert!(
            read(&[policy("10.1.0.1", proto, "", &[])]).is_ok(),
            "{proto}"
        );
    }
}

#[test]
fn ports_that_the_kernel_would_refuse_are_refused() {
    let bad = [
        "0", "65535", "65536", "9-3", " 80", "1-2-3", "-", "80-", "-80", "+80", "0-80", "http",
    ];
    for port in bad {
        let text = refusal(policy("10.1.0.1", "6", port, &[]));
        assert!(text.starts_with("policy 1: dstport: "), "{text}");
        let mut source = policy("10.1.0.1", "6", "", &[]);
        source.src_port = port.to_owned();
        assert!(refusal(source).starts_with("policy 1: srcport: "));
    }
    for port in ["1", "65534", "1-65534", "6667-6670"] {
        assert!(
            read(&[policy("10.1.0.1", "6", port, &[])]).is_ok(),
            "{port}"
        );
    }
}

#[test]
fn families_that_do_not_fit_are_refused() {
    let text = refusal(policy(
        "10.1.0.1",
        "",
        "",
        &[("10.0.0.0/8", ""), ("::/0", "")],
    ));
    assert_eq!(
        text,
        "policy 1: routes[1].prefix: :: is IPv6, the policy is IPv4"
    );

    let text = refusal(policy("10.1.0.1", "", "", &[("10.0.0.0/8", "fe80::1")]));
    assert_eq!(
        text,
        "policy 1: routes[0].nexthop: fe80::1 is IPv6, the policy is IPv4"
    );

    let text = refusal(policy(
        "",
        "",
        "80",
        &[("10.0.0.0/8", ""), ("2001:db8::/32", "")],
    ));
    assert!(text.starts_with("policy 1: routes[1].prefix: "), "{text}");

    // An unspecified next hop of the other family is a mistake too, not an on-link route.
    assert!(refusal(policy("10.1.0.1", "", "", &[("10.0.0.0/8", "::")])).contains("nexthop"));
}

#[test]
fn one_prefix_with_two_next_hops_is_refused_within_a_policy_and_across() {
    let two = [("10.5.0.0/16", "172.16.1.1"), ("10.5.0.9/16", "172.16.1.2")];
    let text = refusal(policy("10.1.0.1", "", "", &two));
    assert_eq!(
        text,
        "policy 1: routes[1].nexthop: 10.5.0.0/16 has another next hop already (policy 1)"
    );

    let text = refusal(policy("10.9.9.9", "", "", &[("0.0.0.0/0", "172.16.1.2")]));
    assert!(text.contains("(policy 0)"), "{text}");
}

#[test]
fn digits_that_others_read_as_octal_are_refused_wherever_they_stand() {
    for from in [
        "010.1.0.1",
        "010.1.0.1/32",
        "10.1.0.01/32",
        "10.1.00.0/16",
        "10.1.0.1/032",
    ] {
        let text = refusal(policy(from, "", "", &[]));
        assert!(text.contains("from"), "{text}");
    }
    let text = refusal(policy("10.1.0.1", "", "", &[("10.05.0.0/16", "")]));
    assert!(text.contains("routes[0].prefix"), "{text}");
}

#[test]
fn the_address_of_nobody_is_no_prefix_and_says_what_was_meant() {
    for nobody in ["0.0.0.0", "0.0.0.0/32"] {
        let text = refusal(policy("10.1.0.1", "", "", &[(nobody, "")]));
        assert!(text.contains("routes[0].prefix"), "{text}");
        assert!(text.contains("0.0.0.0/0"), "{text}");
    }
    let text = refusal(policy("::", "", "", &[]));
    assert!(text.contains("from"), "{text}");
    assert!(text.contains("::/0"), "{text}");
}

#[test]
fn more_policies_or_routes_than_the_limit_are_refused() {
    let limits = Limits {
        policies: 2,
        routes: 3,
        strict: false,
    };
    let one = policy(
        "10.1.0.1",
        "",
        "",
        &[("10.5.0.0/16", ""), ("10.6.0.0/16", "")],
    );

    let error = parse(&vec![one.clone(); 3], &[], &limits).unwrap_err();
    assert_eq!(
        report(&error),
        "policy 2: policies: 3 are more than the limit of 2"
    );

    let error = parse(&vec![one; 2], &[], &limits).unwrap_err();
    assert_eq!(
        report(&error),
        "policy 1: routes: 4 are more than the limit of 3"
    );
}

#[test]
fn as_many_as_the_limit_are_read_and_no_more() {
    let limits = Limits {
        policies: 2,
        routes: 3,
        strict: false,
    };
    let sources = |list: &[&str]| list.iter().map(|it| it.to_string()).collect::<Vec<_>>();
    let all = policy("", "", "", &[]);

    // One rule for each source address, counted in each family for itself.
    let few = sources(&[
        "172.16.1.1/32",
        "172.16.1.2/32",
        "fd00::1/128",
        "fd00::2/128",
    ]);
    assert_eq!(
        parse(std::slice::from_ref(&all), &few, &limits)
            .unwrap()
            .len(),
        4
    );
    let many = sources(&[
        "172.16.1.1/32",
        "172.16.1.2/32",
        "172.16.1.3/32",
        "172.16.1.4/32",
    ]);
    let error = parse(&[all], &many, &limits).unwrap_err();
    assert_eq!(
        report(&error),
        "policy 0: from: 4 are more than the limit of 2"
    );

    // Each of them has all routes.
    let routes = [
        ("10.5.0.0/16", ""),
        ("10.6.0.0/16", ""),
        ("10.7.0.0/16", ""),
    ];
    let three = policy("10.1.0.1", "", "", &routes);
    assert_eq!(parse(&[three], &[], &limits).unwrap().len(), 1);
    let two = policy("", "", "", &routes[..2]);
    let error = parse(&[two], &few, &limits).unwrap_err();
    assert_eq!(
        report(&error),
        "policy 0: routes: 4 are more than the limit of 3"
    );
}

#[test]
fn strict_refuses_a_from_that_is_no_source_address() {
    let limits = Limits {
        strict: true,
        ..LIMITS
    };
    let sources = BOTH.map(str::to_owned);
    let inside = [
        policy("172.16.1.4", "", "", &[]),
        policy("2001:db8::/64", "", "", &[]),
    ];

    assert!(parse(&inside, &sources, &limits).is_ok());
    assert!(parse(&[policy("", "6", "", &[])], &sources, &limits).is_ok());
    let error = parse(&[policy("172.16.2.1", "", "", &[])], &sources, &limits).unwrap_err();
    assert_eq!((error.field.as_str(), error.index), ("from", 0));
}
