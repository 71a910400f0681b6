//! The report for people.

use crate::figures::{Cell, Figures, Slice, Verdict, count, thousands};
use crate::flow::Name;
use crate::stream::Sending;
use anstyle::{AnsiColor, Color, Style};
use nsm_netlink::Family;
use std::io::{self, Write};
use std::time::Duration;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = colour(AnsiColor::Green);
const BAD: Style = colour(AnsiColor::Red);
const PLAIN: Style = Style::new();

const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(colour)))
}

/// Prints the figures, 100 columns wide at most.
///
/// # Errors
/// When it cannot be written.
pub fn print(out: &mut impl Write, figures: &Figures, time: Duration) -> io::Result<()> {
    let each = time.as_secs_f64();
    writeln!(
        out,
        "\n  {BOLD}Packets by another interface while policyroute is at work{BOLD:#}"
    )?;
    writeln!(
        out,
        "  {DIM}each flow for {each} s beside each of six streams at full rate{DIM:#}\n"
    )?;
    writeln!(
        out,
        "  {DIM}{:>74}{DIM:#}",
        "packets by the stream's own link"
    )?;
    writeln!(
        out,
        "  {BOLD}{:<23} {:<4}{:>10}{:>12}{:>12}{:>12}{:>13}{:>8}{BOLD:#}",
        "flow", "", "changes", "UDP", "connected", "TCP", "by others", "errors"
    )?;
    for flow in Name::ALL {
        for family in Family::ALL {
            let cells = figures.cells.iter();
            let cells: Vec<&Cell> = cells
                .filter(|cell| cell.flow == flow && cell.stream.family == family)
                .collect();
            if !cells.is_empty() {
                row(out, flow, family, &cells)?;
            }
        }
    }
    if figures.cells.iter().any(|cell| cell.flow.has_a_gap()) {
        writeln!(
            out,
            "\n  {DIM}+ There is a gap on purpose: what counts is that no socket is left behind in it.{DIM:#}"
        )?;
    }
    kernels_best(out, figures)?;
    faults(out, figures)?;
    verdict(out, figures)
}

/// One flow in one family.
fn row(out: &mut impl Write, flow: Name, family: Family, cells: &[&Cell]) -> io::Result<()> {
    let own = |sending| {
        let cell = cells.iter().find(|cell| cell.stream.sending == sending);
        cell.map_or_else(String::new, |cell| thousands(cell.element.own))
    };
    let sum = sum(cells.iter().map(|cell| &cell.element));
    let well = cells
        .iter()
        .all(|cell| !cell.is_blind() && cell.faults().is_empty());
    let style = if well { PLAIN } else { BAD };
    let [udp, connected, tcp] = Sending::ALL.map(own);
    let name = if family == Family::V4 {
        flow.text()
    } else {
        ""
    };
    let mark = if cells.iter().any(|cell| cell.kernels_best.is_some()) {
        '*'
    } else if flow.has_a_gap() {
        '+'
    } else {
        ' '
    };
    let leaked = format!("{} {mark}", thousands(sum.leaked()));
    writeln!(
        out,
        "  {name:<23} {family:<4}{:>10}{udp:>12}{connected:>12}{tcp:>12}{style}{leaked:>13}{:>8}{style:#}",
        thousands(sum.changes),
        thousands(sum.errors),
    )
}

/// What the element leaks where the kernel leaks too.
fn kernels_best(out: &mut impl Write, figures: &Figures) -> io::Result<()> {
    let (mut element, mut best) = (Slice::default(), Slice::default());
    let mut rows = Vec::new();
    for flow in Name::ALL {
        let cells = figures.cells.iter().filter(|cell| cell.flow == flow);
        let pairs: Vec<_> = cells
            .filter_map(|cell| Some((&cell.element, cell.kernels_best.as_ref()?)))
            .collect();
        if pairs.is_empty() {
            continue;
        }
        let sums = [
            sum(pairs.iter().map(|(it, _)| *it)),
            sum(pairs.iter().map(|(_, it)| *it)),
        ];
        rows.push((flow.text(), sums.each_ref().map(in_changes), String::new()));
        let [of_element, of_best] = sums;
        element += of_element;
        best += of_best;
    }
    if rows.is_empty() {
        return Ok(());
    }
    // Of a few flows alone there are too few packets for a ratio.
    let ratio = match best.leaked() {
        0 => "-".to_owned(),
        _ => format!(
            "{:.1}",
            element.leaked_per_thousand() / best.leaked_per_thousand()
        ),
    };
    let ratio = format!("{ratio:>12}");
    rows.push(("together", [&element, &best].map(in_changes), ratio));
    writeln!(
        out,
        "\n  {DIM}* When an IPv6 route is deleted that is in use, the kernel has an instant without one. So the same\n    \
         was done without the element, in turns: append, delete, and make sockets look again.{DIM:#}\n"
    )?;
    writeln!(
        out,
        "  {BOLD}{:<28}{:>28}{:>28}{:>12}{BOLD:#}",
        "IPv6, by others", "policyroute", "the kernel's best", "ratio"
    )?;
    for (name, [element, best], ratio) in rows {
        writeln!(out, "  {name:<28}{element:>28}{best:>28}{ratio}")?;
    }
    Ok(())
}

fn in_changes(slice: &Slice) -> String {
    let (leaked, changes) = (thousands(slice.leaked()), thousands(slice.changes));
    format!("{leaked} in {changes} changes")
}

fn sum<'a>(slices: impl Iterator<Item = &'a Slice>) -> Slice {
    slices.fold(Slice::default(), |mut sum, slice| {
        sum += slice.clone();
        sum
    })
}

fn faults(out: &mut impl Write, figures: &Figures) -> io::Result<()> {
    let mut lines = Vec::new();
    for cell in &figures.cells {
        let blind = cell.is_blind().then(|| "no leak is seen".to_owned());
        let faults = cell.faults().into_iter().chain(blind);
        lines.extend(faults.map(|fault| format!("{}, {}: {fault}", cell.flow, cell.stream)));
    }
    if !lines.is_empty() {
        writeln!(out)?;
    }
    for line in lines {
        writeln!(out, "  {BAD}{line}{BAD:#}")?;
    }
    Ok(())
}

fn verdict(out: &mut impl Write, figures: &Figures) -> io::Result<()> {
    let cells = &figures.cells;
    let of = |is_control| {
        let cells = cells.iter();
        let cells = cells.filter(|cell| (cell.flow == Name::Control) == is_control);
        sum(cells.map(|cell| &cell.element))
    };
    let wrong = cells
        .iter()
        .filter(|cell| !cell.faults().is_empty())
        .count() as u64;
    let (style, word, sentence) = match figures.verdict() {
        Verdict::Well => {
            let (flows, control) = (of(false), of(true));
            let share = 100 * control.leaked() / (control.own + control.leaked()).max(1);
            let own = thousands(flows.own);
            let sentence =
                format!("{own} packets kept their way; of the control's {share} in 100 did not");
            (GOOD, "OK", sentence)
        }
        Verdict::NotWell => {
            let wrong = count(
                wrong,
                "measurement is not as it should be",
                "measurements are not as they should be",
            );
            (BAD, "NOT OK", wrong)
        }
        Verdict::Void => (
            BAD,
            "VOID",
            "the meter does not see what must leak".to_owned(),
        ),
    };
    let badge = style.bold().invert();
    writeln!(
        out,
        "\n  {badge} {word} {badge:#} {style}{sentence}{style:#}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::tests::cell;
    use crate::stream::Stream;

    /// As large as a minute of each can be.
    fn figures() -> Figures {
        let mut figures = Figures::default();
        for flow in Name::ALL {
            for stream in Stream::ALL {
                let mut cell = cell(flow, stream, 0);
                let large = |slice: &mut Slice| {
                    (slice.changes, slice.sent, slice.own) = (900_000, 99_000_000, 99_000_000);
                };
                large(&mut cell.element);
                cell.kernels_best.as_mut().map(large);
                if flow == Name::Control {
                    cell.element
                        .leaked
                        .insert(crate::world::Link::Eth0, 9_000_000);
                }
                figures.cells.push(cell);
            }
        }
        figures
    }

    fn printed(figures: &Figures) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        print(&mut out, figures, Duration::from_secs(60)).unwrap();
        String::from_utf8(out.into_inner()).unwrap()
    }

    #[test]
    fn the_report_has_a_hundred_columns_at_most() {
        let report = printed(&figures());

        let wide: Vec<&str> = report
            .lines()
            .filter(|line| line.chars().count() > 100)
            .collect();
        assert_eq!(wide, [""; 0]);
        assert!(report.contains(" OK "), "{report}");
    }

    #[test]
    fn the_verdict_says_what_is_wrong_and_where() {
        let mut figures = figures();
        figures.cells[7].element.errors = 2;
        figures.cells[7].error = Some("unreachable".to_owned());

        let report = printed(&figures);

        let fault = "refresh, IPv4 connected UDP: 2 sends failed, the first with: unreachable";
        assert!(report.contains(fault), "{report}");
        assert!(
            report.contains("NOT OK  1 measurement is not as it should be"),
            "{report}"
        );
    }
}
