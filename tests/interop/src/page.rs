//! The page docs/compared-with-go.md: what was measured goes between two marks of it.

use std::error::Error;
use std::fs::File;
use std::io::{self, Seek, Write};

type Failure = Box<dyn Error + Send + Sync>;

/// Where it is.
const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/compared-with-go.md"
);

/// The lines around what a part writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks(pub(crate) &'static str, pub(crate) &'static str);

/// A part of the page.
#[derive(Debug)]
pub(crate) struct Page {
    file: File,
    marks: Marks,
}

impl Page {
    /// Opens it. It belongs to the user who asks, so that this comes before the sandbox is entered.
    pub(crate) fn open(marks: Marks) -> Result<Self, Failure> {
        let file = File::options().read(true).write(true).open(PATH);
        let file = file.map_err(|error| format!("cannot open {PATH}: {error}"))?;
        Ok(Self { file, marks })
    }

    /// Puts something else between the marks. All the rest is as it is by then.
    pub(crate) fn rewrite(
        mut self,
        change: impl FnOnce(&str) -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        let text = io::read_to_string(&mut self.file)
            .map_err(|error| format!("cannot read {PATH}: {error}"))?;
        let (before, between, after) = self.marks.split(&text)?;
        let Marks(begin, end) = self.marks;
        let text = format!("{before}{begin}{}{end}{after}", change(between)?);
        self.put(&text)
            .map_err(|error| format!("cannot write {PATH}: {error}").into())
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(text.as_bytes())
    }
}

impl Marks {
    /// What stands before them, between them and behind them.
    pub(crate) fn split(self, text: &str) -> Result<(&str, &str, &str), Failure> {
        let Self(begin, end) = self;
        let parts = text.split_once(begin).and_then(|(before, rest)| {
            let (between, after) = rest.split_once(end)?;
            Some((before, between, after))
        });
        parts.ok_or_else(|| format!("{PATH} has no {begin} and {end}").into())
    }
}

#[cfg(test)]
pub(crate) fn text() -> String {
    std::fs::read_to_string(PATH).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_taken() {
        let marks = Marks("<begin>", "<end>");

        let parts = marks.split("# Page\n<begin>\nold\n<end>\nrest\n").unwrap();

        assert_eq!(parts, ("# Page\n", "\nold\n", "\nrest\n"));
        marks.split("# Page\n<end><begin>").unwrap_err();
    }
}
