//! From a refresh token to new tokens, as client-go and golang.org/x/oauth2 do it.

use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use credlet_api::Secret;
use credlet_api::oidc::{self, DISCOVERY_PATH, Refreshed};
use credlet_core::World;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use zeroize::Zeroizing;

use super::ask::{Answer, Asked};
use super::error::{Endpoint, OidcError};
use super::login::Login;
use crate::conn::{Crypto, Payload, Server};

/// Asks the issuer for new tokens. The ID token may be missing in what it gives; whoever calls this keeps the refresh
/// token first and complains afterwards.
pub(super) async fn refresh(
    login: &Login,
    refresh_token: &Secret,
    in_form: &AtomicBool,
    crypto: &Crypto,
    world: &World,
) -> Result<(Refreshed, String), OidcError> {
    let (issuer, url) = login.issuer()?;
    if refresh_token.is_empty() {
        return Err(OidcError::Missing(super::login::REFRESH_TOKEN));
    }
    let id = login.client_id()?;
    let roots = login.roots()?;
    let issuer = Asked::new(Endpoint::Discovery, issuer, roots.clone(), crypto, world)?;
    let (server, url) = token_endpoint(&issuer, url).await?;
    let tokens = Asked::new(Endpoint::Token, server, roots, crypto, world)?;
    let client = Credentials { id, secret: login.client_secret() };

    let unusable = || OidcError::TokenEndpoint { host: issuer.host(), reason: "is not a URL" };
    let mut form = in_form.load(Ordering::Relaxed);
    let mut answer = tokens.post(client.request(&url, refresh_token, form).ok_or_else(unusable)?).await?;
    if !form && may_want_a_form(&answer) {
        form = true;
        answer = tokens.post(client.request(&url, refresh_token, form).ok_or_else(unusable)?).await?;
    }
    let host = tokens.host();
    if !answer.status.is_success() {
        return Err(match (answer.status, oidc::refusal_code(&answer.body)) {
            (_, Some("invalid_grant")) => OidcError::RefreshToken { host },
            (_, Some("invalid_client" | "unauthorized_client")) | (StatusCode::UNAUTHORIZED, _) => {
                OidcError::Client { host }
            }
            (status, code) => OidcError::Status { what: Endpoint::Token, host, status, code },
        });
    }
    in_form.store(form, Ordering::Relaxed);
    match Refreshed::decode(&answer.body) {
        Ok(refreshed) => Ok((refreshed, host)),
        Err(fault) => Err(OidcError::Nonsense { what: Endpoint::Token, host, fault }),
    }
}

/// Where the issuer gives tokens. That may be another server, since it is the issuer who says so.
async fn token_endpoint(issuer: &Asked, url: &str) -> Result<(Server, String), OidcError> {
    let host = issuer.host();
    let answer = issuer.get(&format!("{url}{DISCOVERY_PATH}")).await?;
    if answer.status != StatusCode::OK {
        return Err(OidcError::Status { what: Endpoint::Discovery, host, status: answer.status, code: None });
    }
    let url = match oidc::discovered_token_endpoint(&answer.body) {
        Ok(url) => url,
        Err(fault) => return Err(OidcError::Nonsense { what: Endpoint::Discovery, host, fault }),
    };
    match Server::parse(&url) {
        _ if url.is_empty() => Err(OidcError::TokenEndpoint { host, reason: "is empty" }),
        Ok(server) if server.is_https() => Ok((server, url)),
        _ => Err(OidcError::TokenEndpoint { host, reason: "is not an https address" }),
    }
}

/// Whether the client itself may have been refused for the form in which it introduced itself. x/oauth2 tries the other
/// form after every failure; a refresh token that was judged and refused is refused in either form, and an issuer that
/// watches for reuse should not see it twice.
fn may_want_a_form(answer: &Answer) -> bool {
    let status = [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&answer.status);
    status && oidc::refusal_code(&answer.body) != Some("invalid_grant")
}

struct Credentials<'a> {
    id: &'a Secret,
    secret: &'a str,
}

impl Credentials<'_> {
    /// Introduces the client in a header, or else in the form.
    fn request(&self, url: &str, refresh_token: &Secret, in_form: bool) -> Option<Request<Payload>> {
        let (id, secret) = (escaped(self.id.expose()), escaped(self.secret));
        let token = escaped(refresh_token.expose());
        let mut form = Zeroizing::new(format!("grant_type=refresh_token&refresh_token={}", *token));
        let mut request = Request::post(url)
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if in_form {
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
        // Wiped when the last one who holds it lets go.
        let body = Bytes::from_owner(Zeroizing::new(form.as_bytes().to_vec()));
        request.body(body.into()).ok()
    }
}

/// As in a form: RFC 6749 section 2.3.1 asks for it in the header too.
fn escaped(text: &str) -> Zeroizing<String> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    // All the room at once: a string that grows leaves copies behind.
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
    fn text_is_escaped_as_in_a_form() {
        assert_eq!(&**escaped("a b+c/ü~:"), "a+b%2Bc%2F%C3%BC~%3A");
    }
}
