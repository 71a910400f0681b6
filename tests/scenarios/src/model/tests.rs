use super::*;

fn error(text: &str) -> String {
    match Scenario::parse("x.yaml", text) {
        Err(error) => error.to_string(),
        Ok(scenario) => panic!("this is no error: {scenario:?}"),
    }
}

/// The error of a file with one step.
fn step_error(step: &str) -> String {
    error(&format!("name: x\nsteps:\n  - {step}\n"))
}

#[test]
fn an_unreadable_file_is_told_with_its_place_on_one_line() {
    assert_eq!(
        error("name: x\nstep: []\n"),
        "x.yaml:2:1: unknown field `step`, expected one of name, why, config, links, steps"
    );
    assert_eq!(error("name: x\n"), "x.yaml:1:1: missing field `steps`");
    assert!(error("name: [\n").starts_with("x.yaml:1:7: "));
    assert!(error("name: x\nname: y\nsteps: []\n").starts_with("x.yaml:2:1: duplicate"));
    let gone = Scenario::read(Path::new("/nowhere/x.yaml")).unwrap_err();
    assert_eq!(
        gone.to_string(),
        "/nowhere/x.yaml: No such file or directory (os error 2)"
    );
}

#[test]
fn unknown_keys_are_errors_wherever_they_stand() {
    for step in [
        "reqest: { id: c1, interface: nsm-0 }",
        "request: { id: c1, interface: nsm-0, polices: [] }",
        "request: { id: c1, interface: nsm-0, policies: [ { form: 10.1.0.1 } ] }",
        "request: { id: c1, interface: a, policies: [ { routes: [ { to: 10.0.0.0/8 } ] } ] }",
        "restart: { all: true }",
        "wait: 1s\n    on: b",
        "watch: { steps: [], events: { rule: 0 } }",
        "watch: { steps: [], throughout: [ { to: 10.0.0.1, device: nsm-0 } ] }",
        "expect: { rule: 1 }",
        "expect: { policies: [ { from: 10.0.0.1, prio: 5 } ] }",
        "expect: { order: [ { from: 10.0.0.1 }, { source: 10.0.0.2 } ] }",
        "element: { name: x, config: { proto: 5 } }",
        "fault: { op: add_rule, errno: EPERM, times: 2 }",
    ] {
        let message = step_error(step);
        assert!(message.starts_with("x.yaml:"), "{message}");
        assert!(message.contains("unknown field"), "{message}");
    }
}

#[test]
fn values_of_the_wrong_kind_are_errors() {
    for (step, message) in [
        ("{}", "a step that says nothing to do"),
        ("wait: 1s\n    restart: {}", "a step does one thing"),
        (
            "wait: 1s\n    fails: true",
            "`fails` stands beside `run` only",
        ),
        ("wait: 20", "\"20\" is no time"),
        ("request: { id: c1 }", "a request names its `interface`"),
        (
            "request: { id: c1, interface: a, netns: away }",
            "unknown variant `away`",
        ),
        (
            "request: { id: c1, interface: a, error: \"(\" }",
            "is no regular expression",
        ),
        ("expect: {}", "an expectation that expects nothing"),
        ("expect: { no_own: false }", "`no_own` is true or absent"),
        (
            "expect: { order: [ { from: 10.0.0.1 } ] }",
            "two selectors or more",
        ),
        (
            "expect: { lookup: [ { to: 10.0.0.1 } ] }",
            "expects one of `dev`",
        ),
        (
            "expect: { lookup: [ { to: 10.0.0.1, dev: a, error: EPERM } ] }",
            "has no `dev`",
        ),
        (
            "expect: { policies: [ { from: 10.0.0.1, routes: [ \"default\" ] } ] }",
            "no link",
        ),
        (
            "expect: { policies: [ { from: 10.0.0.1, routes: [ \"::/0 dev a\" ] } ] }",
            "family",
        ),
        ("fault: { op: add_rule }", "a fault has one of"),
        (
            "fault: { op: add_rule, errno: EPERM, kill: before }",
            "a fault has one of",
        ),
        (
            "fault: { op: add_rule, nth: 0, errno: EPERM }",
            "`nth` counts from 1",
        ),
        (
            "fault: { op: add_rule, errno: EWHAT }",
            "is no name of an error",
        ),
        (
            "pod: { name: b, links: [ a-name-that-is-too-long ] }",
            "is no name of a link",
        ),
        ("watch: { steps: [] }", "a watch looks at `events`"),
    ] {
        let told = step_error(step);
        assert!(told.contains(message), "{step}: {told}");
    }
    let config = |config| error(&format!("name: x\nconfig: {config}\nsteps: []\n"));
    assert!(config("{ tables: 1-300 }").contains("253, 254 or 255"));
    assert!(config("{ priorities: 30000-30100 }").contains("is no band"));
}

#[test]
fn names_are_given_before_they_are_used() {
    for (step, message) in [
        (
            "expect: { same_as: before }",
            "there is no snapshot \"before\" yet",
        ),
        (
            "expect: { kept: { in: before, only: [] } }",
            "there is no snapshot \"before\" yet",
        ),
        ("restart: {}\n    in: b", "there is no pod \"b\" yet"),
        ("destroy: b", "there is no pod \"b\" yet"),
        ("refresh: { id: c1 }", "there is no connection \"c1\" yet"),
        (
            "request: { id: c1, interface: a, element: x }",
            "there is no element \"x\" yet",
        ),
        (
            "repeat: { times: 2, steps: [ { expect: { kept: x } } ] }",
            "no snapshot \"x\"",
        ),
    ] {
        let told = step_error(step);
        assert!(told.contains(message), "{step}: {told}");
    }
}

#[test]
fn anchors_work_and_merge_keys_do_not() {
    let text = "
name: x
steps:
  - request: &a { id: c1, interface: nsm-0 }
  - request: *a
";
    assert_eq!(Scenario::parse("x.yaml", text).unwrap().steps.len(), 2);
    let merged = text.replace("request: *a", "request: { <<: *a, id: c2 }");
    assert!(error(&merged).contains("merge key"), "{}", error(&merged));
}

#[test]
fn links_are_numbered_or_have_the_addresses_that_are_given() {
    let links = |yaml: &str| -> String {
        let text = format!("name: x\nlinks: {yaml}\nsteps: []\n");
        format!("{:?}", Scenario::parse("x.yaml", &text).unwrap().links.0)
    };
    assert_eq!(
        links("[nsm-0, eth0]"),
        "[(\"nsm-0\", [172.16.1.1/24, fd00:1::1/64]), (\"eth0\", [172.16.2.1/24, fd00:2::1/64])]"
    );
    assert_eq!(
        links("{ eth0: [10.0.0.1/8], nsm-0: [] }"),
        "[(\"eth0\", [10.0.0.1/8]), (\"nsm-0\", [])]"
    );
}

#[test]
fn only_a_shell_keeps_a_file_from_the_fake_kernel() {
    let needs = |step: &str| {
        let text = format!("name: x\nsteps:\n  - {step}\n");
        Scenario::parse("x.yaml", &text).unwrap().needs_shell()
    };
    assert!(needs("run: ip rule"));
    assert!(needs(
        "parallel: [ [ { repeat: { times: 2, steps: [ { run: ip rule } ] } } ] ]"
    ));
    assert!(!needs("watch: { events: 0, steps: [ { wait: 1s } ] }"));
}
