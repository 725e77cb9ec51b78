//! Engines driven against each other over a network in memory.

mod calls;
mod connecting;
mod extensions;
mod net;
mod node;
mod remote;
mod storm;
mod traffic;
mod waits;
