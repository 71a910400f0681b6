//! The programs that are run, built first: those in Go, and the driver of ours.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use thiserror::Error;

/// Why there is no program.
#[derive(Debug, Error)]
pub(crate) enum BuildError {
    #[error("cannot run `go`: install Go 1.24 or later, or set GO to where it is")]
    NoGo(#[source] io::Error),
    #[error("cannot run `cargo`")]
    NoCargo(#[source] io::Error),
    #[error("`{what}` ended with {status}: what it says stands above")]
    Failed {
        what: &'static str,
        status: ExitStatus,
    },
}

/// Builds all that are in Go, and tells in which folder they are. The first time takes minutes.
pub(crate) fn go() -> Result<PathBuf, BuildError> {
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
    succeeded("go build", status).map(|()| programs)
}

/// How ours is built.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Profile {
    /// With all checks.
    Debug,
    /// As it would be shipped.
    Release,
}

/// Builds the driver of ours, and tells where it is.
pub(crate) fn ours(profile: Profile) -> Result<PathBuf, BuildError> {
    let (name, folder) = match profile {
        Profile::Debug => ("dev", "debug"),
        Profile::Release => ("release", "release"),
    };
    let target = target();
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    build
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "-q", "-p", "drive", "--profile", name])
        .arg("--target-dir")
        .arg(&target);
    let status = build.status().map_err(BuildError::NoCargo)?;
    succeeded("cargo build", status).map(|()| target.join(folder).join("drive"))
}

/// The version of a Go module that is built in.
pub(crate) fn version(module: &str) -> Result<&'static str, String> {
    let lines = include_str!("../go.mod").lines();
    let mut words = lines.map(|line| line.trim().trim_start_matches("require ").split(' '));
    let found = words.find_map(|mut words| match words.next() == Some(module) {
        true => words.next(),
        false => None,
    });
    found.ok_or_else(|| format!("go.mod does not require {module}"))
}

/// The release of the kernel that all of it runs on, without what a distributor adds.
pub(crate) fn kernel() -> io::Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let number = release.trim().split('-').next();
    Ok(number.unwrap_or_default().to_owned())
}

fn succeeded(what: &'static str, status: ExitStatus) -> Result<(), BuildError> {
    match status.success() {
        true => Ok(()),
        false => Err(BuildError::Failed { what, status }),
    }
}

/// Where cargo builds.
fn target() -> PathBuf {
    // target/PROFILE/interop
    let program = env::current_exe().unwrap_or_default();
    let target = program.parent().and_then(Path::parent);
    target.unwrap_or(Path::new("target")).to_path_buf()
}
