//! A registry takes an access token of Entra ID and gives a refresh token of its own, which is a password.

use credlet_core::World;
use http::header::{USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;

use super::Endpoint;
use super::host::Registry;
use crate::azure::AccessToken;
use crate::oauth::{Error, refused};
use crate::web::{Ask, Limits, Plain, Web};

const AGENT: HeaderValue = HeaderValue::from_static("credlet-acr");

/// Both questions are over before a kubelet, which waits for a minute, gives up.
const LIMITS: Limits =
    Limits { connect: std::time::Duration::from_secs(5), whole: std::time::Duration::from_secs(15), body: 1 << 20 };

/// The password of the registry for whoever has this token, and its end.
pub(super) async fn password(
    registry: &Registry<'_>,
    endpoint: Option<&Endpoint>,
    tenant: &str,
    token: &AccessToken,
    world: &World,
) -> Result<AccessToken, Error> {
    #[derive(Deserialize)]
    struct Given {
        refresh_token: credlet_api::Secret,
    }
    let what = format!("the password of {}", registry.host);
    let failed = |source| Error::Web { what: what.clone(), source };
    let web = Web::new(world);
    let (base, plain) = match endpoint {
        Some(endpoint) => (endpoint.url.clone(), Plain::Anywhere),
        None => (format!("https://{}", registry.host), Plain::Never),
    };
    let ask = Ask::get(format!("{base}/v2/")).header(USER_AGENT, AGENT).plain(plain).limits(LIMITS);
    let answer = web.fetch(ask).await.map_err(failed)?;
    if answer.status != StatusCode::UNAUTHORIZED {
        return Err(failed(answer.nonsense("that is not what a registry says to strangers")));
    }
    let challenge = Challenge::of(&answer.headers);
    let challenge = challenge.ok_or_else(|| failed(answer.nonsense("that does not say where to go for a token")))?;
    // Whoever answers for the registry can name any place, but the token goes to the registry's own only.
    let base = match (endpoint, challenge.host()) {
        (Some(_), _) => base,
        (None, Some(host)) if registry.is_also(host) => format!("https://{host}"),
        _ => return Err(failed(answer.nonsense("that names a place which is not the registry's"))),
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
    let ask = Ask::post_form(format!("{base}/oauth2/exchange"), &fields);
    let answer = web.fetch(ask.header(USER_AGENT, AGENT).plain(plain).limits(LIMITS)).await.map_err(failed)?;
    if answer.status != StatusCode::OK {
        return Err(refused(&answer, &what, hint));
    }
    let given: Given = answer.json().map_err(failed)?;
    if given.refresh_token.is_empty() {
        return Err(failed(answer.nonsense("that has an empty token in it")));
    }
    // It is a JWT, which knows its end.
    AccessToken::new(given.refresh_token, None).current(&what, world.clock.now())
}

fn hint(code: &str) -> Option<&'static str> {
    match code {
        "401" | "403" => Some("the identity needs the role AcrPull on this registry, and the tenant must be its own"),
        _ => None,
    }
}

/// `Bearer realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io"`
#[derive(Debug, Default, PartialEq, Eq)]
struct Challenge {
    realm: String,
    service: String,
}

impl Challenge {
    /// The only one that there is.
    fn of(headers: &HeaderMap) -> Option<Self> {
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

    /// Where it leads, over TLS.
    fn host(&self) -> Option<&str> {
        let rest = self.realm.strip_prefix("https://")?;
        rest.split('/').next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read_however_it_is_written() {
        let expected =
            Challenge { realm: "https://foo.azurecr.io/oauth2/token".into(), service: "foo.azurecr.io".into() };
        for text in [
            r#"Bearer realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io""#,
            r#"bearer service="foo.azurecr.io", scope="a,b=c" , Realm="https://foo.azurecr.io/oauth2/token","#,
            "Bearer realm=https://foo.azurecr.io/oauth2/token,service=foo.azurecr.io",
        ] {
            assert_eq!(Challenge::parse(text).as_ref(), Some(&expected), "{text}");
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
            assert_eq!(Challenge::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_a_place_behind_tls_counts() {
        for bad in ["http://foo.azurecr.io/x", "foo.azurecr.io", "//foo.azurecr.io", "HTTPS://foo.azurecr.io"] {
            assert_eq!(Challenge { realm: bad.into(), service: "x".into() }.host(), None, "{bad}");
        }
    }
}
