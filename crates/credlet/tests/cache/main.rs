//! `credlet cache` in front of real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod hits;
mod keys;
mod managing;
mod refusals;
mod stand;
mod storms;
mod terminal;
