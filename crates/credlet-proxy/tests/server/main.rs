//! The server half, with real sockets, real TLS and real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod group;
mod guard;
mod hop;
mod http;
mod life;
mod neighbours;
mod person;
mod policy;
mod roles;
mod signers;
mod streams;
mod support;
mod tunnel;
