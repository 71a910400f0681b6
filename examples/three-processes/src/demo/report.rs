//! What is printed.

use super::programs::Process;
use super::setting::{ENDPOINTS, EVERYWHERE};
use super::state::Row;
use super::traffic::Sums;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// How soon every policy has to be served after the forwarder listens again.
const SOON: Duration = Duration::from_secs(1);
/// How many lines of a log are printed.
const LINES: usize = 15;

/// What the demo found.
#[derive(Debug)]
pub struct Findings {
    /// The rules of the policies before the first restart.
    pub before: Vec<Row>,
    /// And after the last.
    pub after: Vec<Row>,
    /// After how many restarts other rules or routes stood than before, once traffic was back.
    pub strayed: usize,
    /// How long after the forwarder listened again every policy was served.
    pub returns: Vec<Duration>,
    /// Notifications of rules that came or went.
    pub rule_events: u64,
    /// The questions until after the last restart.
    pub killed: Sums,
    /// Those over the roll-out.
    pub rolled: Sums,
    /// Notifications over the roll-out, of all that somebody did in the pod or the networks.
    pub rolled_events: u64,
    /// Rules and interfaces that stand after the client's end.
    pub left: usize,
    /// Programs that did not end well.
    pub ends: Vec<String>,
}

impl Findings {
    /// All that is not as it should be, in words. Nothing, if all is well.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |is_one: bool, text: String| {
            if is_one {
                faults.push(text);
            }
        };
        fault(
            self.before.len() != ENDPOINTS.len() * EVERYWHERE.len(),
            format!("{} rules at first", self.before.len()),
        );
        fault(
            self.strayed > 0,
            format!("other rules after {} restarts", self.strayed),
        );
        fault(self.before != self.after, "other rules than before".into());
        fault(
            self.rule_events > 0,
            format!("{} rule events", self.rule_events),
        );
        fault(
            self.longest() > SOON,
            format!("back after {:?}", self.longest()),
        );
        let wrong = self.killed.wrong + self.rolled.wrong;
        fault(wrong > 0, format!("{wrong} answers by another interface"));
        let (lost, refused) = (self.rolled.lost(), self.rolled.refused);
        fault(
            lost + refused > 0,
            format!("{lost} lost and {refused} refused in the roll-out"),
        );
        fault(self.rolled.right == 0, "no traffic in the roll-out".into());
        fault(
            self.rolled_events > 0,
            format!("{} events in the roll-out", self.rolled_events),
        );
        fault(
            self.left > 0,
            format!("{} rules and interfaces left", self.left),
        );
        faults.extend(self.ends.iter().cloned());
        faults
    }

    fn longest(&self) -> Duration {
        self.returns.iter().max().copied().unwrap_or_default()
    }
}

/// Tells what stands when everything has started.
pub fn started(rows: &[Row]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "\n  A client with two connections, a forwarder, two endpoints: five processes"
    )?;
    table(&mut out, "ip rule", rows)
}

/// Tells of a restart, on stderr.
pub fn restarted(restart: u16, of: u16, back: Duration) -> io::Result<()> {
    let ms = milliseconds(back);
    writeln!(
        io::stderr(),
        "forwarder killed, its interfaces deleted, {restart} of {of}: all traffic back {ms:.1} ms after it listened again"
    )
}

/// Tells how to look around.
pub fn look_around(
    nsc: &Process,
    forwarder: &Process,
    endpoints: &[Process],
    folder: &Path,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let enter =
        |process: &Process| format!("nsenter --preserve-credentials -U -n -t {}", process.pid());
    let pod = enter(nsc);
    writeln!(
        out,
        "\n  Everything runs until Ctrl-C. In the client's pod:\n"
    )?;
    for command in [
        "ip rule",
        "ip -6 rule",
        "ip route show table 20000",
        "ip -br address",
    ] {
        writeln!(out, "    {pod} {command}")?;
    }
    writeln!(out, "\n  In the networks of the endpoints:\n")?;
    for endpoint in endpoints {
        writeln!(out, "    {} ip -br address", enter(endpoint))?;
    }
    writeln!(out, "\n  More of the log of the forwarder, and less:\n")?;
    writeln!(out, "    tail -f {}/forwarder.log", folder.display())?;
    for signal in ["USR1", "USR2"] {
        writeln!(out, "    kill -{signal} {}", forwarder.pid())?;
    }
    out.flush()
}

/// Tells what became of it all.
pub fn verdict(findings: &Findings) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let Findings {
        killed,
        rolled,
        returns,
        ..
    } = findings;
    let restarts = returns.len();
    let kills = match restarts {
        1 => "1 kill".to_owned(),
        restarts => format!("{restarts} kills"),
    };
    let kept = findings
        .before
        .iter()
        .filter(|row| findings.after.contains(row))
        .count();
    let all = findings.before.len();
    let mean = returns.iter().sum::<Duration>() / u32::try_from(restarts.max(1)).unwrap_or(1);
    table(
        &mut out,
        &format!("After {kills} and a roll-out: ip rule"),
        &findings.after,
    )?;
    writeln!(out, "\n  What became of it")?;
    writeln!(
        out,
        "    rules         {kept} of {all} kept  same rule, same priority, same table, same route"
    )?;
    writeln!(
        out,
        "    rule events   {:>11}  heard by a notification socket in the pod",
        findings.rule_events
    )?;
    writeln!(
        out,
        "    return        {:>8.1} ms  until all traffic was back, at most {:.1} ms",
        milliseconds(mean),
        milliseconds(findings.longest())
    )?;
    writeln!(
        out,
        "    questions     {:>11}  {} answered by the right endpoint, {} by another",
        killed.asked, killed.right, killed.wrong
    )?;
    writeln!(
        out,
        "    in the gaps   {:>11}  refused for want of the interface, {} more without an answer, {} left by eth0",
        killed.refused,
        killed.lost(),
        killed.by_node
    )?;
    writeln!(
        out,
        "    roll-out      {:>11}  lost of {} questions, and {} events in the pod and the networks",
        rolled.lost() + rolled.refused,
        rolled.asked + rolled.refused,
        findings.rolled_events
    )?;
    writeln!(
        out,
        "    after the end {:>11}  rules and interfaces left in the pod",
        findings.left
    )?;
    match findings.faults().as_slice() {
        [] => writeln!(
            out,
            "\n   OK  {kills} of the forwarder, no rule touched, all traffic back within a second\n"
        )?,
        faults => writeln!(out, "\n   NOT OK  {}\n", faults.join(", "))?,
    }
    out.flush()
}

/// The last lines of all logs, on stderr.
pub fn logs(folder: &Path) -> io::Result<()> {
    let mut out = io::stderr().lock();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        writeln!(out, "{}:", path.display())?;
        let text = fs::read_to_string(&path)?;
        let lines: Vec<_> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

fn table(out: &mut impl Write, head: &str, rows: &[Row]) -> io::Result<()> {
    let texts: Vec<_> = rows
        .iter()
        .map(|row| row.rule.to_string().replace('\t', " "))
        .collect();
    let width = texts.iter().map(String::len).max().unwrap_or_default();
    writeln!(out, "\n  {head:0$}  ip route show table N", width + 2)?;
    for (text, row) in texts.iter().zip(rows) {
        writeln!(out, "    {text:width$}  {}", row.route)?;
    }
    out.flush()
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e4).round() / 10.0
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
