//! The tables of docs/compared-with-go.md: what was measured goes into their rows.

use super::{Error, Outcome};
use crate::page::Marks;
use crate::programs;
use std::collections::BTreeMap;

/// What stands around the tables.
pub(super) const MARKS: Marks = Marks("<!-- measured: begin -->", "<!-- measured: end -->");
/// A row has these cells: its id, the situation, how its statement is known, what the Go element
/// does, what it left, what happens here, and what shows that.
const CELLS: usize = 7;
const HOW: usize = 2;
const LEFT: usize = 4;
/// The word of a row that has been measured.
const MEASURED: &str = "measured";

/// The line that tells with what it was measured.
const WITH: &str = "Measured with ";

/// A row of one of the tables.
struct Row {
    id: u8,
    cells: Vec<String>,
}

/// The tables with what was measured in its rows.
pub(super) fn rewritten(tables: &str, outcomes: &[Outcome]) -> Result<String, Error> {
    let mut left: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    for outcome in outcomes {
        for row in outcome.rows {
            let told = format!("`{}`: {}.", outcome.situation, outcome.go);
            left.entry(*row).or_default().push(told);
        }
    }
    let module = programs::version("github.com/networkservicemesh/sdk-kernel")?;
    let with = format!("`sdk-kernel` {module}, Linux {}.", programs::kernel()?);
    with_cells(tables, &with, &left)
}

fn with_cells(tables: &str, with: &str, left: &BTreeMap<u8, Vec<String>>) -> Result<String, Error> {
    let mut text = String::new();
    for line in tables.split_inclusive('\n') {
        match Row::read(line)? {
            None if line.starts_with(WITH) => text.push_str(&format!("{WITH}{with}\n")),
            None => text.push_str(line),
            Some(mut row) => {
                if let Some(told) = left.get(&row.id) {
                    MEASURED.clone_into(&mut row.cells[HOW]);
                    row.cells[LEFT] = told.join(" ");
                }
                text.push_str(&format!("| {} |\n", row.cells.join(" | ")));
            }
        }
    }
    Ok(text)
}

impl Row {
    /// Lines that are no row of a situation are none.
    fn read(line: &str) -> Result<Option<Self>, Error> {
        let line = line.trim_end();
        let Some(inner) = line.strip_prefix("| G-") else {
            return Ok(None);
        };
        let inner = inner
            .strip_suffix(" |")
            .ok_or_else(|| format!("no end of a row: {line}"))?;
        let mut cells: Vec<String> = inner.split(" | ").map(str::to_owned).collect();
        if cells.len() != CELLS {
            return Err(format!("a row of {} cells and not {CELLS}: {line}", cells.len()).into());
        }
        let id = cells[0].parse()?;
        cells[0] = format!("G-{id}");
        Ok(Some(Self { id, cells }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::situations;
    use super::*;
    use crate::page;

    fn rows() -> Vec<Row> {
        let page = page::text();
        let (_, tables, _) = MARKS.split(&page).unwrap();
        let rows = tables.lines().map(|line| Row::read(line).unwrap());
        rows.flatten().collect()
    }

    #[test]
    fn the_page_has_every_row_once_and_in_order() {
        let ids: Vec<u8> = rows().iter().map(|row| row.id).collect();

        assert_eq!(ids, (1..=46).collect::<Vec<u8>>());
    }

    #[test]
    fn the_page_tells_once_with_what_it_was_measured() {
        let page = page::text();
        let (_, tables, _) = MARKS.split(&page).unwrap();
        let lines = tables.lines().filter(|line| line.starts_with(WITH));

        assert_eq!(lines.count(), 1);
    }

    #[test]
    fn each_row_says_how_it_is_known_and_names_the_situations_that_show_it() {
        for row in rows() {
            let about = situations::all().filter(|situation| situation.rows.contains(&row.id));
            let names: Vec<String> = about.map(|s| format!("`{}`: ", s.name)).collect();
            let (how, left) = (&row.cells[HOW], &row.cells[LEFT]);
            if names.is_empty() {
                assert_eq!(how, "read", "G-{}", row.id);
                assert_eq!(left, "-", "G-{}", row.id);
            } else {
                assert_eq!(how, MEASURED, "G-{}", row.id);
                for name in &names {
                    assert!(left.contains(name), "G-{} without {name}: {left}", row.id);
                }
                let named = left.matches("`: ").count();
                assert_eq!(named, names.len(), "G-{}: {left}", row.id);
            }
        }
    }

    #[test]
    fn what_is_written_changes_the_cells_of_what_was_measured_alone() {
        let first = "| | S |\n| G-1 | a | read | b | - | c | d |\n";
        let rest = "| G-2 | a | read | b | - | c | d |\n\ntail\n";
        let tables = format!("Measured with old.\n\n{first}{rest}");

        let left = BTreeMap::from([(2, vec!["`x`: 1.".to_owned()])]);
        let text = with_cells(&tables, "new.", &left).unwrap();

        let rest = "| G-2 | a | measured | b | `x`: 1. | c | d |\n\ntail\n";
        assert_eq!(text, format!("Measured with new.\n\n{first}{rest}"));
    }
}
