//! `credlet cache` in front of real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod directories;
mod faults;
mod hits;
mod invalidation;
mod keys;
mod login_cooldown;
mod management;
mod rejection;
mod sandbox;
mod terminal;
