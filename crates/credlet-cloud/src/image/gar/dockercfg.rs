//! Legacy flows: a `.dockercfg` in the node's metadata, or at a URL in the node's metadata.

use std::collections::BTreeMap;

use credlet_api::image::{AuthConfig, DockerAuths};
use credlet_exec::Platform;
use http::StatusCode;
use zeroize::Zeroizing;

use crate::gcp::GoogleClient;
use crate::oauth::TokenError;
use credlet_http::fetch::{FetchRequest, HttpFetcher};

const WHAT: &str = ".dockercfg of the node";

/// Returns all credentials of the file: its author chose the registries.
pub(super) async fn fetch(
    google: &GoogleClient,
    platform: &Platform,
    by_address: bool,
) -> Result<BTreeMap<String, AuthConfig>, TokenError> {
    let failed = |source| TokenError::Request { what: WHAT.to_owned(), source };
    if !by_address {
        let text = Zeroizing::new(google.metadata_value("instance/attributes/google-dockercfg").await?);
        return auths(text.as_bytes());
    }
    let address = google.metadata_value("instance/attributes/google-dockercfg-url").await?;
    if !address.starts_with("http") {
        return Err(TokenError::invalid_setting("node attribute google-dockercfg-url", "not a URL"));
    }
    let response = HttpFetcher::new(platform.clock.clone(), platform.env.clone())
        .fetch(FetchRequest::get(address))
        .await
        .map_err(failed)?;
    if response.status != StatusCode::OK {
        return Err(failed(response.invalid_response("it is not a .dockercfg")));
    }
    auths(response.body())
}

fn auths(text: &[u8]) -> Result<BTreeMap<String, AuthConfig>, TokenError> {
    let auths = DockerAuths::from_dockercfg(text);
    auths.map(|auths| auths.0).map_err(|error| TokenError::invalid_setting(WHAT, error.to_string()))
}
