//! A copy of the sources that may be broken, and built beside the real ones.

use super::error::Error;
use super::patch::Patch;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The copy. Its builds are kept, so that each mutant costs what it changes and no more.
#[derive(Debug)]
pub struct Scratch {
    original: PathBuf,
    /// The copied sources.
    pub source: PathBuf,
    /// What cargo builds from them.
    pub target: PathBuf,
}

impl Scratch {
    /// Copies what git knows or would know. A file that is the same already keeps its time, which
    /// is what cargo goes by.
    pub fn copy(original: &Path, scratch: &Path) -> Result<Self, Error> {
        fs::create_dir_all(scratch).map_err(Error::file(scratch))?;
        let scratch = scratch.canonicalize().map_err(Error::file(scratch))?;
        let this = Self {
            original: original.to_owned(),
            source: scratch.join("source"),
            target: scratch.join("target"),
        };
        let files = this.listed()?;
        for file in &files {
            this.renew(file)?;
        }
        if this.source.is_dir() {
            remove_others(&this.source, Path::new(""), &files)?;
        }
        Ok(this)
    }

    fn listed(&self) -> Result<BTreeSet<PathBuf>, Error> {
        let output = Command::new("git")
            .args(["ls-files", "-coz", "--exclude-standard"])
            .current_dir(&self.original)
            .output()
            .map_err(Error::program("git"))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(Error::Sources(reason.into_owned()));
        }
        let files = String::from_utf8_lossy(&output.stdout);
        let files = files.split_terminator('\0').map(PathBuf::from);
        Ok(files
            .filter(|file| self.original.join(file).is_file())
            .collect())
    }

    /// Makes a file of the copy what it is in the original.
    fn renew(&self, file: &Path) -> Result<(), Error> {
        let (from, to) = (self.original.join(file), self.source.join(file));
        let content = fs::read(&from).map_err(Error::file(&from))?;
        if fs::read(&to).is_ok_and(|former| former == content) {
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(Error::file(folder))?;
        }
        fs::write(&to, content).map_err(Error::file(&to))?;
        let permissions = fs::metadata(&from)
            .map_err(Error::file(&from))?
            .permissions();
        fs::set_permissions(&to, permissions).map_err(Error::file(&to))
    }

    /// Whether a patch would apply.
    pub fn check(&self, patch: &Patch) -> Result<(), Error> {
        self.patch(patch, &["--dry-run"])
    }

    /// Breaks the copy. What is given back mends it again: the original may have gone on meanwhile.
    pub fn apply(&self, patch: &Patch) -> Result<Former, Error> {
        let mut former = Former(Vec::new());
        for file in &patch.files {
            let path = self.source.join(file);
            let content = fs::read(&path).map_err(Error::file(&path))?;
            former.0.push((path, content));
        }
        self.patch(patch, &[])?;
        Ok(former)
    }

    fn patch(&self, patch: &Patch, more: &[&str]) -> Result<(), Error> {
        let mut child = Command::new("patch")
            .args([
                "-p1",
                "--batch",
                "--forward",
                // More of the context may not differ: it would be another place.
                "-F1",
                "--no-backup-if-mismatch",
                "-r-",
            ])
            .args(more)
            .current_dir(&self.source)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Error::program("patch"))?;
        if let Some(mut stdin) = child.stdin.take() {
            let written = stdin.write_all(patch.text.as_bytes());
            written.map_err(Error::program("patch"))?;
        }
        let output = child.wait_with_output().map_err(Error::program("patch"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Apply {
            name: patch.name.clone(),
            reason: String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        })
    }
}

/// What was in the files that a patch changes.
#[derive(Debug)]
pub struct Former(Vec<(PathBuf, Vec<u8>)>);

impl Former {
    /// Puts it back.
    pub fn restore(self) -> Result<(), Error> {
        let mut files = self.0.iter();
        files.try_for_each(|(path, content)| fs::write(path, content).map_err(Error::file(path)))
    }
}

/// Removes what is no source any more, and folders that are empty then: cargo takes each folder of
/// `tests` for a package.
fn remove_others(source: &Path, folder: &Path, files: &BTreeSet<PathBuf>) -> Result<(), Error> {
    let at = source.join(folder);
    for entry in fs::read_dir(&at).map_err(Error::file(&at))? {
        let name = entry.map_err(Error::file(&at))?.file_name();
        let (file, path) = (folder.join(&name), at.join(&name));
        if path.is_dir() {
            remove_others(source, &file, files)?;
            // Refused where something is left in it.
            let _ = fs::remove_dir(&path);
        } else if !files.contains(&file) && name != "Cargo.lock" {
            fs::remove_file(&path).map_err(Error::file(&path))?;
        }
    }
    Ok(())
}
