//! A mutant: a unified diff with a header that says what it breaks.

use super::error::Error;
use super::test_command::TestCommand;
use std::fs;
use std::path::{Path, PathBuf};

/// One named breakage.
#[derive(Debug)]
pub struct Patch {
    /// The name of its file.
    pub name: String,
    /// What it breaks.
    pub breaks: String,
    /// The line of the contract that no longer holds.
    pub promise: String,
    /// The commands that notice it; without any it is one of the element, which its suites notice.
    pub tests: Vec<TestCommand>,
    /// The files that it changes.
    pub files: Vec<PathBuf>,
    /// Header and diff.
    pub text: String,
}

/// All patches of a folder, by name.
pub fn all(folder: &Path) -> Result<Vec<Patch>, Error> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::file(folder))? {
        let path = entry.map_err(Error::file(folder))?.path();
        if path.extension().is_some_and(|ext| ext == "patch") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| Patch::read(path)).collect()
}

impl Patch {
    fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(Error::file(path))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(name.into_owned(), text).map_err(|what| Error::Header {
            patch: path.to_owned(),
            what,
        })
    }

    fn parse(name: String, text: String) -> Result<Self, &'static str> {
        let (header, diff) = text.split_once("--- a/").ok_or("there is no diff")?;
        // A line that begins with a blank goes on with the one before.
        let header = header.replace("\n ", " ");
        let field = |key: &str| {
            let values = header.lines().filter_map(|line| line.split_once(": "));
            let words = |value: &str| value.split_whitespace().collect::<Vec<_>>().join(" ");
            values
                .filter(|(k, _)| *k == key)
                .map(|(_, v)| words(v))
                .next()
        };
        let tests = field("tests").unwrap_or_default();
        let tests = tests.split(';').map(str::trim).filter(|it| !it.is_empty());
        let files = diff.lines().filter_map(|line| line.strip_prefix("+++ b/"));
        Ok(Self {
            breaks: field("breaks").ok_or("the header has no line `breaks: `")?,
            promise: field("promise").ok_or("the header has no line `promise: `")?,
            tests: tests.map(TestCommand::new).collect(),
            files: files.map(PathBuf::from).collect(),
            name,
            text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/src/x.rs\n+++ b/src/x.rs\n@@ -1 +1 @@\n-a: 1\n+b: 2\n";

    #[test]
    fn a_header_says_what_breaks_over_several_lines() {
        let text = format!("breaks: one\n  two\npromise: three\ntests: -p a; -p b --lib\n{DIFF}");

        let patch = Patch::parse("x".to_owned(), text).unwrap();

        assert_eq!((&*patch.breaks, &*patch.promise), ("one two", "three"));
        let tests = ["-p a", "-p b --lib"].map(TestCommand::new);
        assert_eq!(patch.tests, tests);
        assert_eq!(patch.files, [PathBuf::from("src/x.rs")]);
    }

    #[test]
    fn a_header_that_says_nothing_is_refused() {
        for text in [DIFF, "breaks: one\npromise: two\n", "breaks: one\n"] {
            assert!(Patch::parse("x".to_owned(), text.to_owned()).is_err());
        }
        assert!(Patch::parse("x".to_owned(), format!("breaks: one\n{DIFF}")).is_err());
    }

    #[test]
    fn every_mutant_of_the_project_can_be_read() {
        let all = all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("patches")).unwrap();

        assert!(all.len() >= 28);
        assert!(all.iter().all(|patch| !patch.files.is_empty()));
    }

    /// Who changes the element learns here, and not at the next run of all mutants, that one no
    /// longer applies.
    #[test]
    fn every_mutant_of_the_project_fits_the_sources() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.ancestors().nth(2).unwrap();

        for patch in all(&package.join("patches")).unwrap() {
            for part in patch.text.split("--- a/").skip(1) {
                let file = part.lines().next().unwrap();
                let source = fs::read_to_string(root.join(file)).unwrap();
                for hunk in part.split("\n@@ ").skip(1) {
                    let old = |line: &&str| !line.starts_with('+') && !line.is_empty();
                    let old: Vec<&str> = hunk.lines().skip(1).filter(old).collect();
                    let old: String = old.iter().map(|line| format!("{}\n", &line[1..])).collect();
                    assert!(source.contains(&old), "{} in {file}:\n{old}", patch.name);
                }
            }
        }
    }
}
