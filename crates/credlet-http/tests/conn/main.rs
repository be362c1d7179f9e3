//! Connections over real sockets: a controllable server, a server that writes HTTP/2 frame by frame, proxies.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "load tests print their counts with --nocapture")]

mod faults;
mod http1;
mod pool;
mod proxies;
mod rotation;
mod support;
mod tls;
