//! The table of the page.

use super::Error;
use super::row::{Row, Unit, median};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Seek, Write as _};
use std::thread::available_parallelism;

/// Between these lines stands what the command writes.
const MARKS: [&str; 2] = ["<!-- interop time: begin -->", "<!-- interop time: end -->"];

/// The rows as Markdown, and the machine that they are from.
pub(crate) fn of(rows: &[Row]) -> Result<String, Error> {
    let mut table = String::from(
        "| What | Go | Here | Here / Go | Right afterwards |\n| --- | --- | --- | --- | --- |\n",
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
            "| {} | {} | {} | **{}** ({} to {}) | {} |",
            title(row)?,
            amount(median(&row.go), row.unit),
            amount(median(&row.ours), row.unit),
            digits(median(&ratios)),
            digits(least),
            digits(most),
            right.unwrap_or_default(),
        )?;
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    writeln!(
        table,
        "\nLinux {}, {} processors. Medians of all rounds; a ratio is that of one round, and in \
         brackets stand the least and the greatest.",
        release.trim(),
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
        "memory" => format!("Memory with {n} connections"),
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

/// The page that tells of it.
#[derive(Debug)]
pub(crate) struct Page {
    file: File,
    text: String,
}

impl Page {
    pub(crate) fn open() -> Result<Self, Error> {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/compared-with-go.md"
        );
        let mut file = File::options().read(true).write(true).open(path)?;
        let text = io::read_to_string(&mut file)?;
        Ok(Self { file, text })
    }

    pub(crate) fn write(mut self, table: &str) -> Result<(), Error> {
        let text = put_into(&self.text, table)?;
        self.file.rewind()?;
        self.file.set_len(0)?;
        Ok(self.file.write_all(text.as_bytes())?)
    }
}

/// The page with the table in its place.
fn put_into(page: &str, table: &str) -> Result<String, Error> {
    let [begin, end] = MARKS;
    let missing = || format!("the page has no {begin} and {end}");
    let (before, rest) = page.split_once(begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(end).ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n\n{table}\n{end}{after}"))
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

        let line = "| First request, 1 policy | 100 µs | 50 µs | **0.50** (0.10 to 0.90) |  |";
        assert!(table.contains(line), "{table}");
    }

    #[test]
    fn only_what_is_between_the_marks_is_written() {
        let page = format!("# Page\n{}\nold\n{}\nrest\n", MARKS[0], MARKS[1]);

        let once = put_into(&page, "new").unwrap();

        assert!(once.starts_with("# Page\n") && once.ends_with("\nrest\n"));
        assert!(once.contains("new") && !once.contains("old"));
        assert_eq!(put_into(&once, "new").unwrap(), once);
        put_into("# Page\n", "new").unwrap_err();
    }
}
