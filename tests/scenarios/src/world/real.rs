//! Pods of the kernel that this machine runs.

use super::{Asker, Listener, Pod, PodError, Ran};
use crate::answer::Answer;
use crate::model::{Links, Lookup, table_number};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nsm_netlink::{
    DuplicateDetection, Errno, Event, KernelError, LinkState, Monitor, Namespace, Netns, Rtnl,
    VethEnd,
};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long shell commands may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often something is looked at that tells nobody when it changes.
const PACE: Duration = Duration::from_millis(1);
/// `RT_TABLE_MAIN`: the table whose name `ip` leaves out.
const MAIN: u32 = 254;

/// A network namespace, and another one for the far ends of its links.
#[derive(Debug)]
pub struct RealPod {
    netns: Arc<Netns>,
    _far: Netns,
}

impl Pod for RealPod {
    type Namespace = Netns;

    fn create(links: &Links) -> Result<Self, PodError> {
        let netns = Netns::create().map_err(|error| PodError::new("make a pod", error))?;
        let far = Netns::create().map_err(|error| PodError::new("make a pod", error))?;
        // Without detection an address works at once, also one that a step adds with `ip`. Where
        // /proc/sys cannot be written, it works a second later.
        let _ = netns.enter(|| std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0"));
        let open = |netns: &Netns| {
            netns
                .open()
                .map_err(|error| PodError::new("open it", error))
        };
        let (mut kernel, mut far_kernel) = (open(&netns)?, open(&far)?);
        for (name, addresses) in &links.0 {
            make_link(&mut kernel, &mut far_kernel, &far, name, addresses)?;
        }
        let pod = Self {
            netns: Arc::new(netns),
            _far: far,
        };
        pod.settle(links)?;
        Ok(pod)
    }

    fn namespace(&self) -> Result<Netns, PodError> {
        // A descriptor of the element's own: the pod's end is not the end of what it holds.
        Netns::from_fd(&*self.netns)
            .map_err(|error| PodError::new("hand out the pod's namespace", error))
    }

    fn run(&self, script: &str) -> Result<Ran, PodError> {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]);
        let (success, output) = run_in(&self.netns, &mut shell)
            .map_err(|error| PodError::new("run commands with sh", error))?;
        Ok(Ran {
            success,
            output: output.lines().map(str::to_owned).collect(),
        })
    }

    fn asker(&self) -> Result<Asker, PodError> {
        let netns = Arc::clone(&self.netns);
        Ok(Box::new(move |question| ask(&netns, question)))
    }

    fn listen(&self) -> Result<Box<dyn Listener>, PodError> {
        let monitor =
            Monitor::new(&self.netns).map_err(|error| PodError::new("listen in the pod", error))?;
        Ok(Box::new(RealListener(monitor)))
    }
}

struct RealListener(Monitor);

impl Listener for RealListener {
    fn heard(&mut self) -> Result<Vec<Event>, KernelError> {
        self.0.drain()
    }
}

fn make_link(
    kernel: &mut Rtnl,
    far_kernel: &mut Rtnl,
    far: &Netns,
    name: &str,
    addresses: &[ipnet::IpNet],
) -> Result<(), PodError> {
    let failed = |error| PodError::new(format!("make link {name}"), error);
    kernel
        .add_veth(&VethEnd::named(name), &VethEnd::named(name), far)
        .map_err(failed)?;
    let far_index = far_kernel.index_of(name).map_err(failed)?;
    far_kernel
        .set_link(far_index, LinkState::Up)
        .map_err(failed)?;
    let index = kernel.index_of(name).map_err(failed)?;
    kernel.set_link(index, LinkState::Up).map_err(failed)?;
    for address in addresses {
        kernel
            .add_address(index, *address, DuplicateDetection::Skip)
            .map_err(failed)?;
    }
    Ok(())
}

impl RealPod {
    /// Waits until the links carry: the kernel puts IPv6 on a link only then, on its own time.
    fn settle(&self, links: &Links) -> Result<(), PodError> {
        let deadline = Instant::now() + PATIENCE;
        for (name, _) in &links.0 {
            while !self.is_running(name)? {
                if Instant::now() > deadline {
                    return Err(PodError::new(
                        "wait for a link",
                        format!("{name} has no carrier"),
                    ));
                }
                thread::sleep(PACE);
            }
        }
        Ok(())
    }

    /// Whether a link has a link-local address, which is the last that the kernel does for it.
    fn is_running(&self, link: &str) -> Result<bool, PodError> {
        let addresses = self
            .netns
            .enter(|| std::fs::read_to_string("/proc/thread-self/net/if_inet6"))
            .and_then(|read| read)
            .map_err(|error| PodError::new("read the pod's addresses", error))?;
        let is_link_local =
            |line: &str| line.starts_with("fe80") && line.split_whitespace().last() == Some(link);
        Ok(addresses.lines().any(is_link_local))
    }
}

/// Runs a program in a namespace, and ends it when it takes too long. Gives whether it succeeded
/// and what it printed.
fn run_in(netns: &Netns, command: &mut Command) -> io::Result<(bool, String)> {
    // A file and no pipe: what the program leaves running would hold a pipe open.
    let printed = File::from(memfd_create(c"printed", MFdFlags::MFD_CLOEXEC)?);
    command
        .stdin(Stdio::null())
        .stdout(printed.try_clone()?)
        .stderr(printed.try_clone()?);
    // A child begins where the thread is that starts it.
    let child = netns.enter(|| command.spawn())??;
    let status = finish(child)?;
    let mut output = Vec::new();
    (&printed).rewind()?;
    (&printed).read_to_end(&mut output)?;
    Ok((
        status.success(),
        String::from_utf8_lossy(&output).into_owned(),
    ))
}

fn finish(mut child: Child) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other(format!(
                "it did not end within {PATIENCE:?}"
            )));
        }
        thread::sleep(PACE);
    }
}

/// What `ip -json route get` prints of a way.
#[derive(Deserialize)]
struct Way {
    dev: String,
    gateway: Option<std::net::IpAddr>,
    table: Option<String>,
}

fn ask(netns: &Netns, question: &Lookup) -> Answer {
    let mut ip = Command::new("ip");
    ip.args(["-json", "route", "get"])
        .args(question.words())
        .env("LC_ALL", "C");
    let (success, output) = match run_in(netns, &mut ip) {
        Ok(printed) => printed,
        Err(error) => return Answer::Other(format!("ip: {error}")),
    };
    if !success {
        return refusal(&output);
    }
    match serde_json::from_str::<Vec<Way>>(&output).map(|mut ways| ways.pop()) {
        Ok(Some(Way {
            dev,
            gateway,
            table,
        })) => {
            let table = table.map_or(Some(MAIN), |name| table_number(&name).ok());
            Answer::Route {
                dev,
                via: gateway,
                table,
            }
        }
        _ => Answer::Other(format!("ip: {}", output.trim())),
    }
}

/// The error that `ip` names by its text.
fn refusal(printed: &str) -> Answer {
    let text = printed.trim();
    let reason = text.trim_start_matches("RTNETLINK answers: ");
    (1..=133)
        .map(Errno::from_raw)
        .find(|errno| errno.desc() == reason)
        .map_or_else(|| Answer::Other(format!("ip: {text}")), Answer::Error)
}
