//! An endpoint of the Network Service Mesh. `nse --help` tells its settings.

use std::process::ExitCode;

fn main() -> ExitCode {
    nse::main()
}
