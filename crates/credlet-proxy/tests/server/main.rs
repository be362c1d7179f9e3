//! Server tests with real sockets, TLS and processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod child_process;
mod group;
mod http;
mod lifecycle;
#[cfg(target_os = "linux")]
mod other_users;
mod pending;
mod policy;
mod rejection;
mod siblings;
mod signers;
mod socket_tls;
mod streams;
mod support;
mod tunnel;
mod user_presence;
