//! Two connections that have ceased to speak HTTP, handed to each other.

use credlet_client::conn::Body;
use http::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::sync::watch;

use super::metrics::InFlight;
use super::stack::Reply;

/// The answer for the client. When it has gone out, bytes go both ways until both sides have ended theirs: one that has
/// said all may still listen. At the end of the proxy they are cut.
pub(super) fn join(
    client: OnUpgrade,
    mut response: Response<Body>,
    mut in_flight: InFlight,
    mut ending: watch::Receiver<bool>,
) -> Response<Reply> {
    const BUFFER: usize = 64 << 10;
    in_flight.upgrade();
    let server = hyper::upgrade::on(&mut response);
    tokio::spawn(async move {
        let joined = async {
            let (Ok(client), Ok(server)) = tokio::join!(client, server) else { return };
            let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
            // How it ended is known to those who spoke.
            let _ = copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER).await;
        };
        tokio::select! {
            () = joined => {}
            _ = ending.wait_for(|ending| *ending) => {}
        }
        drop(in_flight);
    });
    // `Upgrade` and `Connection` are what this answer is about, so they stay.
    response.extensions_mut().clear();
    response.map(|_| Reply::whole(""))
}
