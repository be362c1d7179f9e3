//! Asking the issuer: how it describes itself, its keys, its tokens.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_api::oidc::{self, Claims, DISCOVERY_PATH, JwkSet, Metadata, Tokens};
use credlet_core::World;
use http::StatusCode;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::settings::Settings;
use super::verify::{Expected, verify};
use super::{Endpoint, Error};
use crate::web::{Answer, Ask, Web, escaped};

/// An issuer that has been asked who it is.
pub(super) struct Issuer<'a> {
    pub(super) settings: &'a Settings,
    pub(super) metadata: Metadata,
    web: Web,
}

impl<'a> Issuer<'a> {
    pub(super) async fn discover(settings: &'a Settings, world: &World) -> Result<Self, Error> {
        let web = Web::new(world).with_roots(settings.roots.clone());
        let what = Endpoint::Discovery;
        let url = format!("{}{DISCOVERY_PATH}", settings.issuer.strip_suffix('/').unwrap_or(&settings.issuer));
        let answer = ok(what, fetch(settings, &web, what, Ask::get(url)).await?)?;
        let metadata = Metadata::decode(answer.body()).map_err(|fault| Error::Nonsense {
            what,
            host: answer.host.clone(),
            fault,
        })?;
        // Else whoever answers here could have us believe tokens of any other issuer.
        if metadata.issuer != settings.issuer {
            let found = credlet_api::visible(&metadata.issuer).replace(|c: char| c.is_control(), " ");
            return Err(Error::Issuer { expected: settings.issuer.clone(), found });
        }
        Ok(Self { settings, metadata, web })
    }

    /// The address of an endpoint, if there is one.
    pub(super) fn endpoint(&self, what: Endpoint) -> Result<&str, Error> {
        let metadata = &self.metadata;
        let url = match what {
            Endpoint::Discovery => &self.settings.issuer,
            Endpoint::Keys => &metadata.jwks_uri,
            Endpoint::Authorization => &metadata.authorization_endpoint,
            Endpoint::Token => &metadata.token_endpoint,
            Endpoint::Device => &metadata.device_authorization_endpoint,
            Endpoint::Revocation => &metadata.revocation_endpoint,
        };
        if url.is_empty() {
            return Err(Error::Unsupported { issuer: self.settings.issuer.clone(), what });
        }
        Ok(url)
    }

    /// Asks for tokens. `grant` names what is offered for them, for the error.
    pub(super) async fn tokens(&self, grant: &'static str, fields: &[(&str, &str)]) -> Result<Tokens, Error> {
        let what = Endpoint::Token;
        let answer = self.post(what, fields).await?;
        if !answer.status.is_success() {
            return Err(self.refused(what, grant, answer));
        }
        Tokens::decode(answer.body()).map_err(|fault| Error::Nonsense { what, host: answer.host, fault })
    }

    /// Sends a form, with the client's name and secret in it or above it.
    pub(super) async fn post(&self, what: Endpoint, fields: &[(&str, &str)]) -> Result<Answer, Error> {
        let url = self.endpoint(what)?;
        let (id, secret) = (self.settings.client_id.as_str(), &self.settings.client_secret);
        let mut fields = fields.to_vec();
        let methods = &self.metadata.token_endpoint_auth_methods_supported;
        let offered = |method: &str| methods.iter().any(|offered| offered == method);
        let in_form = secret.is_empty() || (offered("client_secret_post") && !offered("client_secret_basic"));
        if in_form {
            fields.push(("client_id", id));
            if !secret.is_empty() {
                fields.push(("client_secret", secret.expose()));
            }
            return fetch(self.settings, &self.web, what, Ask::post_form(url, &fields)).await;
        }
        let ask = Ask::post_form(url, &fields).secret_header(AUTHORIZATION, &basic(id, secret));
        fetch(self.settings, &self.web, what, ask.map_err(|source| Error::Web { what, source })?).await
    }

    /// What a refusal means.
    pub(super) fn refused(&self, what: Endpoint, grant: &'static str, answer: Answer) -> Error {
        let (status, host) = (answer.status, answer.host.clone());
        match oidc::refusal_code(answer.body()) {
            Some("invalid_grant") => Error::Grant { host, what: grant },
            Some("invalid_client" | "unauthorized_client") => Error::Client { host },
            Some("access_denied") => Error::Denied { code: Some("access_denied") },
            Some("expired_token") => Error::CodeExpired,
            None if status == StatusCode::UNAUTHORIZED => Error::Client { host },
            code => Error::Status { what, host, status, code },
        }
    }

    /// Believes an ID token, or does not. The keys are fetched anew, because issuers replace them.
    pub(super) async fn verify(
        &self,
        id_token: &Secret,
        nonce: Option<&Secret>,
        subject: Option<&str>,
        now: impl Fn() -> Timestamp,
    ) -> Result<Claims, Error> {
        let what = Endpoint::Keys;
        let answer = ok(what, fetch(self.settings, &self.web, what, Ask::get(self.endpoint(what)?)).await?)?;
        let keys = JwkSet::decode(answer.body()).map_err(|fault| Error::Nonsense {
            what,
            host: answer.host.clone(),
            fault,
        })?;
        let expected = Expected { issuer: &self.settings.issuer, client_id: &self.settings.client_id, nonce, subject };
        Ok(verify(id_token, &keys, &expected, now())?)
    }

    /// The host that tokens come from, for messages.
    pub(super) fn host(&self) -> String {
        credlet_client::conn::Server::parse(&self.settings.issuer).map(|server| server.to_string()).unwrap_or_default()
    }
}

async fn fetch(settings: &Settings, web: &Web, what: Endpoint, mut ask: Ask) -> Result<Answer, Error> {
    for (name, value) in &settings.headers {
        ask = ask.secret_header(name.clone(), value).map_err(|source| Error::Web { what, source })?;
    }
    web.fetch(ask).await.map_err(|source| Error::Web { what, source })
}

fn ok(what: Endpoint, answer: Answer) -> Result<Answer, Error> {
    if answer.status == StatusCode::OK {
        return Ok(answer);
    }
    Err(Error::Status { what, host: answer.host, status: answer.status, code: None })
}

/// RFC 6749 section 2.3.1 wants both escaped before they are joined.
fn basic(id: &str, secret: &Secret) -> Secret {
    let pair = Zeroizing::new(format!("{}:{}", *escaped(id), *escaped(secret.expose())));
    Secret::new(format!("Basic {}", *Zeroizing::new(STANDARD.encode(pair.as_bytes()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_introduces_itself_in_escaped_form() {
        let header = basic("my client", &Secret::new("a:b%"));
        assert_eq!(header.expose(), format!("Basic {}", STANDARD.encode("my%20client:a%3Ab%25")));
    }
}
