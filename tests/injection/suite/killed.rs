//! A forwarder that is killed between any two writes to the kernel.
//!
//! What it does is done by a process of its own, which kills itself after a number of writes. It is
//! this binary again, with the two namespaces as standard input and output.

use crate::world::World;
use injection_suite::{Client, Place, Writes};
use nsm_netlink::Netns;
use std::env;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

crate::cases![
    a_client_that_returns_after_any_write_of_a_first_request_has_all_it_asks_for,
    a_client_that_returns_by_another_id_after_any_write_of_a_first_request_has_the_name,
    a_client_that_wants_another_name_after_any_write_of_a_first_request_has_no_other,
    a_close_after_any_write_of_a_first_request_leaves_nothing,
    a_client_that_returns_after_any_write_of_a_change_has_either_as_it_asks,
    a_close_after_any_write_of_a_change_leaves_nothing,
    a_close_or_a_request_after_any_write_of_a_close_is_well,
];

/// What the process is told to do, and when to die.
const ACT: &str = "INJECTION_ACT";
const WRITES: &str = "INJECTION_WRITES";
/// `SIGKILL`.
const KILLED: i32 = 9;

/// What a forwarder is killed in.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// A first request.
    First,
    /// A request that changes name, addresses and routes.
    Change,
    /// A close.
    Close,
}

const ACTS: [Act; 3] = [Act::First, Act::Change, Act::Close];

impl Act {
    fn client(self, world: &World) -> Client {
        match self {
            Self::First | Self::Close => world.client("nsc-0", "nsm-1", 1),
            Self::Change => world.client("nsc-0", "nsm-9", 2),
        }
    }
}

/// A process that is to be killed.
pub struct Victim {
    act: Act,
    writes: usize,
}

impl Victim {
    /// The one that this process was started as.
    pub fn of_this_process() -> Option<Self> {
        let act = env::var(ACT).ok()?;
        let act = ACTS.into_iter().find(|it| format!("{it:?}") == act)?;
        let writes = env::var(WRITES).ok()?.parse().ok()?;
        Some(Self { act, writes })
    }

    /// Does it, and lives on if there are fewer writes.
    pub fn act(self) {
        let place =
            |fd: &dyn Fn() -> Result<Netns, nsm_netlink::NetnsError>| Place::of(fd().unwrap());
        let pod = place(&|| Netns::from_fd(std::io::stdin()));
        let endpoint = place(&|| Netns::from_fd(std::io::stdout()));
        let world = World::of(pod, endpoint);
        let mut client = self.act.client(&world);
        Writes::kill_after(self.writes);
        injection_suite::run(async move {
            match self.act {
                Act::First | Act::Change => client.request(&world.forwarder).await.unwrap(),
                Act::Close => client.close(&world.forwarder).await.unwrap(),
            }
        });
    }
}

/// Whether the act was cut short.
fn kill_in(act: Act, writes: usize, world: &World) -> bool {
    let passed = |place: &Place| -> OwnedFd { place.netns().as_fd().try_clone_to_owned().unwrap() };
    let status = Command::new("/proc/self/exe")
        .env(ACT, format!("{act:?}"))
        .env(WRITES, writes.to_string())
        .stdin(Stdio::from(passed(&world.pod)))
        .stdout(Stdio::from(passed(&world.endpoint)))
        .status()
        .unwrap();
    assert!(
        status.success() || status.signal() == Some(KILLED),
        "{status}"
    );
    !status.success()
}

/// Worlds in which an act was cut short after one write, after two, and so on, each with what it was
/// before. Where the connection stood before, the client has it.
async fn cut_short(act: Act, stood: bool, mut then: impl AsyncFnMut(World, Option<Client>)) {
    for writes in 1.. {
        let mut world = World::new();
        world.pod.plug_eth0();
        let client = match stood {
            true => Some(world.connected("nsc-0", "nsm-1", 1).await),
            false => None,
        };
        let killed = kill_in(act, writes, &world);
        world.restart();
        then(world, client).await;
        if !killed {
            assert!(writes > 2, "{act:?} was never cut short");
            return;
        }
    }
}

/// That a connection is all that there is, and closes without a trace.
async fn stands_alone(world: &World, client: &Client, name: &str, n: u8) {
    assert_eq!(world.pod.names(), ["eth0", name]);
    assert_eq!(world.endpoint.names().len(), 1);
    let addresses = [format!("172.16.{n}.2/32"), format!("2001:db8:{n}::2/128")];
    assert_eq!(world.pod.addresses(name), addresses);
    assert_eq!(world.pod.routes(name).len(), 4);
    assert_eq!(world.pod.neighbours(name).len(), 2);
    for prefix in [format!("172.16.{n}."), format!("2001:db8:{n}::")] {
        let (own, other) = (format!("{prefix}2"), format!("{prefix}1"));
        assert!(world.pod.talks_to(&own, &world.endpoint, &other), "{own}");
    }
    client.close(&world.forwarder).await.unwrap();
    is_empty(world);
}

fn is_empty(world: &World) {
    assert_eq!(world.pod.names(), ["eth0"]);
    assert!(world.endpoint.names().is_empty());
}

async fn a_client_that_returns_after_any_write_of_a_first_request_has_all_it_asks_for() {
    cut_short(Act::First, false, async |world, _| {
        let mut client = world.client("nsc-0", "nsm-1", 1);
        client.request(&world.forwarder).await.unwrap();
        stands_alone(&world, &client, "nsm-1", 1).await;
    })
    .await;
}

async fn a_client_that_returns_by_another_id_after_any_write_of_a_first_request_has_the_name() {
    cut_short(Act::First, false, async |world, _| {
        let mut client = world.client("nsc-new", "nsm-1", 1);
        client.request(&world.forwarder).await.unwrap();
        stands_alone(&world, &client, "nsm-1", 1).await;
    })
    .await;
}

async fn a_client_that_wants_another_name_after_any_write_of_a_first_request_has_no_other() {
    cut_short(Act::First, false, async |world, _| {
        let mut client = world.client("nsc-0", "nsm-9", 2);
        client.request(&world.forwarder).await.unwrap();
        stands_alone(&world, &client, "nsm-9", 2).await;
    })
    .await;
}

async fn a_close_after_any_write_of_a_first_request_leaves_nothing() {
    cut_short(Act::First, false, async |world, _| {
        let client = world.client("nsc-0", "nsm-1", 1);
        client.close(&world.forwarder).await.unwrap();
        is_empty(&world);
    })
    .await;
}

async fn a_client_that_returns_after_any_write_of_a_change_has_either_as_it_asks() {
    cut_short(Act::Change, true, async |world, client| {
        let mut client = client.unwrap();
        client.request(&world.forwarder).await.unwrap();
        stands_alone(&world, &client, "nsm-1", 1).await;
    })
    .await;
    cut_short(Act::Change, true, async |world, client| {
        // The endpoint answers with other addresses.
        world.client("nsc-0", "nsm-9", 2);
        let mut client = client.unwrap();
        client.rename("nsm-9");
        client.request(&world.forwarder).await.unwrap();
        stands_alone(&world, &client, "nsm-9", 2).await;
    })
    .await;
}

async fn a_close_after_any_write_of_a_change_leaves_nothing() {
    cut_short(Act::Change, true, async |world, client| {
        client.unwrap().close(&world.forwarder).await.unwrap();
        is_empty(&world);
    })
    .await;
}

async fn a_close_or_a_request_after_any_write_of_a_close_is_well() {
    let mut world = World::new();
    world.pod.plug_eth0();
    // There is one write: it takes the pair.
    for again in [false, true] {
        let mut client = world.connected("nsc-0", "nsm-1", 1).await;
        assert!(kill_in(Act::Close, 1, &world));
        is_empty(&world);
        world.restart();
        if again {
            client.request(&world.forwarder).await.unwrap();
            stands_alone(&world, &client, "nsm-1", 1).await;
        } else {
            client.close(&world.forwarder).await.unwrap();
            is_empty(&world);
        }
    }
}
