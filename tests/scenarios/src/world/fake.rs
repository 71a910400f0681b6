//! Pods of the fake kernel.

use super::{Asker, Listener, Pod, PodError, Ran};
use crate::answer::Answer;
use crate::model::{Links, Lookup};
use nsm_netlink::fake::{FakeNamespace, Flow};
use nsm_netlink::{Event, KernelError};
use std::cell::RefCell;
use std::rc::Rc;

/// A pod in memory.
#[derive(Debug)]
pub struct FakePod {
    namespace: FakeNamespace,
    /// All that happened: the namespace tells it to one, and there may be several listeners.
    events: Rc<RefCell<Vec<Event>>>,
}

impl Pod for FakePod {
    type Namespace = FakeNamespace;

    fn create(links: &Links) -> Result<Self, PodError> {
        let namespace = FakeNamespace::new();
        for (name, addresses) in &links.0 {
            let failed = |errno| PodError::new(format!("make link {name}"), errno);
            let index = namespace.add_link(name).map_err(failed)?;
            namespace.set_up(index).map_err(failed)?;
            for address in addresses {
                namespace.add_address(index, *address).map_err(failed)?;
            }
        }
        Ok(Self {
            namespace,
            events: Rc::default(),
        })
    }

    fn namespace(&self) -> Result<FakeNamespace, PodError> {
        Ok(self.namespace.clone())
    }

    fn run(&self, _: &str) -> Result<Ran, PodError> {
        let source = "the fake kernel has no shell: run this file on the real one";
        Err(PodError::new("run commands", source))
    }

    fn asker(&self) -> Result<Asker, PodError> {
        let namespace = self.namespace.clone();
        Ok(Box::new(move |question| ask(&namespace, question)))
    }

    fn listen(&self) -> Result<Box<dyn Listener>, PodError> {
        let mut listener = FakeListener {
            namespace: self.namespace.clone(),
            events: Rc::clone(&self.events),
            heard: 0,
        };
        // What happened before is not its business.
        listener.collect();
        listener.heard = listener.events.borrow().len();
        Ok(Box::new(listener))
    }
}

struct FakeListener {
    namespace: FakeNamespace,
    events: Rc<RefCell<Vec<Event>>>,
    heard: usize,
}

impl FakeListener {
    fn collect(&self) {
        self.events
            .borrow_mut()
            .extend(self.namespace.drain_events());
    }
}

impl Listener for FakeListener {
    fn heard(&mut self) -> Result<Vec<Event>, KernelError> {
        self.collect();
        let events = self.events.borrow();
        let news = events.get(self.heard..).unwrap_or_default().to_vec();
        self.heard = events.len();
        Ok(news)
    }
}

fn ask(namespace: &FakeNamespace, question: &Lookup) -> Answer {
    let mut flow = Flow::to(question.to);
    flow.from = question.from;
    flow.proto = question.proto;
    flow.sport = question.sport;
    flow.dport = question.dport;
    flow.mark = question.mark.unwrap_or(0);
    flow.tos = question.tos.unwrap_or(0);
    flow.uid = question.uid.unwrap_or(0);
    for (name, index) in [
        (&question.iif, &mut flow.iif),
        (&question.oif, &mut flow.oif),
    ] {
        if let Some(name) = name {
            match namespace.link(name) {
                Some(link) => *index = Some(link),
                None => return Answer::Other(format!("there is no link {name}")),
            }
        }
    }
    match namespace.lookup(&flow) {
        Err(errno) => Answer::Error(errno),
        Ok(way) => {
            let links = namespace.links();
            let link = links.into_iter().find(|link| link.index == way.dev);
            let dev = link.map_or_else(|| format!("if{}", way.dev), |link| link.name);
            Answer::Route {
                dev,
                via: way.via,
                table: Some(way.table),
            }
        }
    }
}
