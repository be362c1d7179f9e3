//! Access tokens of Microsoft Entra ID for workloads.
//!
//! [`EntraClient::token`] returns an [`AccessToken`] for one resource and one [`AzureIdentity`]: a service principal with a secret,
//! a certificate or a federated token, or a [`ManagedIdentity`] of the machine.
//!
//! Tokens of service principals are cached in a private file. The key covers the tenant, the client and its credential (secret,
//! certificate or identity token), and an access token does not outlive the identity token that it was issued for. Tokens of
//! managed identities are not cached: the metadata service is local and has its own cache.

mod certificate;
mod managed;

use std::path::PathBuf;

use credlet_api::Secret;
use credlet_exec::Platform;

pub use self::certificate::ClientCertificate;
use self::managed::ARC_KEYS;
pub use self::managed::ManagedIdentity;
pub use crate::oauth::AccessToken;
use crate::oauth::{self, AccessTokenCache, IdentityToken, TokenError, parse_token_response};
use crate::plugin_runner::env_var;
use credlet_exec::store;
use credlet_http::fetch::{EndpointPolicy, FetchRequest, HttpFetcher};

/// The authority of the Azure public cloud.
pub const PUBLIC_AUTHORITY: &str = "https://login.microsoftonline.com";

/// Domains of Entra ID in all Azure clouds. A client secret is sent to no other host. MSAL has the same list; it validates other
/// hosts by instance discovery.
const AUTHORITIES: [&str; 14] = [
    "microsoftonline.com",
    "microsoftonline.us",
    "microsoftonline.cn",
    "microsoftonline.de",
    "microsoftonline.scloud",
    "microsoftonline.eaglex.ic.gov",
    "login.microsoft.com",
    "login.windows.net",
    "sts.windows.net",
    "login.chinacloudapi.cn",
    "login.usgovcloudapi.net",
    "login.sovcloud-identity.fr",
    "login.sovcloud-identity.de",
    "login.sovcloud-identity.sg",
];

/// Audience of federated tokens.
pub const FEDERATION_AUDIENCE: &str = "api://AzureADTokenExchange";

/// The identity that a token is requested for.
#[derive(Debug)]
#[non_exhaustive]
pub enum AzureIdentity {
    /// A service principal (application).
    Client {
        /// Id or domain of the tenant.
        tenant: String,
        /// Id of the application in Entra ID.
        client_id: String,
        /// Credential of the application.
        credential: ClientCredential,
    },
    /// A managed identity of this machine.
    ManagedIdentity(ManagedIdentity),
}

/// The credential that authenticates an application.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientCredential {
    /// A client secret.
    Secret(Secret),
    /// A certificate with its key, which signs assertions.
    Certificate(ClientCertificate),
    /// A federated token of another issuer.
    Assertion(IdentityToken),
    /// A file with a federated token, read for each request.
    AssertionFile(PathBuf),
    /// The ID token of this CI job.
    CiIdToken,
}

impl ClientCredential {
    /// The part of the cache key that identifies this credential. `None`: the token is not cached, because a CI job is
    /// short-lived, and the next one may have another identity.
    fn cache_key_part(&self) -> Option<Secret> {
        match self {
            Self::Secret(secret) => Some(secret.clone()),
            Self::Assertion(token) => Some(token.secret().clone()),
            Self::Certificate(certificate) => Some(Secret::new(certificate.thumbprint())),
            Self::AssertionFile(_) | Self::CiIdToken => None,
        }
    }
}

/// A client of the token endpoints of Entra ID and of managed identities.
#[derive(Clone, Debug)]
pub struct EntraClient {
    platform: Platform,
    fetcher: HttpFetcher,
    cache: Option<AccessTokenCache>,
    authority: String,
    arc_key_dir: PathBuf,
}

impl EntraClient {
    /// Creates a client for the authority in `AZURE_AUTHORITY_HOST`, else [`PUBLIC_AUTHORITY`].
    pub fn new(platform: &Platform) -> Self {
        let authority = env_var(&*platform.env, "AZURE_AUTHORITY_HOST").unwrap_or_else(|| PUBLIC_AUTHORITY.to_owned());
        let (fetcher, cache) = (
            HttpFetcher::new(platform.clock.clone(), platform.env.clone()),
            Some(AccessTokenCache::new(platform, "azure")),
        );
        let entra =
            Self { fetcher, cache, authority: String::new(), arc_key_dir: ARC_KEYS.into(), platform: platform.clone() };
        entra.with_authority(&authority)
    }

    /// Sets the authority. `https://` may be omitted.
    #[must_use]
    pub fn with_authority(self, authority: &str) -> Self {
        let authority = authority.trim().trim_end_matches('/');
        let scheme = if authority.contains("://") { "" } else { "https://" };
        Self { authority: format!("{scheme}{authority}"), ..self }
    }

    /// Disables the token cache on disk.
    #[must_use]
    pub fn without_cache(self) -> Self {
        Self { cache: None, ..self }
    }

    /// Sets the directory of the Azure Arc agent for challenge keys.
    #[must_use]
    pub fn with_arc_key_dir(self, directory: impl Into<PathBuf>) -> Self {
        Self { arc_key_dir: directory.into(), ..self }
    }

    /// Returns the URL of the authority, without a trailing slash.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns an access token for a resource (an application id or a URL), from the cache if possible. Needs a tokio runtime with
    /// time and io enabled.
    ///
    /// # Errors
    /// When the credential cannot be used, or the request is rejected or fails.
    pub async fn token(&self, identity: &AzureIdentity, resource: &str) -> Result<AccessToken, TokenError> {
        let (tenant, client_id, credential) = match identity {
            AzureIdentity::ManagedIdentity(managed) => return self.managed(managed, resource).await,
            AzureIdentity::Client { tenant, client_id, credential } => (tenant, client_id, credential),
        };
        let tenant = validate_tenant(tenant)?;
        // Read once, so that the cache key covers the token that is sent.
        let from_file = match credential {
            ClientCredential::AssertionFile(path) => {
                Some(ClientCredential::Assertion(IdentityToken::from_file(path, FEDERATED)?))
            }
            _ => None,
        };
        let credential = from_file.as_ref().unwrap_or(credential);
        let fetch = self.client_token(tenant, client_id, credential, resource);
        match (&self.cache, credential.cache_key_part()) {
            (Some(cache), Some(part)) => {
                let key = store::cache_key(["client", &self.authority, tenant, client_id, part.expose(), resource]);
                cache.token(&key, fetch).await
            }
            _ => fetch.await,
        }
    }

    async fn client_token(
        &self,
        tenant: &str,
        client_id: &str,
        credential: &ClientCredential,
        resource: &str,
    ) -> Result<AccessToken, TokenError> {
        const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        let what = format!("token of client {}", credlet_api::escape_control_chars(client_id));
        let url = format!("{}/{tenant}/oauth2/v2.0/token", self.authority);
        let requested_at = self.platform.clock.now();
        let token = match credential {
            ClientCredential::Assertion(token) => Some(token.clone()),
            ClientCredential::AssertionFile(path) => Some(IdentityToken::from_file(path, FEDERATED)?),
            ClientCredential::CiIdToken => {
                Some(oauth::request_ci_id_token(Some(FEDERATION_AUDIENCE), &self.fetcher, &*self.platform.env).await?)
            }
            ClientCredential::Secret(_) | ClientCredential::Certificate(_) => None,
        };
        let end = token.as_ref().and_then(IdentityToken::expires);
        let (field, value) = match (credential, token) {
            (ClientCredential::Secret(secret), _) => ("client_secret", secret.clone()),
            (ClientCredential::Certificate(certificate), _) => {
                ("client_assertion", certificate.assertion(client_id, &url, requested_at)?)
            }
            (_, token) => ("client_assertion", token.map(|token| token.secret().clone()).unwrap_or_default()),
        };
        // Assertions are bound to their audience; any recipient could use a client secret.
        let policy = match field {
            "client_secret" => EndpointPolicy::default().only(AUTHORITIES),
            _ => EndpointPolicy::default(),
        };
        let scope = scope(resource);
        let mut fields = vec![
            ("grant_type", "client_credentials"),
            ("client_id", client_id),
            ("scope", &scope),
            (field, value.expose()),
        ];
        if field == "client_assertion" {
            fields.push(("client_assertion_type", ASSERTION));
        }
        let response = self.fetcher.fetch(FetchRequest::post_form(url, &fields).policy(policy)).await;
        let response = response.map_err(|source| TokenError::Request { what: what.clone(), source })?;
        Ok(parse_token_response(&response, &what, requested_at, hint)?.limit_expiry(end))
    }
}

const FEDERATED: &str = "federated token";

/// The `.default` scope of a resource: all permissions that are granted to the client.
pub(crate) fn scope(resource: &str) -> String {
    let resource = resource.trim_end_matches('/');
    if resource.ends_with("/.default") { resource.to_owned() } else { format!("{resource}/.default") }
}

/// Returns the tenant if it is safe as a path segment of the authority's URL.
pub(crate) fn validate_tenant(tenant: &str) -> Result<&str, TokenError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match tenant.is_empty() || tenant.starts_with('.') || !tenant.bytes().all(plain) {
        true => Err(TokenError::invalid_setting("tenant", "neither an id nor a domain")),
        false => Ok(tenant),
    }
}

/// Returns the hint for an error code of Entra ID.
fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "AADSTS7000215" => "the client secret is wrong: use the secret's value, not its id",
        "AADSTS7000222" => "the client secret has expired: create a new one for this application",
        "AADSTS700016" => "application not found in this tenant: check --client-id and --tenant-id",
        "AADSTS90002" | "AADSTS900023" => "tenant not found: check --tenant-id and --environment",
        "AADSTS700027" => "the certificate is not registered for this application",
        "AADSTS70021" | "AADSTS700211" | "AADSTS700212" | "AADSTS700213" => {
            "the application has no federated credential for this token's issuer, subject and audience"
        }
        "AADSTS700024" => {
            "the assertion has expired or is not valid yet: check the local clock, and that the token file is renewed"
        }
        "AADSTS500011" | "AADSTS650057" | "invalid_resource" => "resource not found in this tenant: check --server-id",
        "AADSTS50076" | "AADSTS50079" => "this login requires a second factor: use --login interactive",
        "AADSTS53003" | "AADSTS53000" => "a Conditional Access policy of the tenant denies this login",
        _ => return None,
    })
}
