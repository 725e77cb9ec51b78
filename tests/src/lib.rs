//! Shared helpers of the suites: finding libraries and running programs.
