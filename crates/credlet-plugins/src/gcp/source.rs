//! Where credentials come from: the file of the application default credentials, in each of its kinds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use credlet_api::Secret;
use credlet_core::Env;
use serde::Deserialize;

use super::{Google, gcloud};
use crate::harness::var;
use crate::oauth::{self, Error};
use crate::store;

const WHAT: &str = "the credentials of Google Cloud";

/// Whose token it will be, and by what.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Source {
    /// An account that this machine has: `default` or its name.
    Metadata {
        /// Which.
        account: String,
    },
    /// A key of a service account.
    ServiceAccount(ServiceAccount),
    /// A person who has logged in.
    User(User),
    /// Somebody whom another identity provider vouches for.
    External(Box<External>),
    /// Another service account, by the rights of a source.
    Impersonated {
        /// Where its tokens are to be had.
        url: String,
        /// The accounts on the way there.
        delegates: Vec<String>,
        /// Whose rights.
        from: Box<Source>,
    },
}

/// A key of a service account.
#[derive(Clone, Debug, Deserialize)]
pub struct ServiceAccount {
    pub(super) client_email: String,
    pub(super) private_key: Secret,
    #[serde(default)]
    pub(super) private_key_id: String,
    /// Where assertions are taken. Empty: at Google's.
    #[serde(default)]
    pub(super) token_uri: String,
}

/// A person who has logged in.
#[derive(Clone, Debug, Deserialize)]
pub struct User {
    pub(super) client_id: String,
    pub(super) client_secret: Secret,
    pub(super) refresh_token: Secret,
    /// Empty: at Google's.
    #[serde(default, alias = "token_url")]
    pub(super) token_uri: String,
    /// Whether the client introduces itself above the form, as at Google's STS.
    #[serde(skip)]
    pub(super) basic: bool,
}

/// Somebody whom another identity provider vouches for.
#[derive(Clone, Debug, Deserialize)]
pub struct External {
    pub(super) audience: String,
    pub(super) subject_token_type: String,
    pub(super) token_url: String,
    #[serde(default)]
    pub(super) service_account_impersonation_url: String,
    #[serde(default)]
    pub(super) service_account_impersonation: Lifetime,
    #[serde(default)]
    pub(super) client_id: String,
    #[serde(default)]
    pub(super) client_secret: Secret,
    #[serde(default)]
    pub(super) workforce_pool_user_project: String,
    pub(super) credential_source: CredentialSource,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lifetime {
    pub(super) token_lifetime_seconds: Option<u32>,
}

/// Where the foreign token is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CredentialSource {
    pub(super) file: String,
    pub(super) url: String,
    pub(super) headers: BTreeMap<String, Secret>,
    pub(super) format: Format,
    pub(super) environment_id: String,
    pub(super) executable: Option<serde_json::Value>,
    pub(super) certificate: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Format {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) subject_token_field_name: String,
}

impl Source {
    /// What Google's libraries find: the file in `GOOGLE_APPLICATION_CREDENTIALS`, the one that `gcloud auth
    /// application-default login` writes, or the machine's own account. Nobody is asked.
    ///
    /// # Errors
    /// When there is a file that is of no use.
    pub fn application_default(env: &dyn Env) -> Result<Self, Error> {
        if let Some(path) = var(env, "GOOGLE_APPLICATION_CREDENTIALS") {
            return Self::file(Path::new(&path));
        }
        match gcloud::directory(env).map(|dir| dir.join("application_default_credentials.json")) {
            Some(path) if path.exists() => Self::file(&path),
            _ => Ok(Self::Metadata { account: "default".into() }),
        }
    }

    /// The credentials in a file.
    ///
    /// # Errors
    /// When there are none.
    pub fn file(path: &Path) -> Result<Self, Error> {
        let text = oauth::file(path, WHAT)?;
        Self::parse(&text).map_err(|problem| match problem {
            Problem::Content(reason) => Error::Content { what: WHAT.into(), path: path.to_owned(), reason },
            Problem::Kind(kind) => unsupported(&kind, path),
        })
    }

    /// From JSON.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        #[derive(Deserialize)]
        struct Kind {
            #[serde(rename = "type")]
            kind: String,
        }
        #[derive(Deserialize)]
        struct Impersonated {
            service_account_impersonation_url: String,
            #[serde(default)]
            delegates: Vec<String>,
            // Parsed by itself: it has a kind of its own.
            source_credentials: Box<serde_json::value::RawValue>,
        }
        // The reader's own words would quote a key.
        fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Problem> {
            serde_json::from_str(text).map_err(|error| {
                Problem::Content(if error.is_data() { "lack what belongs in them" } else { "are not JSON" })
            })
        }
        let text = text.trim_start_matches('\u{feff}');
        match read::<Kind>(text)?.kind.as_str() {
            "service_account" => {
                let account: ServiceAccount = read(text)?;
                match account.client_email.is_empty() || account.private_key.is_empty() {
                    true => Err(Problem::Content("lack what belongs in them")),
                    false => Ok(Self::ServiceAccount(account)),
                }
            }
            kind @ ("authorized_user" | "external_account_authorized_user") => {
                let user = User { basic: kind != "authorized_user", ..read(text)? };
                match user.refresh_token.is_empty() || (user.basic && user.token_uri.is_empty()) {
                    true => Err(Problem::Content("lack what belongs in them")),
                    false => Ok(Self::User(user)),
                }
            }
            "external_account" => Ok(Self::External(Box::new(read(text)?))),
            "impersonated_service_account" => {
                let Impersonated { service_account_impersonation_url: url, delegates, source_credentials } =
                    read(text)?;
                let from = Box::new(Self::parse(source_credentials.get())?);
                Ok(Self::Impersonated { url, delegates, from })
            }
            other => Err(Problem::Kind(other.to_owned())),
        }
    }
}

/// Why JSON is no credentials.
#[derive(Debug)]
pub(super) enum Problem {
    Content(&'static str),
    Kind(String),
}

pub(super) fn unsupported(kind: &str, path: &Path) -> Error {
    let kind = credlet_api::visible(kind).replace(|c: char| c.is_control(), " ");
    let kind: String = kind.chars().take(60).collect();
    Error::config(WHAT, format!("in {} are of the kind `{kind}`, which is not known here", path.display()))
}

impl Google {
    /// Names what a source gives, by all that decides it. `None`: it is at hand each time, and is not kept.
    pub(super) fn key(&self, source: &Source) -> Result<Option<String>, Error> {
        Ok(match source {
            Source::Metadata { .. } => None,
            Source::ServiceAccount(account) => Some(store::key([
                "service account",
                &account.client_email,
                account.private_key.expose(),
                &account.token_uri,
                &self.token_url,
            ])),
            Source::User(user) => Some(store::key([
                "user",
                &user.client_id,
                user.client_secret.expose(),
                user.refresh_token.expose(),
                &user.token_uri,
                &self.token_url,
            ])),
            Source::External(external) => Some(self.external_key(external)?),
            Source::Impersonated { url, delegates, from } => {
                let from = self.key(from)?;
                from.map(|from| store::key(["impersonated", url, &delegates.join(","), &from]))
            }
        })
    }

    fn external_key(&self, external: &External) -> Result<String, Error> {
        let source = &external.credential_source;
        // Another token in the same file may be another's.
        let content = if source.file.is_empty() {
            zeroize::Zeroizing::default()
        } else {
            oauth::file(&PathBuf::from(&source.file), "the token of the other identity provider")?
        };
        let headers = source.headers.iter().flat_map(|(name, value)| [name.as_str(), value.expose()]);
        let parts = [
            "external",
            &external.audience,
            &external.subject_token_type,
            &external.token_url,
            &external.service_account_impersonation_url,
            &external.client_id,
            &external.workforce_pool_user_project,
            &source.url,
            &content,
        ];
        Ok(store::key(parts.into_iter().chain(headers)))
    }
}
