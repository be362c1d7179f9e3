//! The token of OKE: a signed request that the cluster sends on, as OCI's HTTP signatures have it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use credlet_client::conn::Server;
use jiff::{SignedDuration, Timestamp};
use zeroize::Zeroizing;

use super::config::Signer;
use crate::oauth::{Algorithm, Error, RsaKey};
use crate::web::escaped;

/// The server takes it for five minutes; the last one is for the clocks.
const LIFE: SignedDuration = SignedDuration::from_mins(4);

/// Whom the request is for. oci-cli signs for this host in every realm, also in those whose own names end otherwise, and
/// clusters know no other client.
pub(super) fn endpoint(region: &str) -> String {
    format!("https://containerengine.{region}.oraclecloud.com")
}

/// Signs the request for this cluster.
pub(super) fn token(
    cluster: &str,
    endpoint: &str,
    signer: &Signer,
    now: Timestamp,
) -> Result<ExecCredentialStatus, Error> {
    let key = RsaKey::from_pem(signer.key.as_bytes(), "the signing key")?;
    let host = host(endpoint).ok_or_else(|| Error::config("--endpoint", "is not an address like https://host"))?;
    let path = format!("/cluster_request/{cluster}");
    let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let signature =
        key.sign(Algorithm::Rs256, format!("date: {date}\n(request-target): get {path}\nhost: {host}").as_bytes())?;
    let authorization = Zeroizing::new(format!(
        "Signature algorithm=\"rsa-sha256\",headers=\"date (request-target) host\",keyId=\"{}\",signature=\"{}\",version=\"1\"",
        signer.key_id.expose(),
        STANDARD.encode(signature),
    ));
    let url = Zeroizing::new(format!(
        "{}{path}?authorization={}&date={}",
        endpoint.trim_end_matches('/'),
        *form_encoded(&authorization),
        *form_encoded(&date),
    ));
    let token = Secret::new(URL_SAFE.encode(url.as_bytes()));
    let end = now.checked_add(LIFE).unwrap_or(now);
    // A signature is worth nothing once its session is over.
    let end = signer.session.as_ref().and_then(credlet_api::oidc::expiry).map_or(end, |session| session.min(end));
    Ok(ExecCredentialStatus::token(token).expiring(end))
}

/// As it stands in the address, with a port only if that has one.
fn host(endpoint: &str) -> Option<&str> {
    Server::parse(endpoint).ok()?;
    let (_, rest) = endpoint.split_once("://")?;
    rest.split('/').next()
}

/// As forms have it: a blank is a plus.
fn form_encoded(text: &str) -> Zeroizing<String> {
    Zeroizing::new(escaped(text).replace("%20", "+"))
}
