use super::super::list::Labels;
use super::*;
use nsm_api::connectioncontext::{PolicyRoute, Route};
use nsm_chain::ErrorChain;

fn read(text: &str) -> Vec<PolicyRoute> {
    match PolicyList::parse("pbr.yaml", text) {
        Ok(list) => list.policies_for(&Labels::new()).cloned().collect(),
        Err(error) => panic!("{text:?}: {}", ErrorChain(&error)),
    }
}

fn refusal(text: &str) -> String {
    match PolicyList::parse("pbr.yaml", text) {
        Ok(list) => panic!("{text:?}: {list:?}"),
        Err(error) => ErrorChain(&error).to_string(),
    }
}

/// What a file says that is wrong, without the file's name.
fn said(text: &str) -> String {
    refusal(text).strip_prefix("pbr.yaml:").unwrap().to_owned()
}

#[test]
fn the_file_of_the_meshs_example_is_read() {
    let policies = read(
        "
---
- from: 172.16.2.201/24
  proto: 6
  dstport: 6666
  routes:
    - prefix: 172.16.3.0/24
      nexthop: 172.16.2.200
- from: 172.16.2.201/24
  proto: 6
  srcport: 5555
- proto: 17
  dstport: 6666
- proto: 17
  dstport: 6668-6669
- from: 2004::3/120
  proto: 17
  dstport: 5555
  routes:
    - prefix: 2004::5/120
      nexthop: 2004::6
",
    );

    let route = |prefix: &str, next_hop: &str| Route {
        prefix: prefix.to_owned(),
        next_hop: next_hop.to_owned(),
    };
    let policy = |from: &str, proto: &str, dst_port: &str, src_port: &str, routes| PolicyRoute {
        from: from.to_owned(),
        proto: proto.to_owned(),
        dst_port: dst_port.to_owned(),
        src_port: src_port.to_owned(),
        routes,
    };
    let expected = [
        policy(
            "172.16.2.201/24",
            "6",
            "6666",
            "",
            vec![route("172.16.3.0/24", "172.16.2.200")],
        ),
        policy("172.16.2.201/24", "6", "", "5555", vec![]),
        policy("", "17", "6666", "", vec![]),
        policy("", "17", "6668-6669", "", vec![]),
        policy(
            "2004::3/120",
            "17",
            "5555",
            "",
            vec![route("2004::5/120", "2004::6")],
        ),
    ];
    assert_eq!(policies, expected);
}

#[test]
fn a_file_without_policies_has_none() {
    for text in ["", "\n", "# none yet\n", "---\n", "[]", "null"] {
        assert_eq!(read(text), [], "{text:?}");
    }
}

#[test]
fn values_are_text_or_numbers_and_protocols_go_out_as_numbers() {
    let proto = |text: &str| read(&format!("[ {{ proto: {text} }} ]"))[0].proto.clone();
    for tcp in ["6", "'6'", "\"6\"", "tcp", "TCP", "'tcp'", "006", "!!str 6"] {
        assert_eq!(proto(tcp), "6", "{tcp}");
    }
    assert_eq!(proto("sctp"), "132");
    assert_eq!(proto("''"), "");

    let port = |text: &str| {
        read(&format!("[ {{ dstport: {text} }} ]"))[0]
            .dst_port
            .clone()
    };
    assert_eq!(port("6666"), "6666");
    assert_eq!(port("'6666'"), "6666");
    assert_eq!(port("6667-6670"), "6667-6670");
}

#[test]
fn policies_that_are_equal_are_one_and_the_order_of_the_file_is_kept() {
    let policies = read(
        "
- { from: 10.1.0.2 }
- { from: 10.1.0.1, proto: tcp }
- { from: 10.1.0.2 }
- &again { from: 10.1.0.1, proto: 6 }
- *again
- { from: 10.1.0.1 }
",
    );

    let from: Vec<_> = policies
        .iter()
        .map(|it| (it.from.as_str(), it.proto.as_str()))
        .collect();
    assert_eq!(
        from,
        [
            ("10.1.0.2/32", ""),
            ("10.1.0.1/32", "6"),
            ("10.1.0.1/32", "")
        ]
    );
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_keys_there_are() {
    assert_eq!(
        said("- from: 10.1.0.1\n  dstPort: 80\n"),
        "2:3: unknown field `dstPort`, expected one of from, proto, dstport, srcport, routes, labels"
    );
    assert_eq!(
        said("- routes:\n  - { prefix: 10.0.0.0/8, nextHop: 10.0.0.1 }\n"),
        "2:27: unknown field `nextHop`, expected one of prefix, nexthop"
    );
}

#[test]
fn an_item_or_a_value_that_is_missing_is_an_error() {
    for (text, expected) in [
        (
            "- from: 10.1.0.1\n- \n",
            "2:3: policy 1: the item has no value",
        ),
        ("- ~", "1:3: policy 0: the item has no value"),
        ("- from:\n  proto: 6\n", "1:7: policy 0: from has no value"),
        ("- { proto: ~ }", "1:12: policy 0: proto has no value"),
        (
            "- { dstport: null }",
            "1:14: policy 0: dstport has no value",
        ),
        ("- { routes: }", "1:11: policy 0: routes has no value"),
        (
            "- { routes: [ ~ ] }",
            "1:15: policy 0: the route has no value",
        ),
        (
            "- { routes: [ { prefix: } ] }",
            "1:23: policy 0: prefix has no value",
        ),
        (
            "- { routes: [ { nexthop: 10.0.0.1 } ] }",
            "1:17: missing field `prefix`",
        ),
    ] {
        assert_eq!(said(text), expected, "{text:?}");
    }
}

#[test]
fn a_value_of_the_wrong_kind_is_an_error_that_says_what_the_file_looks_like() {
    for (text, place) in [
        ("{}", "1:1"),
        ("policies:\n- from: 10.1.0.1\n", "1:1"),
        ("10.1.0.1", "1:1"),
        ("- 10.1.0.1", "1:3"),
        ("- [ 10.1.0.1 ]", "1:3"),
        ("- { from: [ 10.1.0.1 ] }", "1:11"),
        ("- { proto: { number: 6 } }", "1:12"),
        ("- from: 10.1.0.1\n  routes: 10.0.0.0/8\n", "2:11"),
        ("- { routes: [ 10.0.0.0/8 ] }", "1:15"),
    ] {
        let said = said(text);
        assert!(
            said.starts_with(&format!("{place}: expected ")),
            "{text:?}: {said}"
        );
        assert!(
            said.contains("keys from, proto, dstport, srcport, routes and labels"),
            "{said}"
        );
    }
}

#[test]
fn what_is_no_yaml_or_more_than_one_list_is_an_error_with_its_place() {
    for (text, expected) in [
        ("- { proto: 6, proto: 17 }", "1:15: duplicate mapping key"),
        ("- { <<: { proto: 6 } }", "1:5: merge key not allowed"),
        (
            "- from: 10.0.0.1\n---\n- from: 10.0.0.2\n",
            "3:1: only single YAML document",
        ),
        ("- from: 10.0.0.1\n proto: 6\n", "2:2: "),
        ("- { from: 10.0.0.1", ""),
        ("- *nobody", "1:3: "),
    ] {
        let said = said(text);
        assert!(said.starts_with(expected), "{text:?}: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

#[test]
fn a_policy_that_no_forwarder_could_install_is_refused_where_it_stands() {
    for (text, expected) in [
        (
            "- { from: 10.1.0.300 }",
            "1:11: policy 0: from: \"10.1.0.300\" is neither an address nor a prefix",
        ),
        (
            "- proto: tcp\n- proto: tpc\n",
            "2:10: policy 1: proto: \"tpc\" is no protocol: give a number from 1 to 255 or an IANA \
             name such as tcp",
        ),
        (
            "- { proto: 262 }",
            "1:12: policy 0: proto: \"262\" is no protocol: give a number from 1 to 255 or an IANA \
             name such as tcp",
        ),
        (
            "- { dstport: 0 }",
            "1:14: policy 0: dstport: \"0\": a port must be 1 to 65534 (the kernel's limit for rules)",
        ),
        (
            "- { srcport: 0x50 }",
            "1:14: policy 0: srcport: \"0x50\" is neither a port nor a range such as 6667-6670",
        ),
        (
            "- routes:\n  - { prefix: 10.0.0.0/8 }\n  - { prefix: 10.0.0.0/8, nexthop: fd00::1 }\n",
            "3:36: policy 0: routes[1].nexthop: fd00::1 is IPv6, the policy is IPv4",
        ),
        (
            "- from: 10.0.0.1\n  routes: [ { prefix: 10.0.0 } ]\n",
            "2:23: policy 0: routes[0].prefix: \"10.0.0\" is neither an address nor a prefix",
        ),
        (
            "- from: fd00::1\n  routes: [ { prefix: 10.0.0.0/8 } ]\n",
            "2:23: policy 0: routes[0].prefix: 10.0.0.0 is IPv4, the policy is IPv6",
        ),
        (
            "- &a { from: 10.0.0.1, routes: [ { prefix: 10.0.0.0/8, nexthop: 10.0.0.7 } ] }\n\
             - { from: 10.0.0.1, routes: [ { prefix: 10.0.0.0/8, nexthop: 10.0.0.8 } ] }\n",
            "2:62: policy 1: routes[0].nexthop: 10.0.0.0/8 has another next hop already (policy 0)",
        ),
    ] {
        assert_eq!(said(text), expected, "{text:?}");
    }
}

#[test]
fn too_many_policies_are_refused_at_the_first_of_them() {
    let many = "- { from: 10.0.0.1 }\n".repeat(1025);

    let said = said(&many);

    assert_eq!(
        said,
        "1025:3: policy 1024: policies: 1025 are more than the limit of 1024"
    );
}

#[test]
fn a_policy_with_labels_is_for_connections_that_have_all_of_them() {
    let text = "
- { from: 10.1.0.1 }
- { from: 10.1.0.2, labels: { app: voice } }
- { from: 10.1.0.3, labels: { app: voice, tier: 1 } }
- { from: 10.1.0.4, labels: { app: data } }
- { from: 10.1.0.5, labels: { app: '' } }
- { from: 10.1.0.6, labels: {} }
";
    let list = PolicyList::parse("pbr.yaml", text).unwrap();
    let hosts = |labels: &[(&str, &str)]| {
        let pairs = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let policies: Vec<_> = list.policies_for(&pairs.collect()).map(host).collect();
        policies.concat()
    };
    fn host(policy: &PolicyRoute) -> String {
        policy.from.replace("10.1.0.", "").replace("/32", "")
    }

    assert_eq!(list.len(), 6);
    assert_eq!(hosts(&[]), "16");
    assert_eq!(hosts(&[("zone", "voice")]), "16");
    assert_eq!(hosts(&[("app", "voice")]), "126");
    assert_eq!(
        hosts(&[("app", "voice"), ("tier", "1"), ("zone", "a")]),
        "1236"
    );
    assert_eq!(hosts(&[("app", "data"), ("tier", "1")]), "146");
    assert_eq!(hosts(&[("app", "")]), "156");
}

#[test]
fn what_goes_to_different_connections_may_differ_and_what_goes_to_one_may_not() {
    let hop = |labels: &str, hop: u8| {
        format!(
            "- {{ from: 10.0.0.1, routes: [ {{ prefix: 10.0.0.0/8, nexthop: 10.0.0.{hop} }} ], labels: {labels} }}\n"
        )
    };
    let different = hop("{ app: a }", 7) + &hop("{ app: b }", 8);
    assert_eq!(PolicyList::parse("pbr.yaml", &different).unwrap().len(), 2);

    let same = hop("{ app: a }", 7) + &hop("{ app: b }", 8) + &hop("{ app: b, tier: 1 }", 9);
    assert_eq!(
        said(&same),
        "3:62: policy 2: routes[0].nexthop: 10.0.0.0/8 has another next hop already (policy 1)"
    );
}

#[test]
fn a_policy_that_comes_along_with_an_equal_one_is_left_out() {
    let count = |text: &str| PolicyList::parse("pbr.yaml", text).unwrap().len();
    let (some, more) = ("labels: { app: a }", "labels: { app: a, tier: 1 }");
    let all = [
        format!("- {{ from: 10.1.0.1, {some} }}\n"),
        format!("- {{ from: 10.1.0.1, proto: '', {more} }}\n"),
        format!("- {{ from: 10.1.0.1, {some} }}\n"),
    ];
    assert_eq!(count(&all.concat()), 1);
    let reversed: Vec<_> = all.iter().rev().cloned().collect();
    assert_eq!(count(&reversed.concat()), 1);
    let others = "- { from: 10.1.0.1, labels: { tier: 1 } }\n- { from: 10.1.0.2 }\n";
    assert_eq!(count(&(all.concat() + others)), 3);
}

#[test]
fn labels_are_a_map_of_text() {
    for (text, expected) in [
        ("- { labels: }", "1:11: policy 0: labels has no value"),
        (
            "- { labels: { app: } }",
            "1:18: policy 0: label \"app\" has no value",
        ),
        ("- { labels: [ app ] }", "1:13: expected "),
        ("- { labels: { app: [ a ] } }", "1:20: expected "),
        (
            "- { labels: { app: a, app: b } }",
            "1:23: duplicate mapping key",
        ),
    ] {
        let said = said(text);
        assert!(said.starts_with(expected), "{text:?}: {said}");
    }
}

#[test]
fn a_file_that_is_not_there_is_none_and_one_that_cannot_be_read_is_an_error() {
    let folder = std::env::temp_dir().join(format!("nsm-endpoint-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("pbr.yaml");

    let absent = PolicyList::read(&file).unwrap();
    std::fs::write(&file, "[ { from: 10.1.0.1 } ]").unwrap();
    let present = PolicyList::read(&file).unwrap();
    std::fs::write(&file, b"- from: \xff\n").unwrap();
    let binary = PolicyList::read(&file);
    let directory = PolicyList::read(&folder);
    std::fs::remove_dir_all(&folder).unwrap();

    assert_eq!(absent, None);
    assert_eq!(present.unwrap().len(), 1);
    let binary = binary.unwrap_err().to_string();
    assert!(
        binary.ends_with("pbr.yaml:1:9: this is no text in UTF-8"),
        "{binary}"
    );
    let directory = directory.unwrap_err().to_string();
    assert!(directory.starts_with("cannot read "), "{directory}");
}
