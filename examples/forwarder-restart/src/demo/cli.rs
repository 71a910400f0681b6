//! The command line.

use clap::{ColorChoice, Parser, value_parser};
use serde::Serialize;

/// Shows what becomes of a pod's policy routes when the forwarder restarts.
///
/// It makes a pod of its own, connects it through a chain with the policyroute middleware, sends
/// datagrams from the source of every policy, and restarts the forwarding side again and again: it
/// deletes the interfaces, forgets all that it knew, makes the interfaces anew, and lets the
/// connections return shuffled and at once. Then it says what became of the rules, the tables and
/// the datagrams.
///
/// Everything happens in namespaces that end with the process. Root is not needed where the system
/// lets ordinary users make user namespaces.
#[derive(Debug, Clone, Parser)]
#[command(
    version,
    after_help = "Exit status: 0 all is well, 1 something is not, 2 it cannot run here, 130 interrupted."
)]
pub struct Arguments {
    /// How often the forwarding side restarts
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u16).range(1..=1000))]
    pub restarts: u16,

    /// How many connections the pod has, each with an interface of its own
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u16).range(1..=50))]
    pub connections: u16,

    /// How many policies each connection has in IPv4, and as many in IPv6
    #[arg(long, value_name = "M", default_value_t = 2, value_parser = value_parser!(u16).range(1..=40))]
    pub policies: u16,

    /// Refuse a policy's traffic while its interface is gone, instead of letting it leave by eth0
    #[arg(long, conflicts_with = "recreate")]
    pub fail_closed: bool,

    /// Recover by deleting and adding rules, as forwarders did before: this must go wrong
    #[arg(long)]
    pub recreate: bool,

    /// Print one JSON object in place of the report
    #[arg(long)]
    pub json: bool,

    /// In which order connections return; without it another order each time
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Colour the report; `auto` does on a terminal and where NO_COLOR is not set
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
}

impl Arguments {
    /// How rules are found again.
    pub fn recovery(&self) -> Recovery {
        match (self.recreate, self.fail_closed) {
            (true, _) => Recovery::Recreate,
            (false, true) => Recovery::ReattachFailClosed,
            (false, false) => Recovery::Reattach,
        }
    }
}

/// How the forwarding side finds a connection's rules again after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// The middleware keeps what stands.
    Reattach,
    /// The same, and what cannot leave by its interface does not leave.
    ReattachFailClosed,
    /// Rules are deleted and made anew.
    Recreate,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_two_ways_of_recovery_exclude_each_other() {
        let both = ["forwarder-restart", "--recreate", "--fail-closed"];

        assert!(Arguments::try_parse_from(both).is_err());
    }
}
