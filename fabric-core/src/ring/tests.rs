//! Rings between ends that keep the rules, and ends that do not.
