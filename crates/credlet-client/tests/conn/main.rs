//! Connections against real sockets: a server that does as it is told, one that writes HTTP/2 frame by frame, proxies.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "tests under load say how much they did, to whoever asks with --nocapture")]

mod faults;
mod http1;
mod pool;
mod proxies;
mod rotation;
mod support;
mod tls;
