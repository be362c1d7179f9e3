//! Exchange of an Entra ID access token for a refresh token of the registry, which serves as the password.

use credlet_exec::Platform;
use http::header::{USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;

use super::RegistryEndpoint;
use super::host::AcrRegistry;
use crate::azure::AccessToken;
use crate::oauth::{TokenError, rejected};
use credlet_http::fetch::{EndpointPolicy, FetchLimits, FetchRequest, HttpFetcher};

const AGENT: HeaderValue = HeaderValue::from_static("credlet-acr");

/// Both requests end within the 60 s after which a kubelet gives up.
const LIMITS: FetchLimits = FetchLimits {
    connect: std::time::Duration::from_secs(5),
    total: std::time::Duration::from_secs(15),
    max_body: 1 << 20,
};

/// Exchanges an Entra ID access token for the password of the registry.
pub(super) async fn password(
    registry: &AcrRegistry<'_>,
    endpoint: Option<&RegistryEndpoint>,
    tenant: &str,
    token: &AccessToken,
    platform: &Platform,
) -> Result<AccessToken, TokenError> {
    #[derive(Deserialize)]
    struct ExchangeResponse {
        refresh_token: credlet_api::Secret,
    }
    let what = format!("password of {}", registry.host);
    let failed = |source| TokenError::Request { what: what.clone(), source };
    let fetcher = HttpFetcher::new(platform.clock.clone(), platform.env.clone());
    let (base, policy) = match endpoint {
        Some(endpoint) => (endpoint.url.clone(), EndpointPolicy::default()),
        None => (format!("https://{}", registry.host), EndpointPolicy::https()),
    };
    let request =
        FetchRequest::get(format!("{base}/v2/")).header(USER_AGENT, AGENT).policy(policy.clone()).limits(LIMITS);
    let response = fetcher.fetch(request).await.map_err(failed)?;
    if response.status != StatusCode::UNAUTHORIZED {
        return Err(failed(response.invalid_response("it is not an authentication challenge")));
    }
    let challenge = BearerChallenge::from_headers(&response.headers);
    let challenge =
        challenge.ok_or_else(|| failed(response.invalid_response("it has no valid authentication challenge")))?;
    // The challenge could name any host; the token is sent only to hosts of the registry.
    let base = match (endpoint, challenge.host()) {
        (Some(_), _) => base,
        (None, Some(host)) if registry.is_same_registry(host) => format!("https://{host}"),
        _ => return Err(failed(response.invalid_response("it names a host of another registry"))),
    };
    let mut fields = vec![
        ("grant_type", "access_token_refresh_token"),
        ("service", &challenge.service),
        ("access_token", token.token.expose()),
        ("refresh_token", token.token.expose()),
    ];
    if !tenant.is_empty() {
        fields.push(("tenant", tenant));
    }
    let request = FetchRequest::post_form(format!("{base}/oauth2/exchange"), &fields);
    let response =
        fetcher.fetch(request.header(USER_AGENT, AGENT).policy(policy).limits(LIMITS)).await.map_err(failed)?;
    if response.status != StatusCode::OK {
        return Err(rejected(&response, &what, hint));
    }
    let given: ExchangeResponse = response.json().map_err(failed)?;
    if given.refresh_token.is_empty() {
        return Err(failed(response.invalid_response("it has an empty token")));
    }
    // A JWT with its own expiry.
    AccessToken::new(given.refresh_token, None).ensure_valid(&what, platform.clock.now())
}

fn hint(code: &str) -> Option<&'static str> {
    match code {
        "401" | "403" => {
            Some("the identity needs the role AcrPull on this registry, and must be of the registry's tenant")
        }
        _ => None,
    }
}

/// A `WWW-Authenticate` challenge, such as
/// `Bearer realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io"`.
#[derive(Debug, Default, PartialEq, Eq)]
struct BearerChallenge {
    realm: String,
    service: String,
}

impl BearerChallenge {
    /// Parses the `WWW-Authenticate` header. `None`: missing, repeated or invalid.
    fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut all = headers.get_all(WWW_AUTHENTICATE).into_iter();
        match (all.next(), all.next()) {
            (Some(value), None) => Self::parse(value.to_str().ok()?),
            _ => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (scheme, mut rest) = text.trim().split_once(' ')?;
        let mut found = Self::default();
        while !rest.trim_matches([' ', ',']).is_empty() {
            let (name, value) = rest.trim_start_matches([' ', ',']).split_once('=')?;
            let value_and_rest = match value.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => value.split_once(',').unwrap_or((value, "")),
            };
            match &*name.to_ascii_lowercase() {
                "realm" => found.realm = value_and_rest.0.to_owned(),
                "service" => found.service = value_and_rest.0.to_owned(),
                _ => {}
            }
            rest = value_and_rest.1;
        }
        let is_whole = scheme.eq_ignore_ascii_case("Bearer") && !found.realm.is_empty() && !found.service.is_empty();
        is_whole.then_some(found)
    }

    /// The host of the realm if its scheme is https.
    fn host(&self) -> Option<&str> {
        let rest = self.realm.strip_prefix("https://")?;
        rest.split('/').next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_challenge_variants() {
        let expected =
            BearerChallenge { realm: "https://foo.azurecr.io/oauth2/token".into(), service: "foo.azurecr.io".into() };
        for text in [
            r#"Bearer realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io""#,
            r#"bearer service="foo.azurecr.io", scope="a,b=c" , Realm="https://foo.azurecr.io/oauth2/token","#,
            "Bearer realm=https://foo.azurecr.io/oauth2/token,service=foo.azurecr.io",
        ] {
            assert_eq!(BearerChallenge::parse(text).as_ref(), Some(&expected), "{text}");
        }
        assert_eq!(expected.host(), Some("foo.azurecr.io"));
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            r#"Basic realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io""#,
            r#"Bearer realm="https://foo.azurecr.io/oauth2/token""#,
            r#"Bearer realm="x",service="#,
            r#"Bearer realm="x,service=y"#,
            "Bearer realm",
        ] {
            assert_eq!(BearerChallenge::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn realm_must_be_https() {
        for bad in ["http://foo.azurecr.io/x", "foo.azurecr.io", "//foo.azurecr.io", "HTTPS://foo.azurecr.io"] {
            assert_eq!(BearerChallenge { realm: bad.into(), service: "x".into() }.host(), None, "{bad}");
        }
    }
}
