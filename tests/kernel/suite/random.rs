//! Random work, done by the fake kernel and by the real one, must end alike at every step.

mod dice;
mod lookups;
mod routes;
mod rules;
mod step;

use crate::Behaviour;
use crate::objects::{TABLE, rule};
use crate::world::{Real, World};
use dice::Dice;
use nsm_netlink::fake::FakeNamespace;
use nsm_netlink::{Family, Kernel, Op};
use std::env;
use std::fmt::Debug;
use std::ops::Range;
use step::{Kinds, Step};

/// How many lists, of all kinds together, and how many steps of one.
const LISTS: u64 = 640;
const STEPS: usize = 24;

pub(crate) fn all() -> Vec<Behaviour> {
    vec![
        ("random_lists_of_rules_end_alike", || {
            lists(Kinds::Rules, LISTS / 4)
        }),
        ("random_lists_of_routes_end_alike", || {
            lists(Kinds::Routes, LISTS / 2)
        }),
        ("random_lookups_lead_the_same_way", || ways(LISTS / 16)),
        ("random_lists_of_everything_end_alike", || {
            lists(Kinds::Everything, LISTS / 4)
        }),
    ]
}

fn lists(kinds: Kinds, default: u64) {
    for seed in seeds(default) {
        list(kinds, seed);
    }
}

fn seeds(default: u64) -> Range<u64> {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = number("NSM_SEED").unwrap_or(1);
    first..first + number("NSM_LISTS").unwrap_or(default)
}

/// Runs one list of steps on both kernels.
fn list(kinds: Kinds, seed: u64) {
    let mut dice = Dice::new(seed);
    let (fake, real) = (FakeNamespace::pod(), Real::pod());
    let mut done: Vec<String> = Vec::new();
    for _ in 0..STEPS {
        let step = Step::roll(&mut dice, kinds, &fake);
        done.push(step.to_string());
        let outcomes = [step.run(&fake), step.run(&real)];
        let same = |what: &str, [fake, real]: [Vec<String>; 2]| {
            let (fake_text, real_text) = (fake.join("\n"), real.join("\n"));
            assert!(
                fake == real,
                "seed {seed}: {what} differ after\n  {}\n--- fake\n{fake_text}\n--- real\n{real_text}\n\
                 again: NSM_SEED={seed} NSM_LISTS=1",
                done.join("\n  "),
            );
        };
        same(
            "outcomes",
            outcomes.map(|outcome| vec![format!("{outcome:?}")]),
        );
        same("links", [links(&fake), links(&real)]);
        for family in Family::ALL {
            same("rules", [rules_of(&fake, family), rules_of(&real, family)]);
            same(
                "routes",
                [routes_of(&fake, family), routes_of(&real, family)],
            );
        }
        same("events", [events(&fake), events(&real)]);
    }
}

/// Builds both kernels alike and asks them for the way of random packets.
fn ways(default: u64) {
    for seed in seeds(default) {
        let mut dice = Dice::new(seed);
        let (fake, real) = (FakeNamespace::pod(), Real::pod());
        let mut done: Vec<String> = Vec::new();
        // Until there is a rule IPv4 keeps `local` and `main` in one tree, and says `main` of both.
        let first = Op::AddRule(rule(Family::V4, 50000, TABLE));
        fake.must([first.clone()]);
        real.must([first]);
        for _ in 0..STEPS {
            let op = lookups::op(&mut dice);
            done.push(op.to_string());
            assert_eq!(fake.try_do(op.clone()), real.try_do(op), "seed {seed}");
        }
        for _ in 0..8 {
            let flow = lookups::flow(&mut dice);
            let [fake, real] = [World::lookup(&fake, &flow), real.lookup(&flow)];
            assert!(
                fake == real,
                "seed {seed}: {flow:?}\nfake {fake:?}\nreal {real:?} after\n  {}",
                done.join("\n  ")
            );
        }
    }
}

fn links<W: World>(world: &W) -> Vec<String> {
    lines(world.kernel().links().unwrap())
}

/// In words, for who reads, and in full, for the comparison.
fn rules_of<W: World>(world: &W, family: Family) -> Vec<String> {
    let rules = world.all_rules(family);
    rules
        .iter()
        .map(|rule| format!("{rule}    {rule:?}"))
        .collect()
}

fn routes_of<W: World>(world: &W, family: Family) -> Vec<String> {
    let routes = world.all_routes(family);
    routes
        .iter()
        .map(|route| format!("{}    {route:?}", step::show(route)))
        .collect()
}

fn events<W: World>(world: &W) -> Vec<String> {
    lines(world.events())
}

fn lines<T: Debug>(items: Vec<T>) -> Vec<String> {
    items.iter().map(|item| format!("{item:?}")).collect()
}
