//! One random step, from a small world, so that steps meet.

use super::dice::Dice;
use super::{routes, rules};
use crate::objects::net;
use crate::world::{LO, World, own};
use ipnet::IpNet;
use nsm_netlink::fake::FakeNamespace;
use nsm_netlink::{Family, Op, Placement, Refusal, Route, Rule};
use std::fmt;

/// Which steps are rolled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    Rules,
    Routes,
    Everything,
}

/// What is done to a namespace.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Do(Op),
    Unnumbered(Rule),
    Prepend(Route),
    Replace(Route),
    Multipath(Vec<Route>),
    Up(u32),
    Down(u32),
    Delete(u32),
    Forbid(u32),
    AddAddress(u32, IpNet),
    RemoveAddress(u32, IpNet),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Do(Op::AddRoute(route, Placement::Append)) => {
                write!(f, "append route {}", show(route))
            }
            Self::Do(op) => op.fmt(f),
            Self::Unnumbered(rule) => write!(f, "add unnumbered {rule}"),
            Self::Prepend(route) => write!(f, "prepend {}", show(route)),
            Self::Replace(route) => write!(f, "replace {}", show(route)),
            Self::Multipath(legs) => {
                write!(f, "add multipath")?;
                legs.iter()
                    .try_for_each(|leg| write!(f, " [{}]", show(leg)))
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// A route in words, the part of a multipath route that it is included.
pub(crate) fn show(route: &Route) -> String {
    format!(
        "{} ({:?})",
        route.display(|index| Some(format!("if{index}"))),
        route.part
    )
}

impl Step {
    pub(crate) fn roll(dice: &mut Dice, kinds: Kinds, fake: &FakeNamespace) -> Self {
        let family = dice.pick(&Family::ALL);
        match kinds {
            Kinds::Rules => rules::roll(dice, family, fake),
            Kinds::Routes => routes::roll(dice, family, fake),
            Kinds::Everything if dice.one_in(4) => roll_interface(dice, family, fake),
            Kinds::Everything if dice.one_in(3) => rules::roll(dice, family, fake),
            Kinds::Everything => routes::roll(dice, family, fake),
        }
    }

    /// Does it. What is done by the kernel trait gives the kernel's answer with its words.
    pub(crate) fn run<W: World>(&self, world: &W) -> Result<(), Option<Refusal>> {
        let could = |could: bool| could.then_some(()).ok_or(None);
        match self {
            Self::Do(op) => return world.try_do(op.clone()).map_err(Some),
            Self::Unnumbered(rule) => return could(world.add_rule_unnumbered(rule)),
            Self::Prepend(route) => return could(world.prepend(route)),
            Self::Replace(route) => return could(world.replace(route)),
            Self::Multipath(legs) => return could(world.add_multipath(legs)),
            Self::Up(index) => world.set_up(*index),
            Self::Down(index) => world.set_down(*index),
            Self::Delete(index) => world.delete_link(*index),
            Self::Forbid(index) => world.set_ipv6(*index, false),
            Self::AddAddress(index, address) => world.add_address(*index, *address),
            Self::RemoveAddress(index, address) => world.remove_address(*index, *address),
        }
        Ok(())
    }
}

fn roll_interface(dice: &mut Dice, family: Family, fake: &FakeNamespace) -> Step {
    let links: Vec<_> = fake
        .links()
        .into_iter()
        .filter(|link| link.index != LO)
        .collect();
    let Some(link) = (!links.is_empty()).then(|| dice.pick(&links)) else {
        return rules::roll(dice, family, fake);
    };
    let index = link.index;
    let address = match (family, dice.below(3)) {
        (_, 0) => own(family, index - 1),
        // A second one in the first one's network.
        (Family::V4, 1) => net(&format!("172.16.{}.9/24", index - 1)),
        _ => own(family, 7),
    };
    match dice.below(12) {
        0 if dice.one_in(2) => Step::Delete(index),
        1..=4 if link.up => Step::Down(index),
        1..=4 => Step::Up(index),
        5 if dice.one_in(2) => Step::Forbid(index),
        6..=8 if fake.addresses(index).contains(&address) => Step::RemoveAddress(index, address),
        6..=8 if family == Family::V4 => Step::AddAddress(index, address),
        _ => Step::Up(index),
    }
}
