//! Where a flow plays: the world, the element at work in its pod, and a kernel for what is done there
//! by hand.

use crate::Error;
use crate::element::{Element, PROTOCOL};
use crate::stream::{Stream, narrower_prefix};
use crate::world::{Hop, Link, World};
use nsm_netlink::{Kernel, Namespace, Op, Placement, Route, Rtnl, Rule, Selector};

/// The place of one measurement.
#[derive(Debug)]
pub struct Stage {
    /// The namespaces.
    pub world: World,
    /// The element.
    pub element: Element,
    /// What is sent.
    pub stream: Stream,
    kernel: Rtnl,
}

impl Stage {
    /// A world in which nothing has happened yet.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(stream: Stream) -> Result<Self, Error> {
        let world = World::new()?;
        let element = Element::start(&world)?;
        let kernel = world.pod().open()?;
        Ok(Self {
            world,
            element,
            stream,
            kernel,
        })
    }

    /// The element's first rule of a selector.
    ///
    /// # Errors
    /// When there is none.
    pub fn rule_of(&mut self, selector: &Selector) -> Result<Rule, Error> {
        let rules = self.kernel.rules(selector.family)?.items;
        let ours = |rule: &Rule| rule.selector == *selector && rule.protocol == PROTOCOL;
        let rule = rules.into_iter().find(ours);
        Ok(rule.ok_or_else(|| format!("the element has no rule {selector}"))?)
    }

    /// The element's rule of the stream.
    ///
    /// # Errors
    /// When there is none.
    pub fn rule(&mut self) -> Result<Rule, Error> {
        self.rule_of(&self.stream.selector())
    }

    /// A default route in the stream's family, as the element makes it.
    pub fn default_route(&self, table: u32, link: Link, hop: Hop) -> Route {
        let family = self.stream.family;
        let (dev, via) = (self.world.near(link), link.gateway(family, hop));
        Route::unicast(table, family.default_prefix(), dev, Some(via), PROTOCOL)
    }

    /// A route to the stream's destination that is taken in front of the default route.
    pub fn narrower_route(&self, table: u32) -> Route {
        let prefix = narrower_prefix(self.stream.family);
        Route {
            prefix,
            ..self.default_route(table, Link::Nsm0, Hop::B)
        }
    }

    /// Whether a route stands.
    ///
    /// # Errors
    /// When the routes cannot be read.
    pub fn has(&mut self, route: &Route) -> Result<bool, Error> {
        let routes = self
            .kernel
            .routes(route.family(), route.table..=route.table)?;
        Ok(routes.items.iter().any(|stands| stands.is_same_as(route)))
    }

    /// Writes by hand, in one message.
    ///
    /// # Errors
    /// When the kernel refuses any of it.
    pub fn write(&mut self, ops: &[Op]) -> Result<(), Error> {
        for (op, result) in ops.iter().zip(self.kernel.execute(ops)?) {
            result.map_err(|refusal| format!("cannot {op}: {refusal}"))?;
        }
        Ok(())
    }

    /// Adds a route by hand, behind those of its prefix.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn append(&mut self, route: &Route) -> Result<(), Error> {
        self.write(&[Op::AddRoute(route.clone(), Placement::Append)])
    }

    /// Puts one rule in place of another by hand, so that one of them stands at any time.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn swap_rule(&mut self, old: &Rule, new: &Rule) -> Result<(), Error> {
        self.write(&[Op::AddRule(new.clone())])?;
        self.write(&[Op::DelRule(old.clone())])
    }
}
