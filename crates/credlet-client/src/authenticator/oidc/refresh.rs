//! Refresh request of RFC 6749, section 6, like client-go and golang.org/x/oauth2.

use std::sync::atomic::{AtomicBool, Ordering};

use credlet_api::Secret;
use credlet_api::oidc::{self, TokenResponse};
use credlet_exec::Platform;
use credlet_http::fetch::{FetchLimits, FetchResponse, HttpFetcher, query_escape};
use credlet_http::{CryptoBackend, ServerAddr};
use credlet_oidc::{ClientCredentials, IssuerHttp, IssuerRequestError, OidcEndpoint, decode_response};
use http::StatusCode;

use super::REFRESH_TIMEOUT;
use super::error::OidcError;
use super::settings::ProviderSettings;

/// Retries of a request that the issuer did not process.
const MAX_RETRIES: u8 = 2;

/// Refreshes the tokens. Returns the response and the host of the token endpoint. The response may lack an ID token: the caller
/// must save its refresh token before it reports that.
pub(super) async fn refresh(
    settings: &ProviderSettings,
    refresh_token: &Secret,
    secret_in_body: &AtomicBool,
    crypto: &CryptoBackend,
    platform: &Platform,
) -> Result<(TokenResponse, String), OidcError> {
    let (issuer, issuer_url) = settings.issuer()?;
    if refresh_token.is_empty() {
        return Err(OidcError::Missing(super::settings::REFRESH_TOKEN));
    }
    let id = settings.client_id()?.expose();
    let fetcher = HttpFetcher::new(platform.clock.clone(), platform.env.clone())
        .with_crypto(crypto.clone())
        .with_roots(settings.roots()?)
        .with_max_retries(MAX_RETRIES);
    let http = IssuerHttp {
        fetcher,
        limits: FetchLimits::with_timeout(REFRESH_TIMEOUT),
        headers: Vec::new(),
        encode: query_escape,
    };
    let failed = |error| OidcError::from_request(error, &issuer);
    // Unlike credlet's own plugin, client-go does not compare the `issuer` of the document.
    let url = http.metadata(issuer_url).await.map_err(failed)?.token_endpoint;
    check_token_endpoint(&issuer, &url)?;

    let endpoint = OidcEndpoint::Token;
    let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose())];
    let secret = &settings.client_secret();
    let mut client = ClientCredentials { id, secret, in_form: secret_in_body.load(Ordering::Relaxed) };
    let mut response = http.post(endpoint, &url, &fields, client).await.map_err(failed)?;
    if !client.in_form && may_require_body_secret(&response) {
        client.in_form = true;
        response = http.post(endpoint, &url, &fields, client).await.map_err(failed)?;
    }
    let (status, host) = (response.status, response.host.clone());
    if !status.is_success() {
        return Err(match (status, oidc::token_error_code(response.body())) {
            (_, Some("invalid_grant")) => OidcError::RefreshToken { host },
            (_, Some("invalid_client" | "unauthorized_client")) | (StatusCode::UNAUTHORIZED, _) => {
                OidcError::Client { host }
            }
            (_, code) => failed(IssuerRequestError::ErrorStatus { what: endpoint, host, status, code }),
        });
    }
    secret_in_body.store(client.in_form, Ordering::Relaxed);
    let tokens = decode_response(endpoint, &response, TokenResponse::decode).map_err(failed)?;
    Ok((tokens, host))
}

/// Checks the token endpoint of the discovery document, which may be on another server.
fn check_token_endpoint(issuer: &ServerAddr, url: &str) -> Result<(), OidcError> {
    let invalid = |reason| Err(OidcError::TokenEndpoint { host: issuer.to_string(), reason });
    match ServerAddr::parse(url) {
        _ if url.is_empty() => invalid("is empty"),
        Ok(server) if server.is_https() => Ok(()),
        _ => invalid("is not an https URL"),
    }
}

/// Returns whether the issuer may have rejected the client because its secret was in the header. x/oauth2 tries the other form
/// after every failure; credlet does not after `invalid_grant`, because an issuer that detects reuse must not see the refresh
/// token twice.
fn may_require_body_secret(response: &FetchResponse) -> bool {
    let status = [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&response.status);
    status && oidc::token_error_code(response.body()) != Some("invalid_grant")
}
