//! Logging in with a browser on this machine: authorization code with PKCE (RFC 6749, 7636, 8252, 9207).

use credlet_api::Secret;
use credlet_api::oidc::{self, Claims, Tokens};
use credlet_core::World;
use http::HeaderValue;

use super::issuer::Issuer;
use super::loopback::{Loopback, Reply};
use super::page::{Facts, Page};
use super::query::Query;
use super::{Endpoint, Error, Talk, browser, random};
use crate::web::form;

/// What one login is told by.
struct Attempt {
    state: Secret,
    nonce: Secret,
    verifier: Option<Secret>,
    redirect_uri: String,
}

/// Sends a person to the issuer and waits for the way back.
pub(super) async fn log_in(
    issuer: &Issuer<'_>,
    facts: &Facts,
    world: &World,
    talk: &dyn Talk,
) -> Result<(Tokens, Option<Claims>), Error> {
    let settings = issuer.settings;
    let loopback = Loopback::bind(settings).await?;
    let attempt = Attempt {
        state: random::unguessable()?,
        nonce: random::unguessable()?,
        verifier: if settings.pkce { Some(random::unguessable()?) } else { None },
        redirect_uri: loopback.redirect_uri(),
    };
    let authorization_url = attempt.authorization_url(issuer)?;
    let start_url = loopback.start_url();
    let mut visits = loopback.open(authorization_url);

    let command = settings.browser_command.as_deref();
    if settings.open_browser && browser::open(&start_url, command, world).await {
        talk.say(&format!("A browser window opens for the login. If none does, open {start_url} yourself."));
    } else {
        talk.say(&format!("Open {start_url} in a browser on this machine to log in."));
    }
    let visit = tokio::select! {
        visit = visits.next() => visit,
        () = world.clock.sleep(settings.timeout) => return Err(Error::Unanswered { after: settings.timeout }),
    };
    let outcome = attempt.finish(issuer, &visit.query, world).await;
    let reply = match &outcome {
        Ok((_, claims)) => match settings.page_after.as_deref().and_then(|url| HeaderValue::from_str(url).ok()) {
            Some(url) => Reply::Elsewhere(url),
            None => Reply::Page(Page::logged_in(facts, claims.as_ref().map(Claims::account).unwrap_or_default())),
        },
        Err(error) => Reply::Page(Page::failed(facts, error)),
    };
    visits.close(visit.answer(reply)).await;
    outcome
}

impl Attempt {
    fn authorization_url(&self, issuer: &Issuer<'_>) -> Result<HeaderValue, Error> {
        let settings = issuer.settings;
        let endpoint = issuer.endpoint(Endpoint::Authorization)?;
        let scope = settings.scopes.join(" ");
        let challenge = self.verifier.as_ref().map(random::challenge);
        let mut fields = vec![
            ("response_type", "code"),
            ("client_id", &settings.client_id),
            ("redirect_uri", &self.redirect_uri),
            ("scope", &scope),
            ("state", self.state.expose()),
            ("nonce", self.nonce.expose()),
        ];
        if let Some(challenge) = &challenge {
            fields.extend([("code_challenge", challenge.as_str()), ("code_challenge_method", "S256")]);
        }
        // Without a person's consent on record, issuers give no refresh token: OpenID Connect Core section 11.
        let asked = |name: &str| settings.extra_params.iter().any(|(asked, _)| asked == name);
        if settings.scopes.iter().any(|scope| scope == "offline_access") && !asked("prompt") {
            fields.push(("prompt", "consent"));
        }
        fields.extend(settings.extra_params.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let joint = if endpoint.contains('?') { '&' } else { '?' };
        let url = HeaderValue::from_str(&format!("{endpoint}{joint}{}", *form(&fields)));
        let web = endpoint.starts_with("https://") || endpoint.starts_with("http://");
        url.ok()
            .filter(|_| web)
            .ok_or_else(|| Error::Unsupported { issuer: settings.issuer.clone(), what: Endpoint::Authorization })
    }

    async fn finish(
        &self,
        issuer: &Issuer<'_>,
        answer: &Query,
        world: &World,
    ) -> Result<(Tokens, Option<Claims>), Error> {
        let code = self.code(issuer, answer)?;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", self.redirect_uri.as_str()),
        ];
        if let Some(verifier) = &self.verifier {
            fields.push(("code_verifier", verifier.expose()));
        }
        let tokens = issuer.tokens("code of this login", &fields).await?;
        if tokens.id_token.is_empty() {
            return Err(Error::NoToken { host: issuer.host(), what: "id_token" });
        }
        let claims = issuer.verify(&tokens.id_token, Some(&self.nonce), None, || world.clock.now()).await?;
        Ok((tokens, Some(claims)))
    }

    /// The code, if this is the answer to our question, from the one whom we asked.
    fn code(&self, issuer: &Issuer<'_>, answer: &Query) -> Result<Secret, Error> {
        if answer.value("state").map(Secret::new).as_ref() != Some(&self.state) {
            return Err(Error::Callback("a state that is not this login's"));
        }
        match answer.value("iss") {
            Some(iss) if iss != issuer.settings.issuer => {
                return Err(Error::Callback("an answer of another issuer"));
            }
            None if issuer.metadata.authorization_response_iss_parameter_supported => {
                return Err(Error::Callback("an answer that does not name the issuer, which always does"));
            }
            _ => {}
        }
        if let Some(error) = answer.value("error") {
            return Err(Error::Denied { code: oidc::known_code(error) });
        }
        let code = answer.value("code").filter(|code| !code.is_empty());
        code.map(Secret::new).ok_or(Error::Callback("neither a code nor an error"))
    }
}
