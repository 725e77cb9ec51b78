//! Engines driven against each other over a network in memory.

mod calls;
mod cancel;
mod claims;
mod connecting;
mod dice;
mod extensions;
mod leaving;
mod net;
mod node;
mod pressure;
mod remote;
mod sleeping;
mod storm;
mod stranger;
mod traffic;
mod waits;
