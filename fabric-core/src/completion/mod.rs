//! Completions: queues of entries, counters, and the wait objects that go with them.

mod counter;
mod cq;
mod entry;
mod interrupt;
#[cfg(all(test, loom))]
mod models;
mod progress;
mod queue;
mod report;
#[cfg(all(test, not(loom)))]
mod tests;

pub use counter::{Counter, CounterAttr, CounterValue};
pub use cq::{Cq, CqAttr, Read};
pub use entry::{CqError, Entry, EntryBuf, format_size};
pub use progress::ProgressSet;
pub use queue::CompletionQueue;
pub use report::{CqBinding, Interest, Report};
