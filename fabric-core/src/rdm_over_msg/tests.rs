//! Engines driven against each other over scripted connections, on a clock of the test's.

mod at;
mod connecting;
mod dice;
mod hostile;
mod node;
mod pressure;
mod storm;
mod traffic;
mod world;
