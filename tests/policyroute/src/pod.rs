use crate::{Machine, Snapshot, Watch, Watched};
use nsm_netlink::counted::{Counted, Counter};
use nsm_netlink::fault::{Faults, Faulty};
use nsm_netlink::{
    Action, Event, Family, Kernel, LinkState, Namespace, Object, Op, OpKind, Owner, Placement,
    Route, Rule, Selector, TableRange,
};
use std::num::NonZeroU8;
use std::sync::{Arc, mpsc};
use tokio::sync::oneshot;

/// The owner that the element has in most cases: a forwarder's.
pub const OWNER: Owner = Owner {
    protocol: match NonZeroU8::new(78) {
        Some(protocol) => protocol,
        None => NonZeroU8::MIN,
    },
    tables: match TableRange::new(20000, 24999) {
        Ok(tables) => tables,
        Err(_) => panic!("reserved"),
    },
};

/// A namespace as the element gets it.
pub type Place<M> = Counted<Faulty<Watched<<M as Machine>::Namespace>>>;

/// A rule of somebody else's, or of ours as a former process left it: `from` an address or prefix,
/// any source where it is empty.
pub fn rule(priority: u32, from: &str, table: u32, protocol: u8) -> Rule {
    let (family, from) = match from.parse::<ipnet::IpNet>() {
        Ok(net) => (Family::of_net(&net), Some(net)),
        Err(_) => (Family::V4, None),
    };
    let selector = Selector {
        from,
        ..Selector::any(family)
    };
    Rule::lookup(priority, selector, table, protocol)
}

/// A network namespace of a case's machine, and what the rest of the world does there.
///
/// Clones are the same pod. All methods panic when the kernel does not want to.
#[derive(Debug)]
pub struct Pod<M: Machine> {
    machine: Arc<M>,
    place: Arc<Place<M>>,
    /// What the element asks of the kernel.
    pub asked: Counter,
    /// What goes wrong for the element.
    pub faults: Faults,
    /// What of the element reaches the kernel.
    pub watch: Watch,
}

impl<M: Machine> Clone for Pod<M> {
    fn clone(&self) -> Self {
        Self {
            machine: Arc::clone(&self.machine),
            place: Arc::clone(&self.place),
            asked: self.asked.clone(),
            faults: self.faults.clone(),
            watch: self.watch.clone(),
        }
    }
}

impl<M: Machine> Pod<M> {
    /// A new pod.
    pub fn boot() -> Self {
        let machine = Arc::new(M::boot());
        let (asked, faults, watch) = (Counter::new(), Faults::new(), Watch::default());
        let watched = Watched::new(Arc::clone(machine.namespace()), watch.clone());
        let place = Counted::new(Faulty::new(watched, faults.clone()), asked.clone());
        Self {
            machine,
            place: Arc::new(place),
            asked,
            faults,
            watch,
        }
    }

    /// A descriptor of the namespace, as one comes with a call.
    pub fn descriptor(&self) -> Arc<Place<M>> {
        Arc::clone(&self.place)
    }

    /// Adds an interface and sets it up.
    pub fn add_link(&self, name: &str) {
        let index = self.machine.add_link(name);
        self.machine.set_link(index, LinkState::Up);
    }

    /// Deletes an interface: its routes go, in IPv4 untold.
    pub fn delete_link(&self, name: &str) {
        self.machine.delete_link(self.dev(name));
    }

    /// Deletes an interface and adds another of its name.
    pub fn remake_link(&self, name: &str) {
        self.delete_link(name);
        self.add_link(name);
    }

    /// Sets an interface down: its routes go, in IPv4 untold.
    pub fn set_down(&self, name: &str) {
        self.machine.set_link(self.dev(name), LinkState::Down);
    }

    /// Sets an interface up.
    pub fn set_up(&self, name: &str) {
        self.machine.set_link(self.dev(name), LinkState::Up);
    }

    /// Gives an interface an address.
    pub fn add_address(&self, name: &str, address: &str) {
        let index = self.dev(name);
        self.machine.add_address(index, address.parse().unwrap());
    }

    /// Takes an address from an interface.
    pub fn remove_address(&self, name: &str, address: &str) {
        let index = self.dev(name);
        self.machine.remove_address(index, address.parse().unwrap());
    }

    /// Switches IPv6 off on an interface.
    pub fn forbid_ipv6(&self, name: &str) {
        self.machine.forbid_ipv6(self.dev(name), name);
    }

    /// The index of an interface.
    pub fn dev(&self, name: &str) -> u32 {
        let links = self.kernel().links().unwrap();
        let link = links.into_iter().find(|link| link.name == name);
        link.unwrap().index
    }

    /// Lets dumps of many rules take several reads.
    pub fn short_reads(&self) {
        self.machine.short_reads();
    }

    /// Adds a rule.
    pub fn add_rule(&self, rule: &Rule) {
        self.write(Op::AddRule(rule.clone()));
    }

    /// Adds many rules.
    pub fn add_rules(&self, rules: &[Rule]) {
        let burst: Vec<Op> = rules.iter().cloned().map(Op::AddRule).collect();
        let outcomes = self.kernel().execute(&burst).unwrap();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }

    /// Deletes a rule.
    pub fn delete_rule(&self, rule: &Rule) {
        self.write(Op::DelRule(rule.clone()));
    }

    /// Adds a route, where there is none of its prefix and metric.
    pub fn add_route(&self, route: &Route) {
        self.write(Op::AddRoute(route.clone(), Placement::Exclusive));
    }

    /// Adds a route behind others of its prefix and metric.
    pub fn append_route(&self, route: &Route) {
        self.write(Op::AddRoute(route.clone(), Placement::Append));
    }

    /// Deletes a route.
    pub fn delete_route(&self, route: &Route) {
        self.write(Op::DelRoute(route.clone()));
    }

    /// Puts a route in the place of the first of its prefix and metric.
    pub fn replace_route(&self, route: &Route) {
        self.machine.replace_route(route);
    }

    /// How many listen to notifications.
    pub fn listeners(&self) -> usize {
        self.machine.listeners()
    }

    /// A default route by an interface: of the administrator's, in IPv4 where no `via` says else.
    pub fn foreign_default(&self, table: u32, dev: &str, via: &str) -> Route {
        const STATIC: u8 = 4;
        let via: Option<std::net::IpAddr> = via.parse().ok();
        let family = via.as_ref().map_or(Family::V4, Family::of);
        Route::unicast(table, family.default_prefix(), self.dev(dev), via, STATIC)
    }

    /// Everything in the namespace.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&mut self.kernel())
    }

    /// What the element has made, a line for each rule: see [`Snapshot::lines`].
    pub fn ours(&self) -> Vec<String> {
        self.of(OWNER)
    }

    /// What an owner has made.
    pub fn of(&self, owner: Owner) -> Vec<String> {
        let links = self.kernel().links().unwrap();
        self.snapshot().lines(owner, &links)
    }

    /// Our rules as the kernel gives them.
    pub fn our_rules(&self) -> Vec<Rule> {
        let rules = self.snapshot().rules.into_iter();
        rules.filter(|rule| OWNER.owns_rule(rule)).collect()
    }

    /// Our routes as the kernel gives them.
    pub fn our_routes(&self) -> Vec<Route> {
        let routes = self.snapshot().routes.into_iter();
        routes.filter(|route| OWNER.owns_route(route)).collect()
    }

    /// What the kernel has told since the last call. The probe of IPv6 is left out: it changes
    /// nothing.
    pub fn events(&self) -> Vec<Event> {
        let is_probe =
            |object: &Object| matches!(object, Object::Rule(r) if r.action == Action::Nop);
        let events = self.machine.events().into_iter();
        events.filter(|event| !is_probe(&event.object)).collect()
    }

    /// What the kernel has told of rules since the last call.
    pub fn rule_events(&self) -> Vec<Event> {
        let events = self.events().into_iter();
        events
            .filter(|event| matches!(event.object, Object::Rule(_)))
            .collect()
    }

    /// Lets the next work in the pod stop before an operation. Tells when it does, and waits there
    /// until it may go on.
    pub fn stop_at(&self, op: OpKind) -> (oneshot::Receiver<()>, mpsc::Sender<()>) {
        let (tell, at_work) = oneshot::channel();
        let (go_on, wait) = mpsc::channel();
        self.faults.meanwhile(op, 1, move || {
            tell.send(()).unwrap();
            wait.recv().unwrap();
        });
        (at_work, go_on)
    }

    fn write(&self, op: Op) {
        let outcomes = self.kernel().execute(std::slice::from_ref(&op)).unwrap();
        assert_eq!(outcomes, [Ok(())], "{op}");
    }

    /// The kernel as somebody else has it open.
    pub fn kernel(&self) -> <M::Namespace as Namespace>::Kernel {
        self.machine.namespace().open().unwrap()
    }
}
