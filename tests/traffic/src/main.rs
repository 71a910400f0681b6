//! The measuring program.

use clap::Parser;
use kernel_suite::sandbox;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;
use traffic::figures::{Cell, Figures, Verdict};
use traffic::flow::Name;
use traffic::measure::measure;
use traffic::progress::Progress;
use traffic::stream::Stream;
use traffic::{Error, json, report};

/// Measures whether any packet of a policy leaves by another interface while policyroute is at work.
///
/// It makes a pod with two connections' interfaces and one of its own, sends at full rate under a
/// policy (IPv4 and IPv6; UDP by a socket that is connected or not, TCP), and lets the element work
/// as fast as it can meanwhile. Each flow is measured beside each stream, one at a time, so that one
/// processor sends while another changes. By the pod's own interface, or by that of another
/// connection, nothing may leave; nothing may be refused; and in the end each socket must be back.
///
/// One flow is a control that must leak. Where it does not, the figures say nothing.
///
/// Everything happens in namespaces that end with the process. Root is not needed where the system
/// lets ordinary users make user namespaces.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit status: 0 nothing leaked, 1 something is wrong, 2 void or not to be measured here."
)]
struct Arguments {
    /// Which flows, see --list; the control runs in any case
    #[arg(long, value_name = "NAME", num_args = 1.., hide_possible_values = true)]
    flow: Vec<Name>,

    /// For how long each flow is measured beside each stream
    #[arg(long, value_name = "N", default_value = "1", value_parser = seconds)]
    seconds: Duration,

    /// Say which flows there are, and measure none
    #[arg(long)]
    list: bool,

    /// Print one JSON object in place of the report
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number")?;
    match seconds {
        0.01..=3600.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("from 0.01 to 3600".to_owned()),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        return printed(list(&mut anstream::stdout()), ExitCode::SUCCESS);
    }
    // Before the first thread: a process with threads cannot enter a user namespace.
    if let Err(missing) = sandbox::enter() {
        return cannot_measure(&missing.explain());
    }
    let figures = match run(&arguments) {
        Ok(figures) => figures,
        Err(error) => return cannot_measure(&error.to_string()),
    };
    let mut stdout = anstream::stdout();
    let done = if arguments.json {
        json::print(&mut stdout, &figures)
    } else {
        report::print(&mut stdout, &figures, arguments.seconds)
    };
    let status = match figures.verdict() {
        Verdict::Well => ExitCode::SUCCESS,
        Verdict::NotWell => ExitCode::from(1),
        Verdict::Void => ExitCode::from(2),
    };
    printed(done.and_then(|()| stdout.flush()), status)
}

/// Measures what is asked for, the control before all else.
fn run(arguments: &Arguments) -> Result<Figures, Error> {
    let wanted = |flow: &Name| {
        *flow == Name::Control || arguments.flow.is_empty() || arguments.flow.contains(flow)
    };
    let flows: Vec<Name> = Name::ALL.into_iter().filter(wanted).collect();
    let mut progress = Progress::of(flows.len());
    let mut figures = Figures::default();
    for flow in flows {
        for stream in Stream::ALL {
            progress.begins(flow, stream);
            figures
                .cells
                .push(measure(flow, stream, arguments.seconds)?);
        }
        if figures.cells.iter().any(Cell::is_blind) {
            break;
        }
    }
    Ok(figures)
}

fn list(out: &mut impl Write) -> io::Result<()> {
    for flow in Name::ALL {
        writeln!(out, "{flow:<23}  {}", flow.about())?;
    }
    Ok(())
}

fn printed(done: io::Result<()>, status: ExitCode) -> ExitCode {
    match done {
        Ok(()) => status,
        // The reader has gone away, as with `| head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => status,
        Err(error) => cannot_measure(&error.to_string()),
    }
}

fn cannot_measure(why: &str) -> ExitCode {
    // What cannot be written is lost: there is nobody else to tell.
    writeln!(io::stderr(), "traffic: {why}").ok();
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_time_without_sense_is_refused() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "x", "0", "-1", "NaN", "1e9"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
