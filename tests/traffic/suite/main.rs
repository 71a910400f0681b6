//! The short run: every flow beside every stream, and that the meter sees what it is there for.

use kernel_suite::sandbox;
use libtest_mimic::{Arguments, Failed, Trial};
use nsm_netlink::{Family, Op};
use serde_json::Value;
use std::process::{Command, ExitCode};
use std::time::Duration;
use traffic::flow::Name;
use traffic::measure::measure;
use traffic::meter::comes_out;
use traffic::sender::Socket;
use traffic::sink::Sink;
use traffic::stage::Stage;
use traffic::stream::{Sending, Stream};
use traffic::world::{Hop, Link};

/// How long each flow is measured beside each stream.
const TIME: Duration = Duration::from_millis(40);

fn main() -> ExitCode {
    // Before the first thread: libtest-mimic starts some.
    let sandboxed = match sandbox::enter_or_skip("all tests of traffic") {
        Ok(sandboxed) => sandboxed,
        Err(missing) => {
            eprintln!("error: {}", missing.explain());
            return ExitCode::FAILURE;
        }
    };
    let mut arguments = Arguments::from_args();
    // Two at a time would have half a processor each, and see half of it.
    arguments.test_threads = Some(1);
    let flows = Name::ALL.into_iter().map(|flow| {
        let text = flow.text().replace('-', "_");
        let says = match flow {
            Name::Control => "is_seen_to_leak",
            _ if flow.has_a_gap() => "leaves_no_socket_behind",
            _ => "leaks_nothing",
        };
        Trial::test(format!("{text}_{says}"), move || is_well(flow))
    });
    let stuck = Trial::test("a_socket_that_is_stuck_on_another_link_is_seen", stuck);
    let command = Trial::test("the_command_prints_one_json_object_and_its_status", command);
    let trials = flows.chain([stuck, command]);
    let trials = trials
        .map(|trial| trial.with_ignored_flag(!sandboxed))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn is_well(flow: Name) -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for stream in Stream::ALL {
        let cell = measure(flow, stream, TIME)?;
        let mut faults = cell.faults();
        if cell.is_blind() {
            faults.push("no leak is seen".to_owned());
        }
        wrong.extend(faults.into_iter().map(|fault| format!("{stream}: {fault}")));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n").into())
    }
}

/// An IPv6 socket that has fallen to the main table stays there when its route comes back.
fn stuck() -> Result<(), Failed> {
    let stream = Stream {
        family: Family::V6,
        sending: Sending::ConnectedUdp,
    };
    let mut stage = Stage::new(stream)?;
    let mut control = Name::Control.begin(&mut stage)?;
    let _sink = Sink::open(&stage.world, stream)?;
    let mut socket = Socket::open(&stage.world, stream)?;
    let mut leaves_by = |stage: &Stage| comes_out(&stage.world, stream, &mut socket);
    assert_eq!(leaves_by(&stage)?, Some(Link::Nsm0));

    let table = stage.rule()?.table;
    let route = stage.default_route(table, Link::Nsm0, Hop::A);
    stage.write(&[Op::DelRoute(route.clone())])?;
    assert_eq!(leaves_by(&stage)?, Some(Link::Eth0));
    stage.append(&route)?;
    assert_eq!(leaves_by(&stage)?, Some(Link::Eth0));

    // A change of rules brings it back.
    control.change(&mut stage)?;
    assert_eq!(leaves_by(&stage)?, control.home().into());
    Ok(())
}

/// The figures as a script gets them.
fn command() -> Result<(), Failed> {
    let program = env!("CARGO_BIN_EXE_traffic");
    let arguments = ["--flow", "refresh", "--seconds", "0.02", "--json"];
    let output = Command::new(program).args(arguments).output()?;

    let figures: Value = serde_json::from_slice(&output.stdout)?;
    let measured = figures["measurements"].as_array().map(Vec::len);
    assert_eq!(
        (&figures["ok"], measured),
        (&true.into(), Some(12)),
        "{figures}"
    );
    assert_eq!(output.status.code(), Some(0));
    Ok(())
}
