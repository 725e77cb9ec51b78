//! The safe interface, on every provider that a host without special hardware has.

mod connections;
mod examples;
mod faults;
mod futures;
mod lifetimes;
mod messages;
mod one_sided;
mod pair;
mod scopes;
mod shared_receives;
