//! Behaviours of the chain and its elements. Those of `trace` are a program of their own, for a log
//! belongs to a whole process.

mod a_day;
mod begin_events;
mod begin_failures;
mod begin_memory;
mod begin_reselect;
mod begin_turns;
mod client_info;
mod deadline;
mod excluded_prefixes;
mod heal;
mod hops;
mod mechanisms;
mod metadata;
mod monitor;
mod refresh;
mod retry;
mod test_util;
mod timeout;
mod token;
mod update_path;
