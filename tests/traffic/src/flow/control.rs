//! The negative control: what must leak, so that a figure of zero says something.

use super::Flow;
use super::element::covering;
use crate::Error;
use crate::stage::Stage;
use crate::world::Hop;
use nsm_netlink::{Op, Rule};

/// See [`Name::Control`](super::Name::Control).
#[derive(Debug)]
pub struct Control(Rule);

impl Control {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        stage.element.request(&covering(Hop::A))?;
        Ok(Self(stage.rule()?))
    }
}

impl Flow for Control {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        stage.write(&[Op::DelRule(self.0.clone())])?;
        stage.write(&[Op::AddRule(self.0.clone())])
    }
}
