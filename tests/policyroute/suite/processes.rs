//! Two processes of one owner in one pod, as while one forwarder replaces another: this program
//! once more, twice.

use libtest_mimic::{Failed, Trial};
use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{Call, ErrorKind, NetworkService, test_util::echo};
use nsm_netlink::{Kernel, LinkState, Namespace, Netns};
use nsm_policyroute::{OneNamespace, PolicyRouteLayer};
use policyroute_suite::{Draft, Machine, OWNER, Real, Snapshot, config, connection, policy};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines, Write, stdin};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use tower::{Layer, ServiceExt};

/// The interface of each one's connections.
const LINKS: [&str; 2] = ["nsm-0", "nsm-1"];
const ROUNDS: usize = 10;
const CONNECTIONS: usize = 16;
const POLICIES: usize = 4;
/// The first argument of such a process.
const PROCESS: &str = "--process";
/// How it says that it has done what it was told.
const DONE: &str = "done";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test(
            "kernel::two_processes_that_install_at_once_share_no_table_and_leave_nothing",
            two_processes_that_install_at_once_share_no_table_and_leave_nothing,
        ),
        Trial::test(
            "kernel::two_processes_that_install_the_same_at_once_end_on_one_rule_each",
            two_processes_that_install_the_same_at_once_end_on_one_rule_each,
        ),
    ]
}

fn two_processes_that_install_at_once_share_no_table_and_leave_nothing() -> Result<(), Failed> {
    install_at_once([0, 1])
}

/// One takes over what the other still serves.
fn two_processes_that_install_the_same_at_once_end_on_one_rule_each() -> Result<(), Failed> {
    install_at_once([0, 0])
}

fn install_at_once(numbers: [usize; 2]) -> Result<(), Failed> {
    let pod = Real::boot();
    for name in LINKS {
        let link = pod.add_link(name);
        pod.set_link(link, LinkState::Up);
    }
    let before = snapshot(&pod);

    for round in 0..ROUNDS {
        let mut both = start_two(&pod, numbers)?;
        at_once(&mut both, "request")?;
        each_has_its_table(&pod, 1 + numbers[1], round);
        let installed = snapshot(&pod);

        drop(both);
        let mut both = start_two(&pod, numbers)?;
        at_once(&mut both, "request")?;
        assert_eq!(snapshot(&pod), installed, "round {round}, after a restart");

        at_once(&mut both, "close")?;
        assert_eq!(snapshot(&pod), before, "round {round}");
    }
    Ok(())
}

/// A process that does what it is told as long as it is held.
struct Process {
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Process {
    fn start(pod: &Real, number: usize) -> std::io::Result<Self> {
        let netns = pod.namespace().as_fd().as_raw_fd();
        let mut child = Command::new("/proc/self/exe")
            .arg(PROCESS)
            .arg(format!("/proc/{}/fd/{netns}", std::process::id()))
            .arg(number.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = child.stdout.take().unwrap();
        Ok(Self {
            orders: child.stdin.take(),
            answers: BufReader::new(answers).lines(),
            child,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.orders.take();
        let _ = self.child.wait();
    }
}

fn start_two(pod: &Real, [a, b]: [usize; 2]) -> std::io::Result<[Process; 2]> {
    Ok([Process::start(pod, a)?, Process::start(pod, b)?])
}

fn at_once(processes: &mut [Process; 2], order: &str) -> Result<(), Failed> {
    for process in &mut *processes {
        writeln!(process.orders.as_mut().unwrap(), "{order}")?;
    }
    for process in processes {
        let answer = process.answers.next().transpose()?;
        if answer.as_deref() != Some(DONE) {
            return Err(format!("a process that was told to {order} says {answer:?}").into());
        }
    }
    Ok(())
}

fn snapshot(pod: &Real) -> Snapshot {
    Snapshot::of(&mut pod.namespace().open().unwrap())
}

#[track_caller]
fn each_has_its_table(pod: &Real, owners: usize, round: usize) {
    let links = pod.namespace().open().unwrap().links().unwrap();
    let lines = snapshot(pod).lines(OWNER, &links);
    let mut tables = BTreeSet::new();
    for line in &lines {
        let (from, leads) = line.split_once(" -> ").unwrap_or(("", line));
        let (table, routes) = leads.split_once(": ").unwrap_or((leads, ""));
        assert!(tables.insert(table), "round {round}: {line}");
        let from = from.rsplit(' ').next().unwrap_or_default();
        let link = LINKS[usize::from(from.starts_with("10.1."))];
        let own = format!("default via {} dev {link}", gateway(from));
        assert_eq!(routes, own, "round {round}: {line}");
    }
    assert_eq!(
        lines.len(),
        owners * CONNECTIONS * POLICIES,
        "round {round}"
    );
}

/// Whether this is such a process; then it does what it is told to until nobody tells any more.
pub(crate) fn is_one() -> Option<ExitCode> {
    let mut words = std::env::args().skip(1);
    if words.next()? != PROCESS {
        return None;
    }
    let netns = Netns::open_path(Path::new(&words.next()?)).unwrap();
    let number = words.next()?.parse().ok()?;
    obey(netns, number);
    Some(ExitCode::SUCCESS)
}

#[allow(
    clippy::print_stdout,
    reason = "it is read by the process that started this one"
)]
fn obey(netns: Netns, number: usize) {
    let layer = PolicyRouteLayer::new(OneNamespace::new(netns), config());
    let chain = layer.layer(echo());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    for order in stdin().lines() {
        let call = match order.unwrap().as_str() {
            "request" => request,
            _ => close,
        };
        runtime.block_on(all(&chain, number, call));
        println!("{DONE}");
    }
}

fn request(connection: Connection) -> Call {
    Call::request(NetworkServiceRequest {
        connection: Some(connection),
        ..NetworkServiceRequest::default()
    })
}

fn close(connection: Connection) -> Call {
    Call::close(connection)
}

/// Makes the call for all connections at once. Processes cannot wait for each other, so that a call
/// may have to be repeated.
async fn all(chain: &impl NetworkService, number: usize, call: fn(Connection) -> Call) {
    let calls: Vec<_> = (0..CONNECTIONS)
        .map(|i| {
            let (chain, asked) = (chain.clone(), asked(number, i));
            tokio::spawn(async move {
                for _ in 0..50 {
                    match chain.clone().oneshot(call((*asked).clone())).await {
                        Ok(_) => return,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", error.report());
                        }
                    }
                }
                panic!("always too slow");
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
}

/// Connection `i` of process `n`: the sources are `10.n.i.j`, and each has a gateway of its own.
fn asked(number: usize, i: usize) -> Draft {
    let policies = (1..=POLICIES).map(|j| {
        let from = format!("10.{number}.{i}.{j}");
        policy().from(&from).via(&gateway(&from))
    });
    connection(&format!("c{number}-{i}"))
        .by(LINKS[number])
        .policies(policies)
}

/// The gateway for a source: in another network, with the same end.
fn gateway(from: &str) -> String {
    from.replacen("10.", "172.2", 1)
}
