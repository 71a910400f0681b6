//! The command line.

use clap::{Parser, value_parser};

/// Starts a client, a forwarder and two endpoints, each as a process in a network namespace, and
/// shows what becomes of the client's traffic when the forwarder dies.
///
/// The client has a connection to each endpoint, and each endpoint hands it policies: what comes
/// from this address leaves by this connection. The forwarder is killed and its interfaces are
/// deleted, again and again; then it is replaced in order, and in the end the client closes its
/// connections.
///
/// Everything happens in namespaces that end with the process. Root is not needed where the system
/// lets ordinary users make user namespaces.
#[derive(Debug, Clone, Parser)]
#[command(
    version,
    after_help = "Exit status: 0 all is well, 1 something is not, 2 it cannot run here, 130 interrupted."
)]
pub struct Arguments {
    /// How often the forwarder is killed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u16).range(1..=1000))]
    pub restarts: u16,

    /// Keep everything running after the restarts, until Ctrl-C, and tell how to look around
    #[arg(long)]
    pub keep: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }
}
