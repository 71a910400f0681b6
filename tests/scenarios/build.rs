//! Embeds the scenario files: a binary that is copied elsewhere, or run by a user who cannot read
//! this folder, has them all the same.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let mut code = String::new();
    for (name, folder, docs) in [
        (
            "FILES",
            "files",
            "The scenario files of the project: name and text.",
        ),
        (
            "FAILING",
            "failing",
            "Scenario files that must fail: name and text.",
        ),
    ] {
        let _ = writeln!(code, "/// {docs}\npub static {name}: &[(&str, &str)] = &[");
        let mut files = Vec::new();
        find(Path::new(folder), &mut files)?;
        files.sort();
        for file in files {
            let _ = writeln!(
                code,
                "({file:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {:?}))),",
                format!("/{file}")
            );
        }
        let _ = writeln!(code, "];");
    }
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("embedded.rs"), code)
}

/// The scenario files in a folder and in the folders within.
fn find(folder: &Path, files: &mut Vec<String>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            files.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(())
}
