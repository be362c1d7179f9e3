//! The settings of a user's `auth-provider`, under the names that client-go gave them.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;

use super::OidcError;
use crate::conn::{Roots, Server};
use crate::kubeconfig::{pem, read};

pub(super) const ID_TOKEN: &str = "id-token";
pub(super) const REFRESH_TOKEN: &str = "refresh-token";

/// What one logs in with. `extra-scopes` is ignored, as client-go does: a refresh asks for what was given before.
///
/// Nothing is checked before it is needed: an ID token that is still good works whatever is wrong with the rest.
pub(super) struct Login(pub(super) BTreeMap<String, Secret>);

/// The two values that change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tokens {
    pub(super) id: Secret,
    pub(super) refresh: Secret,
}

impl Tokens {
    pub(super) fn of(config: &BTreeMap<String, Secret>) -> Self {
        let text = |name: &str| config.get(name).cloned().unwrap_or_default();
        Self { id: text(ID_TOKEN), refresh: text(REFRESH_TOKEN) }
    }
}

impl Login {
    /// The issuer, and its address without a `/` at its end.
    pub(super) fn issuer(&self) -> Result<(Server, &str), OidcError> {
        let url = self.needed("idp-issuer-url")?.expose();
        let server = Server::parse(url).map_err(|_| OidcError::Issuer("is not an address like https://host/path"))?;
        if !server.is_https() {
            return Err(OidcError::Issuer("is not an https address"));
        }
        if url.contains(['?', '#']) {
            return Err(OidcError::Issuer("has a query or a fragment"));
        }
        Ok((server, url.strip_suffix('/').unwrap_or(url)))
    }

    pub(super) fn client_id(&self) -> Result<&Secret, OidcError> {
        self.needed("client-id")
    }

    /// Empty: the client is a public one.
    pub(super) fn client_secret(&self) -> &str {
        self.0.get("client-secret").map(Secret::expose).unwrap_or_default()
    }

    /// Whose word counts that the issuer is the right one. As with client-go, the data goes before the file, and a
    /// relative path starts from the current directory.
    pub(super) fn roots(&self) -> Result<Roots, OidcError> {
        let (field, pem) = if let Some(data) = self.given("idp-certificate-authority-data") {
            let text: String = data.expose().chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
            let field = "idp-certificate-authority-data";
            let bytes = STANDARD.decode(text).map_err(|_| OidcError::Authority { field, reason: "is not base64" })?;
            (field, bytes)
        } else if let Some(path) = self.given("idp-certificate-authority") {
            let bytes = read::file(Path::new(path.expose()), read::SMALL).map_err(OidcError::AuthorityFile)?;
            ("idp-certificate-authority", bytes.to_vec())
        } else {
            return Ok(Roots::Platform);
        };
        if !pem::has_certificate(&pem) {
            return Err(OidcError::Authority { field, reason: "holds no certificate in PEM form" });
        }
        Ok(Roots::Pem(pem))
    }

    fn given(&self, field: &str) -> Option<&Secret> {
        self.0.get(field).filter(|value| !value.is_empty())
    }

    fn needed(&self, field: &'static str) -> Result<&Secret, OidcError> {
        self.given(field).ok_or(OidcError::Missing(field))
    }
}
