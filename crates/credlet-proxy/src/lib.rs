//! The client exec proxy (KEP-2718): a plugin that stays alive, is reached over a Unix socket, and signs each request
//! or holds the TLS key.

pub mod client;
pub mod dir;
pub mod endpoint;
pub mod server;
pub mod sign;
