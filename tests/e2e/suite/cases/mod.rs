//! The cases, by what they are about.

use libtest_mimic::Trial;

/// Trials of these functions, under their names.
macro_rules! trials {
    ($($case:ident),+ $(,)?) => {
        vec![$(libtest_mimic::Trial::test(stringify!($case), || {
            $case();
            Ok(())
        })),+]
    };
}

mod acceptance;
mod bad_calls;
mod bad_peers;
mod changes;
mod clocks;
mod closes;
mod deadlines;
mod descriptors;
mod endpoint;
mod endpoints;
mod ends;
mod expiry;
mod gone;
mod heals;
mod kills;
mod long_run;
mod lost_answers;
mod names;
mod policy_file;
mod refreshes;
mod restarts;
mod returns;
mod socket_paths;
mod sockets;
mod stubborn;
mod telemetry;

/// All of them.
pub fn all() -> Vec<Trial> {
    let all = [
        acceptance::all(),
        bad_peers::all(),
        changes::all(),
        clocks::all(),
        closes::all(),
        deadlines::all(),
        descriptors::all(),
        endpoint::all(),
        endpoints::all(),
        ends::all(),
        expiry::all(),
        gone::all(),
        heals::all(),
        kills::all(),
        long_run::all(),
        lost_answers::all(),
        names::all(),
        policy_file::all(),
        refreshes::all(),
        restarts::all(),
        returns::all(),
        socket_paths::all(),
        sockets::all(),
        stubborn::all(),
        telemetry::all(),
    ];
    all.into_iter().flatten().collect()
}
