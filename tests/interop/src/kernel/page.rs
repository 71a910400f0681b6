//! The page docs/compared-with-go.md: what was measured goes into its tables.

use super::{Error, Outcome};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What stands around the tables.
const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";
/// A row has these cells: its id, the situation, how its statement is known, what the Go element
/// does, what it left, what happens here, and what shows that.
const CELLS: usize = 7;
const HOW: usize = 2;
const LEFT: usize = 4;
/// The word of a row that has been measured.
const MEASURED: &str = "measured";

/// The page as it was found.
#[derive(Debug)]
pub(super) struct Page {
    path: PathBuf,
    text: String,
}

/// A row of one of its tables.
struct Row {
    id: u8,
    cells: Vec<String>,
}

impl Page {
    pub(super) fn open() -> Result<Self, Error> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compared-with-go.md");
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(Self { path, text })
    }

    /// Writes what was measured into its rows.
    pub(super) fn write(&self, outcomes: &[Outcome]) -> Result<(), Error> {
        let mut left: BTreeMap<u8, Vec<String>> = BTreeMap::new();
        for outcome in outcomes {
            for row in outcome.rows {
                let told = format!("`{}`: {}.", outcome.situation, outcome.go);
                left.entry(*row).or_default().push(told);
            }
        }
        let text = self.rewritten(&left)?;
        fs::write(&self.path, text)
            .map_err(|error| format!("cannot write {}: {error}", self.path.display()).into())
    }

    fn rewritten(&self, left: &BTreeMap<u8, Vec<String>>) -> Result<String, Error> {
        let (before, tables, after) = self.parts()?;
        let mut text = format!("{before}{BEGIN}");
        for line in tables.split_inclusive('\n') {
            match Row::read(line)? {
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
        Ok(text + END + after)
    }

    /// What stands before the tables, they themselves, and what stands behind.
    fn parts(&self) -> Result<(&str, &str, &str), Error> {
        let parts = self.text.split_once(BEGIN).and_then(|(before, rest)| {
            let (tables, after) = rest.split_once(END)?;
            Some((before, tables, after))
        });
        parts.ok_or_else(|| format!("{} without {BEGIN} and {END}", self.path.display()).into())
    }
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

    fn rows(page: &Page) -> Vec<Row> {
        let (_, tables, _) = page.parts().unwrap();
        let rows = tables.lines().map(|line| Row::read(line).unwrap());
        rows.flatten().collect()
    }

    #[test]
    fn the_page_has_every_row_once_and_in_order() {
        let page = Page::open().unwrap();

        let ids: Vec<u8> = rows(&page).iter().map(|row| row.id).collect();

        assert_eq!(ids, (1..=46).collect::<Vec<u8>>());
    }

    #[test]
    fn each_row_says_how_it_is_known_and_names_the_situations_that_show_it() {
        for row in rows(&Page::open().unwrap()) {
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
        let page = Page {
            path: PathBuf::new(),
            text: format!(
                "head\n{BEGIN}\n| | S |\n| G-1 | a | read | b | - | c | d |\n| G-2 | a | read | b | - | c | d |\n{END}\ntail"
            ),
        };

        let text = page.rewritten(&BTreeMap::from([(2, vec!["`x`: 1.".to_owned()])]));

        assert_eq!(
            text.unwrap(),
            format!(
                "head\n{BEGIN}\n| | S |\n| G-1 | a | read | b | - | c | d |\n| G-2 | a | measured | b | `x`: 1. | c | d |\n{END}\ntail"
            )
        );
    }
}
