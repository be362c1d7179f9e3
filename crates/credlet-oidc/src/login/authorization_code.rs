//! Login in a browser on this machine: authorization code with PKCE (RFC 6749, 7636, 8252, 9207).

use credlet_api::Secret;
use credlet_api::oidc::{self, IdTokenClaims, TokenResponse};
use credlet_exec::Platform;
use http::HeaderValue;

use super::callback_query::CallbackQuery;
use super::issuer::IssuerClient;
use super::loopback::{CallbackReply, LoopbackEvent, LoopbackServer};
use super::result_page::{LoginDetails, ResultPage};
use super::{OidcEndpoint, OidcError, UserOutput, browser, random};
use credlet_http::fetch::encode_form;

/// The values that tie the issuer's responses to one login.
struct AuthorizationRequest {
    state: Secret,
    nonce: Secret,
    verifier: Option<Secret>,
    redirect_uri: String,
}

/// Sends the user's browser to the issuer, waits for the redirect and exchanges the code for tokens.
///
/// # Errors
/// [`OidcError::Listen`] before anything is opened, [`OidcError::LoginTimedOut`] if no callback of this login arrives in time.
pub(super) async fn log_in(
    issuer: &IssuerClient<'_>,
    details: &LoginDetails,
    platform: &Platform,
    output: &dyn UserOutput,
) -> Result<(TokenResponse, Option<IdTokenClaims>), OidcError> {
    let settings = issuer.settings;
    let loopback = LoopbackServer::bind(&settings.listen, &settings.redirect).await?;
    let request = AuthorizationRequest {
        state: random::random_token()?,
        nonce: random::random_token()?,
        verifier: if settings.pkce { Some(random::random_token()?) } else { None },
        redirect_uri: loopback.redirect_uri(),
    };
    let authorization_url = request.authorization_url(issuer)?;
    let start_url = loopback.start_url();
    let mut callbacks = loopback.serve(authorization_url, Some(request.state.clone()))?;

    let command = settings.browser_command.as_deref();
    if settings.open_browser && browser::open(&start_url, command, platform).await {
        output.print_line(&format!("A browser window opens for the login. If none does, open {start_url}."));
    } else {
        output.print_line(&format!("Open {start_url} in a browser on this machine to log in."));
    }
    let mut timeout = platform.clock.sleep(settings.timeout);
    let callback = loop {
        let event = tokio::select! {
            event = callbacks.next() => event,
            () = &mut timeout => return Err(OidcError::LoginTimedOut { after: settings.timeout }),
        };
        match event {
            LoopbackEvent::LoginCallback(callback) => break callback,
            LoopbackEvent::ConnectionRejected(uid) => output.print_line(&format!(
                "Refused a connection of user {uid} to the login page. The browser must run as the user who logs in."
            )),
        }
    };
    let outcome = request.finish(issuer, &callback.query, platform).await;
    let reply = match &outcome {
        Ok((_, claims)) => match settings.page_after.as_deref().and_then(|url| HeaderValue::from_str(url).ok()) {
            Some(url) => CallbackReply::Redirect(url),
            None => CallbackReply::ResultPage(ResultPage::logged_in(
                details,
                claims.as_ref().map(IdTokenClaims::account).unwrap_or_default(),
            )),
        },
        Err(error) => CallbackReply::ResultPage(ResultPage::failed(details, error)),
    };
    callbacks.close(callback.reply(reply)).await;
    outcome
}

impl AuthorizationRequest {
    fn authorization_url(&self, issuer: &IssuerClient<'_>) -> Result<HeaderValue, OidcError> {
        let settings = issuer.settings;
        let endpoint = issuer.endpoint(OidcEndpoint::Authorization)?;
        let scope = settings.scopes.join(" ");
        let pkce_challenge = self.verifier.as_ref().map(random::pkce_challenge);
        let mut fields = vec![
            ("response_type", "code"),
            ("client_id", &settings.client_id),
            ("redirect_uri", &self.redirect_uri),
            ("scope", &scope),
            ("state", self.state.expose()),
            ("nonce", self.nonce.expose()),
        ];
        if let Some(pkce_challenge) = &pkce_challenge {
            fields.extend([("code_challenge", pkce_challenge.as_str()), ("code_challenge_method", "S256")]);
        }
        // Required for a refresh token: OpenID Connect Core section 11.
        let is_set = |name: &str| settings.extra_params.iter().any(|(set, _)| set == name);
        if settings.scopes.iter().any(|scope| scope == "offline_access") && !is_set("prompt") {
            fields.push(("prompt", "consent"));
        }
        fields.extend(settings.extra_params.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let joint = if endpoint.contains('?') { '&' } else { '?' };
        let url = HeaderValue::from_str(&format!("{endpoint}{joint}{}", *encode_form(&fields)));
        let web = endpoint.starts_with("https://") || endpoint.starts_with("http://");
        url.ok().filter(|_| web).ok_or_else(|| OidcError::NotSupported {
            issuer: settings.issuer.clone(),
            what: OidcEndpoint::Authorization,
        })
    }

    async fn finish(
        &self,
        issuer: &IssuerClient<'_>,
        callback: &CallbackQuery,
        platform: &Platform,
    ) -> Result<(TokenResponse, Option<IdTokenClaims>), OidcError> {
        let code = Self::code(issuer, callback)?;
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
            return Err(OidcError::MissingToken { host: issuer.host(), what: "id_token" });
        }
        let claims = issuer.verify(&tokens.id_token, Some(&self.nonce), None, || platform.clock.now()).await?;
        Ok((tokens, Some(claims)))
    }

    /// Returns the authorization code of a callback with a verified state. RFC 9207: checks `iss`.
    fn code(issuer: &IssuerClient<'_>, callback: &CallbackQuery) -> Result<Secret, OidcError> {
        match callback.value("iss") {
            Some(iss) if iss != issuer.settings.issuer => {
                return Err(OidcError::InvalidCallback("the response is of another issuer"));
            }
            None if issuer.metadata.authorization_response_iss_parameter_supported => {
                return Err(OidcError::InvalidCallback("the response lacks `iss`, which the issuer always sends"));
            }
            _ => {}
        }
        if let Some(error) = callback.value("error") {
            return Err(OidcError::Denied { code: oidc::known_error_code(error) });
        }
        let code = callback.value("code").filter(|code| !code.is_empty());
        code.map(Secret::new).ok_or(OidcError::InvalidCallback("it has neither a code nor an error"))
    }
}
