//! Nothing but tests: see `tests/layout.rs`.
