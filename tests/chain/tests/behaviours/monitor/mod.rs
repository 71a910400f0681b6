//! Behaviours of `monitor`: those who listen hear what becomes of connections, over any number of
//! hops.

mod hop;
mod hub;
mod layer;
mod relay;
