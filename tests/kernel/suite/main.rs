//! What the kernel does with rules and routes, as far as anything here relies on it.
//!
//! Every behaviour runs twice: on the fake kernel, which so can't drift, and on the real one, each
//! time in a new namespace. `random` then lets both do the same random work and compares.
//! `NSM_LISTS=N` sets how many lists, `NSM_SEED=N` the first one's seed.

// A test that fails panics, and without the standard harness the lints don't know that it is one.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod bursts;
mod dumps;
mod events;
mod faults;
mod interfaces;
mod legs;
mod lookups;
mod next_hops;
mod objects;
mod random;
mod route_deletes;
mod routes;
mod rule_deletes;
mod rule_fields;
mod rules;
mod world;

use kernel_suite::sandbox;
use libtest_mimic::{Arguments, Trial};
use nsm_netlink::fake::FakeNamespace;
use std::process::ExitCode;
use world::{Real, World};

/// One test: its name, which is a sentence, and what it does.
type Behaviour = (&'static str, fn());

/// The behaviours of a file, each generic over the kernel.
macro_rules! behaviours {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn all<W: crate::World>() -> Vec<crate::Behaviour> {
            vec![$((stringify!($name), $name::<W> as fn())),*]
        }
    };
}
pub(crate) use behaviours;

fn every<W: World>() -> Vec<Behaviour> {
    [
        rules::all::<W>(),
        rule_fields::all::<W>(),
        rule_deletes::all::<W>(),
        routes::all::<W>(),
        legs::all::<W>(),
        route_deletes::all::<W>(),
        next_hops::all::<W>(),
        interfaces::all::<W>(),
        lookups::all::<W>(),
        dumps::all::<W>(),
        bursts::all::<W>(),
        events::all::<W>(),
        faults::all::<W>(),
    ]
    .concat()
}

fn trials(kernel: &str, behaviours: Vec<Behaviour>, runs: bool) -> Vec<Trial> {
    let trial = |(name, test): Behaviour| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(format!("{kernel}::{name}"), run).with_ignored_flag(!runs)
    };
    behaviours.into_iter().map(trial).collect()
}

fn main() -> ExitCode {
    // Before the first thread: libtest-mimic starts some.
    let sandboxed = match sandbox::enter_or_skip("all tests on the real kernel") {
        Ok(sandboxed) => sandboxed,
        Err(missing) => {
            eprintln!("error: {}", missing.explain());
            return ExitCode::FAILURE;
        }
    };
    let arguments = Arguments::from_args();
    let mut all = trials("fake", every::<FakeNamespace>(), true);
    all.extend(trials("kernel", every::<Real>(), sandboxed));
    all.extend(trials("both", random::all(), sandboxed));
    libtest_mimic::run(&arguments, all).exit_code()
}
