//! The command: what it prints, and its exit status.

#![allow(clippy::unwrap_used)] // What the tests share is no test, and panics like one.

use std::path::PathBuf;
use std::process::{Command, Output};

const HOLDS: &str = "name: it holds\nlinks: [nsm-0]\nsteps:\n  - expect: { rules: 0 }\n";
const FAILS: &str = "name: it does not\nlinks: [nsm-0]\nsteps:\n  - expect: { rules: 1 }\n";
const UNREADABLE: &str = "name: nobody knows\nsteps:\n  - expct: { rules: 1 }\n";

/// A folder of scenario files that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str, files: &[(&str, &str)]) -> Self {
        let name = format!("scenarios-{}-{test}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        for (file, text) in files {
            let path = folder.0.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let text = |bytes: &[u8]| {
            let folder = format!("{}/", self.0.display());
            String::from_utf8_lossy(bytes).replace(&folder, "")
        };
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(env!("CARGO_BIN_EXE_scenarios"))
            .args(["--kernel", "fake"])
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .unwrap();
        (status.code().unwrap(), text(&stdout), text(&stderr))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn all_files_of_a_folder_are_run_and_0_says_that_they_held() {
    let folder = Folder::new(
        "hold",
        &[("b.yaml", HOLDS), ("a/c.yaml", HOLDS), ("notes.txt", "")],
    );
    let (status, stdout, stderr) = folder.run(&[folder.path()]);
    assert_eq!((status, stderr.as_str()), (0, ""));
    let files: Vec<&str> = stdout
        .lines()
        .map(|line| line.split_whitespace().nth(1).unwrap())
        .collect();
    assert_eq!(files, ["a/c.yaml", "b.yaml"]);
    assert!(
        stdout
            .lines()
            .all(|line| line.starts_with("ok   ") && line.ends_with("it holds"))
    );
}

#[test]
fn status_1_says_that_some_did_not_hold_and_the_others_are_run_all_the_same() {
    let folder = Folder::new("fail", &[("a.yaml", FAILS), ("b.yaml", HOLDS)]);
    let (status, stdout, _) = folder.run(&["a.yaml", "b.yaml"]);
    assert_eq!(status, 1);
    assert!(
        stdout.contains("step 1 (a.yaml:4):\n      expect: { rules: 1 }"),
        "{stdout}"
    );
    assert!(
        stdout.contains("1 rules of ours expected, 0 found"),
        "{stdout}"
    );
    assert!(stdout.contains("ok   b.yaml"), "{stdout}");
    assert!(!stdout.contains('\x1b'), "a pipe gets no colours");
}

#[test]
fn status_2_says_that_a_file_could_not_be_read_and_one_line_says_why() {
    let folder = Folder::new("unreadable", &[("a.yaml", UNREADABLE), ("b.yaml", FAILS)]);
    let (status, stdout, stderr) = folder.run(&[folder.path(), "missing.yaml"]);
    assert_eq!(status, 2);
    assert!(stdout.contains("FAIL b.yaml"), "{stdout}");
    let [unknown, missing] = stderr.lines().collect::<Vec<_>>()[..] else {
        panic!("{stderr}");
    };
    assert!(
        unknown.starts_with("a.yaml:3:5: unknown field `expct`"),
        "{unknown}"
    );
    assert_eq!(
        missing,
        "missing.yaml: No such file or directory (os error 2)"
    );
}

#[test]
fn a_folder_without_scenarios_is_no_success() {
    let folder = Folder::new("empty", &[("notes.txt", "")]);
    assert_eq!(folder.run(&[folder.path()]).0, 2);
}

#[test]
fn list_says_what_files_show_and_runs_none() {
    let folder = Folder::new("list", &[("a.yaml", FAILS)]);
    let (status, stdout, _) = folder.run(&["--list", "a.yaml"]);
    assert_eq!((status, stdout.as_str()), (0, "a.yaml: it does not\n"));
}

#[test]
fn json_is_one_object_per_file() {
    let files = [("a.yaml", FAILS), ("b.yaml", HOLDS), ("c.yaml", UNREADABLE)];
    let folder = Folder::new("json", &files);
    let (status, stdout, stderr) = folder.run(&["--json", folder.path()]);
    assert_eq!((status, stderr.as_str()), (2, ""));
    let objects: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects[0]["held"], false);
    assert_eq!(objects[0]["failure"]["step"], "step 1");
    assert_eq!(objects[1]["held"], true);
    assert_eq!(
        (&objects[2]["line"], &objects[2]["column"]),
        (&3.into(), &5.into())
    );
}

#[test]
fn without_arguments_the_built_in_files_are_listed() {
    let folder = Folder::new("built-in", &[("x.yaml", HOLDS)]);
    let (status, stdout, _) = folder.run(&["--list"]);
    assert_eq!(status, 0);
    assert!(
        stdout.contains("files/forwarder-restart.yaml: "),
        "{stdout}"
    );
}
