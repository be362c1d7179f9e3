//! Access tokens of Microsoft Entra ID, for programs that no person sits at.
//!
//! **The path:** an [`Identity`] (a service principal with its secret or certificate, a workload whom another issuer
//! vouches for, a machine's managed identity) → [`Entra::token`] → an [`AccessToken`] for one resource.
//!
//! **Three names to know:** [`Entra`], [`Identity`], [`Managed`].
//!
//! Tokens of service principals and workloads are kept in a file of the person's own, under a name that is made of the
//! tenant, the client and what it proves itself with. A managed identity is asked for each time: it is the machine's, and
//! near.

mod certificate;
mod managed;

use std::path::PathBuf;

use credlet_api::Secret;
use credlet_core::World;

pub use self::certificate::ClientCertificate;
use self::managed::ARC_KEYS;
pub use self::managed::Managed;
use crate::harness::var;
pub use crate::oauth::AccessToken;
use crate::oauth::{self, Error, Kept, granted};
use crate::store;
use crate::web::{Ask, Web};

/// Where most tenants live.
pub const PUBLIC: &str = "https://login.microsoftonline.com";

/// What an assertion must be made for.
pub const FEDERATION_AUDIENCE: &str = "api://AzureADTokenExchange";

/// Who wants a token.
#[derive(Debug)]
#[non_exhaustive]
pub enum Identity {
    /// An application of a tenant.
    Client {
        /// The tenant's id or domain.
        tenant: String,
        /// The application's id.
        client_id: String,
        /// How it proves to be that.
        proof: Proof,
    },
    /// The machine's.
    Managed(Managed),
}

/// How an application proves who it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum Proof {
    /// By a secret.
    Secret(Secret),
    /// By signing with the key of a certificate.
    Certificate(ClientCertificate),
    /// By a token of another issuer.
    Token(Secret),
    /// By one in a file, which is replaced from time to time.
    TokenFile(PathBuf),
    /// By the token of a CI job.
    IdToken,
}

impl Proof {
    /// What tells it from another proof of the same client, for the name under which its token is kept. `None`: it is
    /// not, since a job of CI is over soon, and the next one may be another's.
    fn mark(&self) -> Result<Option<Secret>, Error> {
        Ok(match self {
            Self::Secret(secret) | Self::Token(secret) => Some(secret.clone()),
            Self::Certificate(certificate) => Some(Secret::new(certificate.thumbprint())),
            Self::TokenFile(path) => Some(oauth::token_file(path, FEDERATED)?),
            Self::IdToken => None,
        })
    }
}

/// Asks Entra ID.
#[derive(Clone, Debug)]
pub struct Entra {
    world: World,
    web: Web,
    kept: Option<Kept>,
    authority: String,
    arc_keys: PathBuf,
}

impl Entra {
    /// At the address in `AZURE_AUTHORITY_HOST`, or at [`PUBLIC`].
    pub fn new(world: &World) -> Self {
        let authority = var(&*world.env, "AZURE_AUTHORITY_HOST").unwrap_or_else(|| PUBLIC.to_owned());
        let (web, kept) = (Web::new(world), Some(Kept::new(world, "azure")));
        let entra = Self { web, kept, authority: String::new(), arc_keys: ARC_KEYS.into(), world: world.clone() };
        entra.at(&authority)
    }

    /// At another address, with or without `https://`.
    #[must_use]
    pub fn at(self, authority: &str) -> Self {
        let authority = authority.trim().trim_end_matches('/');
        let scheme = if authority.contains("://") { "" } else { "https://" };
        Self { authority: format!("{scheme}{authority}"), ..self }
    }

    /// Without keeping tokens for the next run.
    #[must_use]
    pub fn forgetful(self) -> Self {
        Self { kept: None, ..self }
    }

    /// Where Arc's agent keeps the keys by which it knows who may ask it, if not in its usual place.
    #[must_use]
    pub fn arc_keys(self, directory: impl Into<PathBuf>) -> Self {
        Self { arc_keys: directory.into(), ..self }
    }

    /// The address of Entra ID.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// An access token for a resource: an application's id, or an address. It needs a tokio runtime with time and io.
    ///
    /// # Errors
    /// When there is none.
    pub async fn token(&self, identity: &Identity, resource: &str) -> Result<AccessToken, Error> {
        let (tenant, client_id, proof) = match identity {
            Identity::Managed(managed) => return self.managed(managed, resource).await,
            Identity::Client { tenant, client_id, proof } => (tenant, client_id, proof),
        };
        let tenant = tenant_in_path(tenant)?;
        let fetch = self.by_client(tenant, client_id, proof, resource);
        match (&self.kept, proof.mark()?) {
            (Some(kept), Some(mark)) => {
                let key = store::key(["client", &self.authority, tenant, client_id, mark.expose(), resource]);
                kept.token(&key, fetch).await
            }
            _ => fetch.await,
        }
    }

    async fn by_client(
        &self,
        tenant: &str,
        client_id: &str,
        proof: &Proof,
        resource: &str,
    ) -> Result<AccessToken, Error> {
        const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        let what = format!("a token for the client {}", credlet_api::visible(client_id));
        let url = format!("{}/{tenant}/oauth2/v2.0/token", self.authority);
        let asked_at = self.world.clock.now();
        let (field, proof) = match proof {
            Proof::Secret(secret) => ("client_secret", secret.clone()),
            Proof::Certificate(certificate) => ("client_assertion", certificate.assertion(client_id, &url, asked_at)?),
            Proof::Token(token) => ("client_assertion", token.clone()),
            Proof::TokenFile(path) => ("client_assertion", oauth::token_file(path, FEDERATED)?),
            Proof::IdToken => {
                let token = oauth::id_token(Some(FEDERATION_AUDIENCE), &self.web, &*self.world.env).await?;
                ("client_assertion", token)
            }
        };
        let scope = scope(resource);
        let mut fields = vec![
            ("grant_type", "client_credentials"),
            ("client_id", client_id),
            ("scope", &scope),
            (field, proof.expose()),
        ];
        if field == "client_assertion" {
            fields.push(("client_assertion_type", ASSERTION));
        }
        let answer = self.web.fetch(Ask::post_form(url, &fields)).await;
        let answer = answer.map_err(|source| Error::Web { what: what.clone(), source })?;
        granted(&answer, &what, asked_at, hint)
    }
}

const FEDERATED: &str = "the federated token";

/// All that the resource has given to whoever asks.
pub(crate) fn scope(resource: &str) -> String {
    let resource = resource.trim_end_matches('/');
    if resource.ends_with("/.default") { resource.to_owned() } else { format!("{resource}/.default") }
}

/// A tenant is a part of an address, so it must not be able to name another place.
pub(crate) fn tenant_in_path(tenant: &str) -> Result<&str, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match tenant.is_empty() || tenant.starts_with('.') || !tenant.bytes().all(plain) {
        true => Err(Error::config("the tenant", "is neither an id nor a domain")),
        false => Ok(tenant),
    }
}

/// What Entra's own codes mean for the person.
fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "AADSTS7000215" => "the client secret is wrong: it is the secret's value that counts, not its id",
        "AADSTS7000222" => "the client secret has expired: make a new one for this application",
        "AADSTS700016" => "there is no such application in this tenant: see --client-id and --tenant-id",
        "AADSTS90002" | "AADSTS900023" => "there is no such tenant: see --tenant-id and --environment",
        "AADSTS700027" => "the certificate is not one of this application's",
        "AADSTS70021" | "AADSTS700211" | "AADSTS700212" | "AADSTS700213" => {
            "the application has no federated credential for this token's issuer, subject and audience"
        }
        "AADSTS700024" => {
            "the assertion is not good now: see this machine's clock, and whether the token file is renewed"
        }
        "AADSTS500011" | "AADSTS650057" | "invalid_resource" => {
            "this tenant does not know the resource: see --server-id"
        }
        "AADSTS50076" | "AADSTS50079" => "this login needs a second factor: use --login interactive",
        "AADSTS53003" | "AADSTS53000" => "a Conditional Access policy of the tenant refuses this login",
        _ => return None,
    })
}
