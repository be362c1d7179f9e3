//! Refresh request of RFC 6749, section 6, like client-go and golang.org/x/oauth2.

use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use credlet_api::Secret;
use credlet_api::oidc::{self, DISCOVERY_PATH, ProviderMetadata, RefreshResponse};
use credlet_exec::Platform;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use zeroize::Zeroizing;

use super::error::{OidcEndpoint, OidcError};
use super::issuer_client::{IssuerClient, IssuerResponse};
use super::settings::ProviderSettings;
use credlet_http::{CryptoBackend, RequestBody, ServerAddr};

/// Refreshes the tokens. Returns the response and the host of the token endpoint. The response may lack an ID token: the caller
/// must save its refresh token before it reports that.
pub(super) async fn refresh(
    settings: &ProviderSettings,
    refresh_token: &Secret,
    secret_in_body: &AtomicBool,
    crypto: &CryptoBackend,
    platform: &Platform,
) -> Result<(RefreshResponse, String), OidcError> {
    let (issuer, url) = settings.issuer()?;
    if refresh_token.is_empty() {
        return Err(OidcError::Missing(super::settings::REFRESH_TOKEN));
    }
    let id = settings.client_id()?;
    let roots = settings.roots()?;
    let issuer = IssuerClient::new(OidcEndpoint::Discovery, issuer, roots.clone(), crypto, platform)?;
    let (server, url) = token_endpoint(&issuer, url).await?;
    let tokens = IssuerClient::new(OidcEndpoint::Token, server, roots, crypto, platform)?;
    let client = ClientCredentials { id, secret: settings.client_secret() };

    let invalid_url = || OidcError::TokenEndpoint { host: issuer.host(), reason: "is not a URL" };
    let mut in_body = secret_in_body.load(Ordering::Relaxed);
    let mut response = tokens.post(client.request(&url, refresh_token, in_body).ok_or_else(invalid_url)?).await?;
    if !in_body && may_require_body_secret(&response) {
        in_body = true;
        response = tokens.post(client.request(&url, refresh_token, in_body).ok_or_else(invalid_url)?).await?;
    }
    let host = tokens.host();
    if !response.status.is_success() {
        return Err(match (response.status, oidc::token_error_code(&response.body)) {
            (_, Some("invalid_grant")) => OidcError::RefreshToken { host },
            (_, Some("invalid_client" | "unauthorized_client")) | (StatusCode::UNAUTHORIZED, _) => {
                OidcError::Client { host }
            }
            (status, code) => OidcError::Status { endpoint: OidcEndpoint::Token, host, status, code },
        });
    }
    secret_in_body.store(in_body, Ordering::Relaxed);
    match RefreshResponse::decode(&response.body) {
        Ok(refreshed) => Ok((refreshed, host)),
        Err(fault) => Err(OidcError::InvalidResponse { endpoint: OidcEndpoint::Token, host, fault }),
    }
}

/// Returns the token endpoint of the discovery document, which may be on another server.
async fn token_endpoint(issuer: &IssuerClient, url: &str) -> Result<(ServerAddr, String), OidcError> {
    let host = issuer.host();
    let response = issuer.get(&format!("{url}{DISCOVERY_PATH}")).await?;
    if response.status != StatusCode::OK {
        return Err(OidcError::Status { endpoint: OidcEndpoint::Discovery, host, status: response.status, code: None });
    }
    let url = match ProviderMetadata::decode(&response.body) {
        Ok(metadata) => metadata.token_endpoint,
        Err(fault) => return Err(OidcError::InvalidResponse { endpoint: OidcEndpoint::Discovery, host, fault }),
    };
    match ServerAddr::parse(&url) {
        _ if url.is_empty() => Err(OidcError::TokenEndpoint { host, reason: "is empty" }),
        Ok(server) if server.is_https() => Ok((server, url)),
        _ => Err(OidcError::TokenEndpoint { host, reason: "is not an https URL" }),
    }
}

/// Returns whether the issuer may have rejected the client because its secret was in the header. x/oauth2 tries the other form
/// after every failure; credlet does not after `invalid_grant`, because an issuer that detects reuse must not see the refresh
/// token twice.
fn may_require_body_secret(response: &IssuerResponse) -> bool {
    let status = [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&response.status);
    status && oidc::token_error_code(&response.body) != Some("invalid_grant")
}

struct ClientCredentials<'a> {
    id: &'a Secret,
    secret: &'a str,
}

impl ClientCredentials<'_> {
    /// Builds the request, with the client credentials in the form body or in a `Basic` header. Returns `None` for an invalid URL.
    fn request(&self, url: &str, refresh_token: &Secret, in_body: bool) -> Option<Request<RequestBody>> {
        let (id, secret) = (form_encode(self.id.expose()), form_encode(self.secret));
        let token = form_encode(refresh_token.expose());
        let mut form = Zeroizing::new(format!("grant_type=refresh_token&refresh_token={}", *token));
        let mut request = Request::post(url)
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if in_body {
            form.push_str(&Zeroizing::new(format!("&client_id={}", *id)));
            if !secret.is_empty() {
                form.push_str(&Zeroizing::new(format!("&client_secret={}", *secret)));
            }
        } else {
            let pair = Zeroizing::new(format!("{}:{}", *id, *secret));
            let text = Zeroizing::new(format!("Basic {}", *Zeroizing::new(STANDARD.encode(pair.as_bytes()))));
            let mut value = HeaderValue::from_str(&text).ok()?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        // Zeroized when the last reference is dropped.
        let body = Bytes::from_owner(Zeroizing::new(form.as_bytes().to_vec()));
        request.body(body.into()).ok()
    }
}

/// Percent-encodes like `application/x-www-form-urlencoded`, which RFC 6749, section 2.3.1, also requires in the header.
fn form_encode(text: &str) -> Zeroizing<String> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    // Full capacity at once: a growing string leaves copies of the secret in freed memory.
    let mut escaped = Zeroizing::new(String::with_capacity(text.len() * 3));
    for byte in text.bytes() {
        match byte {
            b' ' => escaped.push('+'),
            byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => escaped.push(char::from(byte)),
            byte => {
                escaped.push('%');
                escaped.push(char::from(HEX[usize::from(byte >> 4)]));
                escaped.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_encodes_client_credentials() {
        assert_eq!(&**form_encode("a b+c/ü~:"), "a+b%2Bc%2F%C3%BC~%3A");
    }
}
