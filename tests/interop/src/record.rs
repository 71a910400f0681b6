//! Records anew what the Go implementation writes, and compares it with what is kept.

use clap::Args;
use interop::golden::{Golden, differences, folder};
use nix::unistd::mkdtemp;
use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Records what the Go implementation writes to its sockets, and compares it with what is kept.
///
/// It takes some seconds, and needs no privilege.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Keep what is recorded now, in golden/
    #[arg(long)]
    write: bool,
}

/// Whether Go still writes what is kept.
pub(crate) fn run(
    arguments: &Arguments,
    programs: &Path,
) -> Result<bool, Box<dyn Error + Send + Sync>> {
    let fresh = Fresh::new()?;
    let recorded = Command::new(programs.join("golden"))
        .arg(&fresh.0)
        .status()?;
    if !recorded.success() {
        return Err(format!("the Go program `golden` ended with {recorded}").into());
    }
    // Here is seen whether ours takes all that Go has written.
    let now = Golden::load(&fresh.0)?;
    let mut messages = 0;
    for entry in now.calls.iter().flat_map(|call| &call.messages) {
        now.message(entry)?;
        messages += 1;
    }
    let mut out = io::stdout();
    if arguments.write {
        keep(&now, &fresh.0)?;
        writeln!(
            out,
            "{messages} messages are kept in {}",
            folder().display()
        )?;
        return Ok(true);
    }
    let kept = Golden::load(&folder())?;
    if kept.made_by != now.made_by {
        writeln!(out, "kept: {:?}\nnow: {:?}", kept.made_by, now.made_by)?;
    }
    let found = differences(&kept, &now)?;
    for difference in &found {
        writeln!(out, "{difference}")?;
    }
    let count = found.len();
    writeln!(out, "{messages} messages, {count} differences")?;
    Ok(found.is_empty())
}

/// Puts the files of a recording in the place of those that are kept.
fn keep(now: &Golden, from: &Path) -> io::Result<()> {
    let to = folder();
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    let messages = now.calls.iter().flat_map(|call| &call.messages);
    let messages = messages.flat_map(|it| [&it.file, &it.sorted]);
    let connections = now.connections.iter();
    let sides = connections.flat_map(|it| [&it.client.file, &it.server.file]);
    let index = PathBuf::from("index.json");
    for file in messages.chain(sides).chain([&index]) {
        let kept = to.join(file);
        if let Some(folder) = kept.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(from.join(file), kept)?;
    }
    Ok(())
}

/// A folder for a recording, which goes with the value.
struct Fresh(PathBuf);

impl Fresh {
    fn new() -> io::Result<Self> {
        let template = env::temp_dir().join("nsm-golden-XXXXXX");
        Ok(Self(mkdtemp(&template)?))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
