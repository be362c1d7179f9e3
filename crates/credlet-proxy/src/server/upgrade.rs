//! Tunnels between upgraded connections.

use credlet_http::ResponseBody;
use http::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::sync::watch;

use super::metrics::InFlightGuard;
use super::pipeline::ProxyBody;

/// Returns the `101` response for the client. After it is sent, bytes are copied in both directions until both sides
/// are closed; half-closed connections stay open. Shutdown closes the tunnel.
pub(super) fn join(
    client: OnUpgrade,
    mut response: Response<ResponseBody>,
    mut in_flight: InFlightGuard,
    mut shutdown: watch::Receiver<bool>,
) -> Response<ProxyBody> {
    const BUFFER: usize = 64 << 10;
    in_flight.upgrade();
    let server = hyper::upgrade::on(&mut response);
    tokio::spawn(async move {
        let joined = async {
            let (Ok(client), Ok(server)) = tokio::join!(client, server) else { return };
            let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
            // Both ends see the error themselves.
            let _ = copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER).await;
        };
        tokio::select! {
            () = joined => {}
            _ = shutdown.wait_for(|shutdown| *shutdown) => {}
        }
        drop(in_flight);
    });
    // `Upgrade` and `Connection` stay, because they belong to a `101`.
    response.extensions_mut().clear();
    response.map(|_| ProxyBody::whole(""))
}
