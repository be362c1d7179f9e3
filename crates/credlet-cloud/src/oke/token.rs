//! OKE tokens: a signed request URL (OCI HTTP signatures), which the cluster forwards to OCI.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use credlet_http::ServerAddr;
use jiff::{SignedDuration, Timestamp};
use zeroize::Zeroizing;

use super::config::OciSigner;
use crate::oauth::{JwsAlgorithm, RsaSigningKey, TokenError};
use credlet_http::fetch::percent_encode;

/// Lifetime of a token: OCI accepts it for five minutes; one minute is reserved for clock skew.
const LIFETIME: SignedDuration = SignedDuration::from_mins(4);

/// The URL to sign for. oci-cli uses this domain in every realm, including those with another domain, and clusters expect
/// it.
pub(super) fn endpoint(region: &str) -> String {
    format!("https://containerengine.{region}.oraclecloud.com")
}

/// The signed token of a cluster.
pub(super) fn token(
    cluster: &str,
    endpoint: &str,
    signer: &OciSigner,
    now: Timestamp,
) -> Result<ExecCredentialStatus, TokenError> {
    let key = RsaSigningKey::from_pem(signer.key.as_bytes(), "signing key")?;
    let host =
        host(endpoint).ok_or_else(|| TokenError::invalid_setting("--endpoint", "not a URL such as https://host"))?;
    let path = format!("/cluster_request/{cluster}");
    let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let signature =
        key.sign(JwsAlgorithm::Rs256, format!("date: {date}\n(request-target): get {path}\nhost: {host}").as_bytes())?;
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
    let end = now.checked_add(LIFETIME).unwrap_or(now);
    // A signature is not valid beyond its session.
    let end = signer.session.as_ref().and_then(credlet_api::oidc::jwt_expiry).map_or(end, |session| session.min(end));
    Ok(ExecCredentialStatus::token(token).with_expiration(end))
}

/// Returns host and port exactly as in the URL.
fn host(endpoint: &str) -> Option<&str> {
    ServerAddr::parse(endpoint).ok()?;
    let (_, rest) = endpoint.split_once("://")?;
    rest.split('/').next()
}

/// Encodes form data: like percent-encoding, with `+` for a space.
fn form_encoded(text: &str) -> Zeroizing<String> {
    Zeroizing::new(percent_encode(text).replace("%20", "+"))
}
