//! A wall clock of their own for programs, which a case sets while they run.

use crate::Mesh;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Adds an offset to the wall clock of whatever is started with it (`LD_PRELOAD`, ld.so(8)). The
/// offset is the number of seconds in a file that is mapped, so that all see a step at once. No
/// other clock is touched.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

__attribute__((constructor)) static void begin(void)
{
    int fd = open(getenv("E2E_CLOCK"), O_RDONLY | O_CLOEXEC);
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
    if (fd < 0 || mapped == MAP_FAILED)
        abort();
    close(fd);
    offset = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *offset;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where)
        *where = now.tv_sec;
    return now.tv_sec;
}
"#;

/// A wall clock, which is right until it is set.
#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    path: PathBuf,
    offset: File,
}

impl Clock {
    /// Makes one, with the compiler that links everything else here.
    pub fn new(mesh: &Mesh) -> Self {
        let (source, library) = (mesh.file("clock.c"), mesh.file("clock.so"));
        let path = mesh.file("clock");
        fs::write(&source, SHIM).unwrap();
        compile(&source, &library);
        let offset = File::create(&path).unwrap();
        let clock = Self {
            library,
            path,
            offset,
        };
        clock.set_off(0);
        clock
    }

    /// Sets it ahead by that many seconds of what is right, or back.
    pub fn set_off(&self, seconds: i64) {
        self.offset.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    /// What a program is started with to go by it.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        vec![
            ("LD_PRELOAD".to_owned(), self.library.clone().into()),
            ("E2E_CLOCK".to_owned(), self.path.clone().into()),
        ]
    }
}

fn compile(source: &Path, library: &Path) {
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([library, source])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
}

/// By how many seconds the stamp of a program's last line in its log is off, to the whole minute.
pub fn last_stamp_is_off(log: &str) -> Option<i64> {
    let stamp = log.lines().last()?.split_whitespace().next()?;
    let stamp: prost_types::Timestamp = stamp.parse().ok()?;
    let now = prost_types::Timestamp::from(std::time::SystemTime::now());
    let minute = Duration::from_secs(60).as_secs_f64();
    let off = (stamp.seconds - now.seconds) as f64 / minute;
    Some((off.round() * minute) as i64)
}
