//! An endpoint that was killed has forgotten who has which address; its clients have not.

use e2e::{Mesh, Process, Standing};
use libtest_mimic::Trial;
use nix::sys::signal::Signal;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        clients_that_return_to_a_new_endpoint_keep_their_addresses,
        clients_that_return_in_any_order_keep_their_addresses,
        clients_that_return_to_a_pool_that_just_holds_them_keep_their_addresses,
        a_client_whose_addresses_a_new_one_has_got_is_moved_and_no_other,
        a_client_for_whom_there_is_no_room_is_served_when_there_is,
    ]
}

/// All orders of three but the one in which they came first.
const ORDERS: [[usize; 3]; 5] = [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Room for just three, and for just four.
const THREE: &str = "--cidr-prefix=[172.16.0.0/30,172.16.0.4/31],[fd00:0::/126,fd00:0::4/127]";
const FOUR: &str = "--cidr-prefix=172.16.0.0/29,fd00:0::/125";

/// Clients ask again each other second.
const LIFE: &str = "--max-token-lifetime=10s";
const TIME: &str = "--request-timeout=4s";

/// Whom the endpoint takes along when it is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum With {
    Nobody,
    Forwarder,
}

/// Three clients in as many pods. The one of pod 0 has the first addresses, and so on.
struct Running<'a> {
    mesh: &'a Mesh,
    pool: &'static str,
    nse: Option<Process>,
    forwarder: Option<Process>,
    clients: Vec<Process>,
}

impl<'a> Running<'a> {
    fn start(mesh: &'a Mesh, pool: &'static str) -> Self {
        let mut running = Self {
            mesh,
            pool,
            nse: Some(mesh.endpoint(0, &[pool])),
            forwarder: Some(mesh.forwarder(&[])),
            clients: Vec::new(),
        };
        for pod in 0..3 {
            let client = mesh.client(pod, &[LIFE, TIME]);
            client.until_it_stands(1);
            running.clients.push(client);
        }
        running
    }

    /// Kills the endpoint and starts it again. No client notices before it [returns](Self::returns).
    fn restart(&mut self, with: With) {
        for client in &self.clients {
            client.signal(Signal::SIGSTOP);
        }
        self.nse.take().unwrap().kill();
        if with == With::Forwarder {
            self.forwarder.take().unwrap().kill();
            self.forwarder = Some(self.mesh.forwarder(&[]));
        }
        self.nse = Some(self.mesh.endpoint(0, &[self.pool]));
    }

    /// Lets a client go on, and waits until the endpoint knows this many connections.
    fn returns(&self, pod: usize, known: usize) {
        self.clients[pod].signal(Signal::SIGCONT);
        let nse = self.nse.as_ref().unwrap();
        nse.until_logged("connection established", known);
    }

    fn stand(&self) -> Vec<Standing> {
        let pods = (0..self.clients.len()).map(|pod| self.mesh.in_pod(pod));
        pods.chain([self.mesh.in_network(0)]).collect()
    }

    fn end_clean(self) {
        for client in self.clients {
            assert_eq!(client.stop(), Some(0));
        }
        self.mesh.is_clean();
    }
}

fn clients_that_return_to_a_new_endpoint_keep_their_addresses() {
    // Each of them asks again when its time has come.
    let mesh = Mesh::new(3, 1);
    let mut running = Running::start(&mesh, FOUR);
    let before = running.stand();

    running.restart(With::Nobody);
    for (known, pod) in [2, 0, 1].into_iter().enumerate() {
        running.returns(pod, known + 1);
    }

    assert_eq!(running.stand(), before);
    running.end_clean();
}

fn clients_that_return_in_any_order_keep_their_addresses() {
    any_order(FOUR);
}

fn clients_that_return_to_a_pool_that_just_holds_them_keep_their_addresses() {
    any_order(THREE);
}

fn any_order(pool: &'static str) {
    let mesh = Mesh::new(3, 1);
    let mut running = Running::start(&mesh, pool);
    let before = running.stand();
    for (restart, order) in ORDERS.into_iter().enumerate() {
        // Those who are connected anew ask at once.
        running.restart(With::Forwarder);
        for (known, pod) in order.into_iter().enumerate() {
            running.returns(pod, known + 1);
            running.clients[pod].until_it_stands(restart + 2);
        }
        assert_eq!(running.stand(), before, "{order:?}");
    }
    running.end_clean();
}

fn a_client_whose_addresses_a_new_one_has_got_is_moved_and_no_other() {
    let mesh = Mesh::new(4, 1);
    let mut running = Running::start(&mesh, FOUR);
    let before = running.stand();

    running.restart(With::Forwarder);
    let fourth = mesh.client(3, &[]);
    fourth.until_it_stands(1);
    running.clients.push(fourth);
    for (known, pod) in [2, 0, 1].into_iter().enumerate() {
        running.returns(pod, known + 2);
        running.clients[pod].until_it_stands(2);
    }

    let clients = running.clients.iter().enumerate();
    mesh.is_as_told(&clients.collect::<Vec<_>>());
    // The first ones are free for an endpoint that knows nobody.
    let first = &running.clients[3].told_addresses("nsm-0");
    assert_eq!(before[0].addresses_on("nsm-0"), *first);
    assert_eq!(running.stand()[1..3], before[1..3]);
    running.end_clean();
}

fn a_client_for_whom_there_is_no_room_is_served_when_there_is() {
    let mesh = Mesh::new(4, 1);
    let mut running = Running::start(&mesh, THREE);
    let before = running.stand();

    let fourth = mesh.client(3, &[]);
    fourth.until_logged("no two free addresses in 172.16.0.0/30", 1);
    assert_eq!(running.stand(), before);
    let second = running.clients.remove(1);
    let addresses = second.told_addresses("nsm-0");
    assert_eq!(second.stop(), Some(0));

    fourth.until_it_stands(1);
    assert_eq!(fourth.told_addresses("nsm-0"), addresses);
    let clients = [
        (0, &running.clients[0]),
        (2, &running.clients[1]),
        (3, &fourth),
    ];
    mesh.is_as_told(&clients);
    running.clients.push(fourth);
    running.end_clean();
}
