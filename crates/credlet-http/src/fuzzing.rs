//! Entry points of `fuzz/fuzz_targets` into parsers that are private otherwise. Not part of the public interface.

use std::io::Cursor;

use super::no_proxy::NoProxy;
use super::route::BoxedStream;
use super::tunnel;
use super::{HostPort, ProxyAddr};

/// Whether `NO_PROXY` with this value exempts this host.
pub fn is_exempt(no_proxy: &str, host: &str, port: u16) -> bool {
    NoProxy::parse(no_proxy).exempts(host, port)
}

/// Asks a proxy for a tunnel that sends exactly `responses`. Returns whether it was opened; the error is what would be shown
/// to the user.
///
/// # Errors
/// Why the tunnel was not opened.
pub async fn open_tunnel(proxy: &ProxyAddr, target: &HostPort, responses: Vec<u8>) -> Result<(), String> {
    let wire: BoxedStream = Box::new(tokio::io::join(Cursor::new(responses), tokio::io::sink()));
    tunnel::open(wire, proxy, target).await.map(drop)
}
