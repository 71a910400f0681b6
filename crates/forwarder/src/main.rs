//! A forwarder of the Network Service Mesh. `forwarder --help` tells its settings.

use std::process::ExitCode;

fn main() -> ExitCode {
    forwarder::main()
}
