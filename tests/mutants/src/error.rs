use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a mutant, or all of them, could not be run.
#[derive(Debug, Error)]
pub enum Error {
    #[error("no mutant has such a name: see --list")]
    NoSuchMutant,
    #[error("{}: {what}", .patch.display())]
    Header { patch: PathBuf, what: &'static str },
    #[error("{name} no longer applies: {reason}")]
    Apply { name: String, reason: String },
    #[error("cargo test {command} does not compile:\n{reason}")]
    Compile { command: String, reason: String },
    #[error("the clean tree fails: {by}")]
    NotClean { by: String },
    #[error("{program}: {source}")]
    Program {
        program: &'static str,
        source: io::Error,
    },
    #[error("git does not list the sources: {0}")]
    Sources(String),
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
}

impl Error {
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::File { path, source }
    }

    pub fn program(program: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Program { program, source }
    }
}
