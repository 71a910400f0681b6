//! What a process holds after a long time: no more than at its beginning.

use e2e::{Caller, Mesh, Process, until};
use libtest_mimic::Trial;

/// What resident memory may grow by, in KiB, for the allocator has its ups and downs: what one more
/// connection or refresh would keep, were it half a KiB, is seen.
const ROOM: u64 = 512;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_thousand_refreshes_leave_forwarder_and_endpoint_as_they_were,
        a_thousand_refreshes_of_its_own_leave_a_client_as_it_was,
        a_thousand_connections_over_one_transport_leave_forwarder_and_endpoint_as_they_were,
        two_hundred_forwarders_leave_client_and_endpoint_as_they_were,
        two_hundred_clients_and_endpoints_leave_the_forwarder_as_it_was,
    ]
}

/// What a process holds.
#[derive(Debug, Clone, Copy)]
struct Holds {
    descriptors: usize,
    resident_kib: u64,
}

impl Holds {
    fn of(process: &Process) -> Self {
        Self {
            descriptors: process.descriptors().len(),
            resident_kib: process.resident_kib(),
        }
    }

    /// That a process holds no more than it did, once the work is done that is still under way.
    #[track_caller]
    fn again(self, process: &Process) {
        let descriptors = || process.descriptors().len() <= self.descriptors;
        until(
            &format!("no more descriptors than before: {self:?}"),
            descriptors,
        );
        let now = Self::of(process);
        assert!(
            now.resident_kib <= self.resident_kib + ROOM,
            "{self:?} before, {now:?} now"
        );
    }
}

fn a_thousand_refreshes_leave_forwarder_and_endpoint_as_they_were() {
    let mesh = Mesh::new(1, 1);
    let (nse, forwarder) = (mesh.endpoint(0, &[]), mesh.forwarder(&[]));
    let caller = Caller::new(&mesh.url("forwarder"), &[]);
    let mut request = caller.ask_for("1", &mesh.pods[0], "nsm-0");
    let mut refresh = |times| {
        for _ in 0..times {
            request.connection = Some(caller.request(request.clone()).unwrap());
        }
    };
    refresh(200);
    let before = [&nse, &forwarder].map(Holds::of);

    refresh(1000);

    before[0].again(&nse);
    before[1].again(&forwarder);
}

fn a_thousand_refreshes_of_its_own_leave_a_client_as_it_was() {
    const CONNECTIONS: usize = 100;

    let mesh = Mesh::new(1, 1);
    let _nse = mesh.endpoint(0, &[]);
    let services: Vec<_> = (0..CONNECTIONS)
        .map(|it| format!("net-0/nsm-{it}"))
        .collect();
    let services = format!("--network-services={}", services.join(","));
    // Nobody between them, for a forwarder would have a hundred interfaces to look after.
    let to_the_endpoint = format!("--connect-to={}", mesh.url("nse-0"));
    let life = "--max-token-lifetime=3s";
    // Nor are there interfaces that would carry a ping.
    let nsc = mesh.client(
        0,
        &[
            &services,
            &to_the_endpoint,
            life,
            "--log-level=DEBUG",
            "--liveness-check-enabled=false",
        ],
    );
    let refreshed = |times| nsc.until_logged("connection refreshed", times);
    nsc.until_it_stands(CONNECTIONS);
    let mut times = 10 * CONNECTIONS;
    refreshed(times);

    // When more of them than ever come together they take room that is not given back. What is kept
    // of each refresh shows in every thousand.
    let grows = (0..5).all(|_| {
        let before = Holds::of(&nsc);
        times += 1000;
        refreshed(times);
        Holds::of(&nsc).resident_kib > before.resident_kib + ROOM
    });
    assert!(
        !grows,
        "each thousand refreshes take more: {:?}",
        Holds::of(&nsc)
    );
    // One that is kept shows for each connection. On a busy machine half of them are under way.
    until("what goes along with requests is closed", || {
        nsc.descriptors().len() < CONNECTIONS
    });
    assert_eq!(nsc.stop(), Some(0));
}

fn a_thousand_connections_over_one_transport_leave_forwarder_and_endpoint_as_they_were() {
    let mesh = Mesh::new(2, 1);
    let (nse, forwarder) = (
        mesh.endpoint(0, &["--pbr-config-path=/none"]),
        mesh.forwarder(&[]),
    );
    let caller = Caller::new(&mesh.url("forwarder"), &[]);
    let open_and_close = |ids: std::ops::Range<usize>| {
        for id in ids {
            let pod = &mesh.pods[id % mesh.pods.len()];
            let request = caller.ask_for(&format!("{id}"), pod, "nsm-0");
            let connection = caller.request(request).unwrap();
            caller.close(connection).unwrap();
        }
    };
    open_and_close(0..100);
    let before = [&nse, &forwarder].map(Holds::of);

    open_and_close(100..1100);

    before[0].again(&nse);
    before[1].again(&forwarder);
    mesh.is_clean();
}

fn two_hundred_forwarders_leave_client_and_endpoint_as_they_were() {
    let mesh = Mesh::new(1, 1);
    let (nse, nsc) = (mesh.endpoint(0, &[]), mesh.client(0, &[]));
    let mut stands = 0;
    let mut live_and_die = |times| {
        for _ in 0..times {
            let forwarder = mesh.forwarder(&[]);
            stands += 1;
            nsc.until_it_stands(stands);
            forwarder.kill();
        }
    };
    live_and_die(20);
    let before = [&nse, &nsc].map(Holds::of);

    live_and_die(200);

    before[0].again(&nse);
    before[1].again(&nsc);
    let _forwarder = mesh.forwarder(&[]);
    nsc.until_it_stands(221);
    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}

fn two_hundred_clients_and_endpoints_leave_the_forwarder_as_it_was() {
    let mesh = Mesh::new(1, 1);
    let forwarder = mesh.forwarder(&[]);
    let live_and_die = |times| {
        for _ in 0..times {
            let (nse, nsc) = (mesh.endpoint(0, &[]), mesh.client(0, &[]));
            nsc.until_it_stands(1);
            nsc.kill();
            nse.kill();
        }
    };
    live_and_die(20);
    let before = Holds::of(&forwarder);

    live_and_die(200);

    before.again(&forwarder);
    let (_nse, nsc) = (mesh.endpoint(0, &[]), mesh.client(0, &[]));
    nsc.until_it_stands(1);
    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}
