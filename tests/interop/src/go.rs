//! The Go programs: `tests/interop/go`.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use thiserror::Error;

/// Why there are no Go programs.
#[derive(Debug, Error)]
pub(crate) enum BuildError {
    #[error("cannot run `go`: install Go 1.24 or later, or set GO to where it is")]
    NoGo(#[source] io::Error),
    #[error("`go build` ended with {0}: what it says stands above")]
    Failed(ExitStatus),
}

/// Builds all of them, and tells in which folder they are. The first time takes minutes.
pub(crate) fn build() -> Result<PathBuf, BuildError> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs = target().join("interop");
    let mut build = Command::new(env::var_os("GO").unwrap_or_else(|| OsString::from("go")));
    build
        .current_dir(module)
        .args(["build", "-trimpath", "-o"])
        // With the separator it is a folder, also before it is there.
        .arg(programs.join(""))
        .arg("./go/...");
    let status = build.status().map_err(BuildError::NoGo)?;
    match status.success() {
        true => Ok(programs),
        false => Err(BuildError::Failed(status)),
    }
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    // target/PROFILE/interop
    let program = env::current_exe().unwrap_or_default();
    let target = program.parent().and_then(Path::parent);
    target.unwrap_or(Path::new("target")).to_path_buf()
}
