//! The table of the page.

use super::Error;
use super::row::{Row, Unit, median};
use crate::page::Marks;
use crate::programs;
use std::fmt::Write as _;
use std::thread::available_parallelism;

/// Between these lines stands what the command writes.
pub(super) const MARKS: Marks = Marks("<!-- interop time: begin -->", "<!-- interop time: end -->");

/// The rows as Markdown, and the machine that they are from.
pub(crate) fn of(rows: &[Row]) -> Result<String, Error> {
    let mut table = String::from(
        "| What | Rounds | Go | Here | Here / Go | Right afterwards |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let ratios = row.ratios();
        let (least, most) = match ratios.as_slice() {
            [first, .., last] => (*first, *last),
            [only] => (*only, *only),
            [] => return Err(format!("{}: nothing was measured", row.name).into()),
        };
        let right = row.right.map(|right| match right.go == right.ours {
            true => format!("{} of {}", right.ours, right.of),
            false => format!("Go {}, here {}, of {}", right.go, right.ours, right.of),
        });
        writeln!(
            table,
            "| {} | {} | {} | {} | **{}** ({} to {}) | {} |",
            title(row)?,
            row.go.len(),
            amount(median(&row.go), row.unit),
            amount(median(&row.ours), row.unit),
            digits(median(&ratios)),
            digits(least),
            digits(most),
            right.unwrap_or_default(),
        )?;
    }
    writeln!(
        table,
        "\n`sdk-kernel` {}, Linux {}, {} processors. Medians of all rounds; a ratio is that of one \
         round, and in brackets stand the least and the greatest. After a close, what is gone is right.",
        programs::version("github.com/networkservicemesh/sdk-kernel")?,
        programs::kernel()?,
        available_parallelism()?,
    )?;
    Ok(table)
}

fn title(row: &Row) -> Result<String, Error> {
    let n = row.n;
    let policies = if n == 1 { "policy" } else { "policies" };
    Ok(match row.name {
        "install" => format!("First request, {n} {policies}"),
        "refresh" => format!("Refresh that changes nothing, {n} {policies}"),
        "close" => format!("Close, {n} {policies}"),
        "first" => format!("{n} namespaces, all for the first time at once"),
        "restart" => format!("{n} namespaces return at once after a restart"),
        "memory, idle" => "Memory of the process that has just started".to_owned(),
        "memory" => format!("Memory right after {n} connections came at once"),
        name => return Err(format!("a row without title: {name}").into()),
    })
}

fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Microseconds if value < 1e3 => format!("{value:.0} µs"),
        Unit::Microseconds if value < 1e6 => format!("{} ms", digits(value / 1e3)),
        Unit::Microseconds => format!("{} s", digits(value / 1e6)),
        Unit::Kibibytes => format!("{} MiB", digits(value / 1024.0)),
    }
}

/// Two digits that say something.
fn digits(value: f64) -> String {
    let places = match value {
        value if value >= 9.95 => 0,
        value if value >= 0.995 => 1,
        value if value >= 0.0995 => 2,
        value if value >= 0.00995 => 3,
        _ => 4,
    };
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_of_an_amount_are_told() {
        assert_eq!(digits(0.0123), "0.012");
        assert_eq!(digits(0.999), "1.0");
        assert_eq!(digits(9.96), "10");
        assert_eq!(amount(999.4, Unit::Microseconds), "999 µs");
        assert_eq!(amount(1_234.0, Unit::Microseconds), "1.2 ms");
        assert_eq!(amount(12_345_678.0, Unit::Microseconds), "12 s");
        assert_eq!(amount(10_240.0, Unit::Kibibytes), "10 MiB");
    }

    #[test]
    fn a_ratio_is_that_of_a_round() {
        let mut row = Row::new("install", 1, Unit::Microseconds);
        row.go = vec![100.0, 1000.0, 10.0];
        row.ours = vec![50.0, 100.0, 9.0];

        let table = of(&[row]).unwrap();

        let line = "| First request, 1 policy | 3 | 100 µs | 50 µs | **0.50** (0.10 to 0.90) |  |";
        assert!(table.contains(line), "{table}");
    }
}
