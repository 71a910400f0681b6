//! Generates messages, clients and servers from `proto/*.proto`.
//!
//! protox compiles the definitions, so that a build needs no `protoc`.

use std::error::Error;

const FOLDER: &str = "proto";
const FILES: [&str; 4] = [
    "networkservice.proto",
    "connection.proto",
    "connectioncontext.proto",
    "registry.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo::rerun-if-changed={FOLDER}/{file}");
    }
    let definitions = protox::compile(FILES, [FOLDER])?;
    tonic_prost_build::configure()
        // Sorted maps: the same message is the same bytes, every time.
        .btree_map(".")
        .compile_fds(definitions)?;
    Ok(())
}
