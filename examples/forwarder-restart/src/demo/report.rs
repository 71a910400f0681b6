//! What is printed in the end.

use super::cli::Recovery;
use super::course::Course;
use super::run::Outcome;
use super::state::Row;
use super::tally::Datagrams;
use super::verdict::{Findings, count, thousands};
use anstyle::{AnsiColor, Color, Style};
use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = colour(AnsiColor::Green);
const CHANGED: Style = colour(AnsiColor::Yellow);
const BAD: Style = colour(AnsiColor::Red);
const PLAIN: Style = Style::new();

const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(colour)))
}

/// How many rules of a state are printed at most.
const ROWS: usize = 24;

/// The figures as one JSON object on one line.
pub fn json(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    #[derive(Serialize)]
    struct Report<'a> {
        ok: bool,
        #[serde(flatten)]
        findings: &'a Findings,
        return_ms_mean: f64,
        return_ms_max: f64,
        faults: Vec<String>,
    }
    let faults = outcome.findings.faults();
    let report = Report {
        ok: faults.is_empty(),
        findings: &outcome.findings,
        return_ms_mean: milliseconds(outcome.course.mean_return()),
        return_ms_max: milliseconds(outcome.course.longest_return()),
        faults,
    };
    serde_json::to_writer(&mut *out, &report)?;
    writeln!(out)
}

/// The report for people.
pub fn text(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    let Course {
        before,
        kept,
        worst: (restart, after),
        ..
    } = &outcome.course;
    let findings = &outcome.findings;
    let keeps = |row: &Row| kept.contains(&row.rule);
    let which = match *restart {
        last if last == findings.restarts => format!("After restart {last}"),
        worst => format!("After restart {worst}, the worst"),
    };
    title(out, findings)?;
    table(
        out,
        "Before",
        before,
        |row| if keeps(row) { ' ' } else { '-' },
    )?;
    table(out, &which, after, |row| if keeps(row) { '=' } else { '+' })?;
    changes(out, outcome)?;
    verdict(out, findings)
}

fn title(out: &mut impl Write, findings: &Findings) -> io::Result<()> {
    let how = match findings.recovery {
        Recovery::Reattach => "policyroute reattaches",
        Recovery::ReattachFailClosed => "policyroute reattaches, policies fail closed",
        Recovery::Recreate => "rules are deleted and recreated",
    };
    let restarts = count(findings.restarts.into(), "restart", "restarts");
    let connections = count(findings.connections.into(), "connection", "connections");
    let Findings { policies, seed, .. } = findings;
    writeln!(out, "\n  {BOLD}{restarts} of the forwarder: {how}{BOLD:#}")?;
    writeln!(
        out,
        "  {DIM}{connections} with {policies} IPv4 and {policies} IPv6 policies each, \
         back in any order and at once, seed {seed}{DIM:#}"
    )
}

/// Each rule, and what it leads to. Of the signs `-` will not be kept, `=` was kept, and `+` was not
/// there before.
fn table(
    out: &mut impl Write,
    head: &str,
    rows: &[Row],
    sign: impl Fn(&Row) -> char,
) -> io::Result<()> {
    let width = rows
        .iter()
        .map(|row| text_of(row).len())
        .max()
        .unwrap_or_default();
    let guarded = !rows.is_empty() && rows.iter().all(|row| row.guarded);
    let behind = if guarded { " (+ unreachable)" } else { "" };
    let left = format!("{head}: ip rule");
    writeln!(
        out,
        "\n  {BOLD}{left:0$}{BOLD:#}  {DIM}ip route show table N{behind}{DIM:#}",
        width + 2
    )?;
    let mut shown: Vec<&Row> = rows.iter().collect();
    if rows.len() > ROWS {
        // Of many, those that matter.
        shown.sort_by_key(|row| row.astray.is_none());
    }
    for row in shown.into_iter().take(ROWS) {
        let (text, route) = (text_of(row), &row.route);
        match sign(row) {
            ' ' => write!(out, "    {text:width$}")?,
            '=' => write!(out, "  {GOOD}={GOOD:#} {text:width$}")?,
            sign => write!(out, "  {CHANGED}{sign} {text:width$}{CHANGED:#}")?,
        }
        match &row.astray {
            None => writeln!(out, "  {route}")?,
            Some(interface) => writeln!(out, "  {BAD}{route}  <- not {interface}{BAD:#}")?,
        }
    }
    match rows.len().saturating_sub(ROWS) {
        0 => Ok(()),
        more => writeln!(out, "    {DIM}and {} more{DIM:#}", thousands(more as u64)),
    }
}

/// A rule as `ip rule` prints it.
fn text_of(row: &Row) -> String {
    row.rule.to_string().replace('\t', " ")
}

fn changes(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    let Outcome {
        findings,
        course,
        others,
        failure,
    } = outcome;
    let Datagrams {
        served,
        leaked,
        lost,
        unserved,
        refused,
        eth0,
        ..
    } = findings.datagrams;
    let Findings {
        rules_before,
        rules_kept,
        rule_events,
        foreign_changed,
        ..
    } = findings;
    writeln!(out, "\n  {BOLD}What changed{BOLD:#}")?;
    let judged = |well: bool| if well { GOOD } else { BAD };
    let mut line = |name: &str, style: Style, figure: String, text: String| {
        writeln!(
            out,
            "    {name:<13}{style}{figure:>14}{style:#}  {DIM}{text}{DIM:#}"
        )
    };
    line(
        "rules",
        judged(rules_kept == rules_before),
        format!("{rules_kept} of {rules_before} kept"),
        "same rule, same priority, same table".to_owned(),
    )?;
    line(
        "rule events",
        judged(*rule_events == 0),
        thousands(*rule_events),
        "heard by a notification socket in the pod".to_owned(),
    )?;
    line(
        "foreign",
        judged(*foreign_changed == 0),
        format!("{foreign_changed} changed"),
        format!("of {others} rules and routes of others"),
    )?;
    line(
        "datagrams",
        judged(leaked == 0 && lost == 0),
        format!("{} leaked", thousands(leaked)),
        match lost {
            0 => format!("of {} sent while served", thousands(served)),
            _ => format!("and {} lost, of {}", thousands(lost), thousands(served)),
        },
    )?;
    let (style, text) = match findings.recovery {
        Recovery::Reattach => (
            PLAIN,
            format!(
                "{} left by eth0; --fail-closed refuses them",
                thousands(eth0)
            ),
        ),
        Recovery::ReattachFailClosed => {
            let (refused, eth0) = (thousands(refused), thousands(eth0));
            (
                judged(findings.datagrams.eth0 == 0),
                format!("{refused} refused, {eth0} left by eth0"),
            )
        }
        Recovery::Recreate => (PLAIN, format!("{} left by eth0", thousands(eth0))),
    };
    line(
        "in the gaps",
        style,
        format!("{} unserved", thousands(unserved)),
        text,
    )?;
    line(
        "return",
        PLAIN,
        format!("{:.1} ms", milliseconds(course.mean_return())),
        format!(
            "until all were back, at most {:.1} ms",
            milliseconds(course.longest_return())
        ),
    )?;
    match failure {
        None => Ok(()),
        Some(failure) => line("failure", BAD, "first".to_owned(), failure.clone()),
    }
}

fn verdict(out: &mut impl Write, findings: &Findings) -> io::Result<()> {
    let restarts = count(findings.restarts.into(), "restart", "restarts");
    let faults = findings.faults();
    let (style, word, sentence, hint) = match (faults.as_slice(), findings.recovery) {
        ([], Recovery::ReattachFailClosed) => {
            let sentence = "nothing left by eth0, not even in a gap";
            (
                GOOD,
                "OK",
                format!("every rule kept its table over {restarts}, {sentence}"),
                "",
            )
        }
        ([], _) => {
            let hint = "  (--recreate shows the fault)";
            (
                GOOD,
                "OK",
                format!("every rule kept its table over {restarts}, nothing leaked"),
                hint,
            )
        }
        // Enough for one line; the figures above tell the rest.
        (faults, _) => (BAD, "NOT OK", faults[..faults.len().min(4)].join(", "), ""),
    };
    let badge = style.bold().invert();
    writeln!(
        out,
        "\n  {badge} {word} {badge:#} {style}{sentence}{style:#}{DIM}{hint}{DIM:#}\n"
    )
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e4).round() / 10.0
}
