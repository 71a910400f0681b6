//! What a process holds of the machine.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// `O_CLOEXEC`, as `/proc/PID/fdinfo` has it: octal (proc_pid_fdinfo(5)).
const CLOSE_ON_EXEC: u32 = 0o2000000;

/// An open descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    pub number: u32,
    /// What it refers to, such as `net:[4026532281]` or `socket:[1234]`.
    pub target: PathBuf,
    /// Whether it ends when the process executes another program.
    pub close_on_exec: bool,
}

/// The open descriptors of a process. One that is closed meanwhile is left out.
pub fn descriptors(pid: u32) -> Vec<Descriptor> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut descriptors = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        let number = path.file_name().unwrap().to_string_lossy().into_owned();
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}"));
        let (Ok(target), Ok(info)) = (fs::read_link(&path), info) else {
            continue;
        };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = u32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
        descriptors.push(Descriptor {
            number: number.parse().unwrap(),
            target,
            close_on_exec: flags & CLOSE_ON_EXEC != 0,
        });
    }
    descriptors.sort_by_key(|it| it.number);
    descriptors
}

/// The number that the next descriptor gets.
pub fn lowest_free(open: &[Descriptor]) -> u32 {
    let is_open = |number: &u32| open.iter().any(|it| it.number == *number);
    (0..).find(|number| !is_open(number)).unwrap()
}

/// The time that a process has worked: fields 14 and 15, in hundredths of a second
/// (proc_pid_stat(5), `USER_HZ`).
pub fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // What follows the name, which may have blanks in it, begins with field 3.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(|it| it.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

/// The resident memory of a process, in KiB.
pub fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let number = line.and_then(|it| it.trim().strip_suffix(" kB"));
    number.unwrap().parse().unwrap()
}
