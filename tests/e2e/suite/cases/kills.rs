//! Client, forwarder and endpoint are killed, singly and together, and return in every order.

use e2e::{Mesh, Process, Standing, free_addresses, source, until, who_answers};
use libtest_mimic::Trial;
use nsm_netlink::Family;
use std::fmt;
use std::thread;

/// How long each stands for the connection: one that nobody asks for again goes in seconds, and the
/// client asks again every other second.
const LIFE: &str = "--max-token-lifetime=8s";
/// The time of a request, and of the close at the end of a connection's life: that much earlier.
const TIME: &str = "--request-timeout=4s";
/// Room for four clients.
const POOL: &str = "--cidr-prefix=172.16.0.0/29,fd00:0::/125";
const ADDRESSES: [&str; 4] = [
    "172.16.0.1/32",
    "172.16.0.3/32",
    "172.16.0.5/32",
    "172.16.0.7/32",
];

/// How many orders are tried at once. They wait for each other's programs, and for the ends of
/// tokens, most of the time.
const AT_ONCE: usize = 3;

/// All cases.
pub fn all() -> Vec<Trial> {
    let mut trials = Vec::new();
    for interfaces in [Interfaces::Left, Interfaces::Deleted] {
        for client in [Client::Same, Client::Other] {
            let name = format!(
                "killed_in_every_order_{client}_with_its_interfaces_{interfaces}_finds_what_it_needs_and_leaves_nothing"
            );
            trials.push(Trial::test(name, move || {
                every_order(interfaces, client);
                Ok(())
            }));
        }
    }
    trials
}

/// What becomes of the interfaces while somebody is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interfaces {
    Left,
    Deleted,
}

/// Who returns to the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    /// A client of the same name, whose connections have the same ids.
    Same,
    /// One of another name. The former connection is left to itself where it is remembered, and
    /// has the same name for its interface.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Nsc,
    Forwarder,
    Nse,
}

/// Who is killed, in the order in which they return.
#[derive(Debug, Clone)]
struct Order(Vec<Program>);

impl Order {
    /// Each one, each two and all three, in every order.
    fn every() -> Vec<Self> {
        let all = [Program::Nsc, Program::Forwarder, Program::Nse];
        let mut orders: Vec<_> = all.map(|it| vec![it]).into();
        let mut done = 0;
        while done < orders.len() {
            for next in all {
                if !orders[done].contains(&next) {
                    let longer = [&orders[done][..], &[next]].concat();
                    orders.push(longer);
                }
            }
            done += 1;
        }
        orders.into_iter().map(Self).collect()
    }

    fn has(&self, program: Program) -> bool {
        self.0.contains(&program)
    }
}

impl fmt::Display for Interfaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "left",
            Self::Deleted => "deleted",
        })
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "the_same_client",
            Self::Other => "another_client",
        })
    }
}

fn every_order(interfaces: Interfaces, client: Client) {
    let mut orders = Order::every();
    assert_eq!(orders.len(), 3 + 6 + 6);
    orders.retain(|order| client == Client::Same || order.has(Program::Nsc));
    thread::scope(|scope| {
        for first in 0..AT_ONCE {
            let orders = orders.iter().skip(first).step_by(AT_ONCE);
            scope.spawn(move || {
                for order in orders {
                    let _tried = Tried(order);
                    one_order(order, interfaces, client);
                }
            });
        }
    });
}

/// Tells which order fails.
struct Tried<'a>(&'a Order);

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed: {:?} killed, and back in this order", self.0.0);
        }
    }
}

/// The three. Who is away is not there.
struct Three<'a> {
    mesh: &'a Mesh,
    nsc: Option<Process>,
    forwarder: Option<Process>,
    nse: Option<Process>,
}

impl<'a> Three<'a> {
    fn start(mesh: &'a Mesh) -> Self {
        let mut three = Self {
            mesh,
            nsc: None,
            forwarder: None,
            nse: None,
        };
        let all = [Program::Nse, Program::Forwarder, Program::Nsc];
        for program in all {
            three.start_one(program, Client::Same);
        }
        three.of(Program::Nsc).until_it_stands(1);
        three
    }

    fn start_one(&mut self, program: Program, client: Client) {
        let mesh = self.mesh;
        let process = match (program, client) {
            (Program::Nse, _) => mesh.endpoint(0, &[LIFE, TIME, POOL]),
            (Program::Forwarder, _) => mesh.forwarder(&[LIFE, TIME]),
            (Program::Nsc, Client::Same) => mesh.client(0, &[LIFE, TIME]),
            (Program::Nsc, Client::Other) => mesh.client(0, &[LIFE, TIME, "--name=other"]),
        };
        *self.slot(program) = Some(process);
    }

    fn slot(&mut self, program: Program) -> &mut Option<Process> {
        match program {
            Program::Nsc => &mut self.nsc,
            Program::Forwarder => &mut self.forwarder,
            Program::Nse => &mut self.nse,
        }
    }

    fn of(&mut self, program: Program) -> &Process {
        self.slot(program).as_ref().unwrap()
    }

    fn take(&mut self, program: Program) -> Process {
        self.slot(program).take().unwrap()
    }

    /// Waits until everybody who has returned knows of a connection.
    fn know(&mut self, order: &Order) {
        for program in &order.0 {
            let words = match program {
                Program::Nsc => "the connection stands",
                Program::Forwarder | Program::Nse => "connection established",
            };
            self.of(*program).until_logged(words, 1);
        }
    }
}

fn one_order(order: &Order, interfaces: Interfaces, client: Client) {
    let mesh = Mesh::new(1, 1);
    // An endpoint that goes on has the former client's addresses still, and gives the next pair.
    let pair = usize::from(client == Client::Other && !order.has(Program::Nse));
    mesh.lead_to_pair(0, pair);
    let mut three = Three::start(&mesh);
    let before = (mesh.in_pod(0), mesh.in_network(0));

    // The client first, for it asks again as soon as it hears that another one is gone.
    let mut killed = order.0.clone();
    killed.sort_by_key(|program| *program != Program::Nsc);
    for program in killed {
        three.take(program).kill();
    }
    if interfaces == Interfaces::Deleted {
        mesh.delete_interfaces(0);
    }
    for program in &order.0 {
        three.start_one(*program, client);
    }
    three.know(order);
    mesh.until_served(0);
    is_right(&mesh, client, pair, &before);

    let mut others = vec![Program::Forwarder, Program::Nse];
    others.retain(|program| !order.has(*program));
    if client == Client::Same && order.0 == [Program::Nsc] {
        // Its connection is the one that it had.
        for program in others {
            let log = three.of(program).log();
            assert_eq!(log.matches("connection established").count(), 1);
        }
    } else if client == Client::Other {
        // The ghost ends where somebody remembers it.
        for program in others {
            three.of(program).until_logged("connection closed", 1);
        }
        is_right(&mesh, client, pair, &before);
        assert_eq!(who_answers(&mesh.pods[0], 0), [Some(0); 2]);
    }

    assert_eq!(three.take(Program::Nsc).stop(), Some(0));
    mesh.is_clean();
    assert_eq!(free_addresses(&mesh, 0), ADDRESSES);
    let forwarder = three.of(Program::Forwarder);
    until("the pod is let go", || !mesh.holds_a_pod(forwarder));
}

/// What a client has is what it had; another one, with another pair of addresses, has the same
/// besides.
fn is_right(mesh: &Mesh, client: Client, pair: usize, before: &(Standing, Standing)) {
    let now = (mesh.in_pod(0), mesh.in_network(0));
    if client == Client::Same {
        assert_eq!(now, *before);
        return;
    }
    let (pod, network) = now;
    assert_eq!(pod.interfaces, ["nsm-0"]);
    let host = 2 * pair + 1;
    let own = [format!("172.16.0.{host}/32"), format!("fd00::{host:x}/128")];
    let [v4, v6] = Family::ALL.map(|family| source(0, family));
    let policies = [format!("{v4}/32"), format!("{v6}/128")];
    let mut expected = [own, policies].concat();
    expected.sort();
    assert_eq!(pod.addresses_on("nsm-0"), expected);
    assert_eq!(pod.rules, before.0.rules);
    assert_eq!(pod.routes.len(), before.0.routes.len());
    assert_eq!(network.interfaces.len(), 1);
    assert_eq!(network.addresses.len(), 2);
    assert_eq!(network.routes.len(), before.1.routes.len());
}
