//! A client of the Network Service Mesh. `nsc --help` tells its settings.

use std::process::ExitCode;

fn main() -> ExitCode {
    nsc::main()
}
