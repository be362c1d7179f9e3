//! Settings of a user's `auth-provider`, with the names of client-go's OIDC plugin.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;

use super::OidcError;
use credlet_http::{ServerAddr, TrustRoots};
use credlet_kubeconfig::{SMALL_FILE_LIMIT, pem};
use credlet_platform::fs::read_bounded_or_pipe;

pub(super) const ID_TOKEN: &str = "id-token";
pub(super) const REFRESH_TOKEN: &str = "refresh-token";

/// Settings of the `auth-provider`. `extra-scopes` is ignored, as by client-go: a refresh keeps the granted scopes.
///
/// Each setting is validated when it is needed: a valid ID token works even if other settings are invalid.
pub(super) struct ProviderSettings(pub(super) BTreeMap<String, Secret>);

/// The settings that a refresh changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OidcTokens {
    pub(super) id: Secret,
    pub(super) refresh: Secret,
}

impl OidcTokens {
    pub(super) fn from_config(config: &BTreeMap<String, Secret>) -> Self {
        let text = |name: &str| config.get(name).cloned().unwrap_or_default();
        Self { id: text(ID_TOKEN), refresh: text(REFRESH_TOKEN) }
    }
}

impl ProviderSettings {
    /// Returns the issuer's address and its URL.
    pub(super) fn issuer(&self) -> Result<(ServerAddr, &str), OidcError> {
        let url = self.required("idp-issuer-url")?.expose();
        let server = ServerAddr::parse(url)
            .map_err(|_| OidcError::AuthenticatorSource("is not a valid URL like https://host/path"))?;
        if !server.is_https() {
            return Err(OidcError::AuthenticatorSource("is not an https URL"));
        }
        if url.contains(['?', '#']) {
            return Err(OidcError::AuthenticatorSource("has a query or a fragment"));
        }
        Ok((server, url))
    }

    pub(super) fn client_id(&self) -> Result<&Secret, OidcError> {
        self.required("client-id")
    }

    /// Returns the client secret, which is empty for a public client.
    pub(super) fn client_secret(&self) -> Secret {
        self.0.get("client-secret").cloned().unwrap_or_default()
    }

    /// Returns the trust anchors for the issuer. As in client-go, the data takes precedence over the file, and a relative path is
    /// relative to the current directory.
    pub(super) fn roots(&self) -> Result<TrustRoots, OidcError> {
        let (field, pem) = if let Some(data) = self.non_empty("idp-certificate-authority-data") {
            let text: String = data.expose().chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
            let field = "idp-certificate-authority-data";
            let bytes = STANDARD.decode(text).map_err(|_| OidcError::Authority { field, reason: "is not base64" })?;
            (field, bytes)
        } else if let Some(path) = self.non_empty("idp-certificate-authority") {
            let bytes =
                read_bounded_or_pipe(Path::new(path.expose()), SMALL_FILE_LIMIT).map_err(OidcError::AuthorityFile)?;
            ("idp-certificate-authority", bytes.to_vec())
        } else {
            return Ok(TrustRoots::Platform);
        };
        if !pem::has_certificate(&pem) {
            return Err(OidcError::Authority { field, reason: "has no PEM certificate" });
        }
        Ok(TrustRoots::Pem(pem))
    }

    fn non_empty(&self, field: &str) -> Option<&Secret> {
        self.0.get(field).filter(|value| !value.is_empty())
    }

    fn required(&self, field: &'static str) -> Result<&Secret, OidcError> {
        self.non_empty(field).ok_or(OidcError::Missing(field))
    }
}
