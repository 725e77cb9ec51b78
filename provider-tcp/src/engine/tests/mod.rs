//! Engines driven against each other over a network in memory.

mod connecting;
mod extensions;
mod net;
mod node;
mod remote;
mod storm;
mod traffic;
mod waits;
