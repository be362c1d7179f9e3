//! Credential sources, and the credential files of Google's libraries in all supported types.

use std::collections::BTreeMap;
use std::path::Path;

use credlet_api::Secret;
use credlet_exec::Env;
use serde::Deserialize;

use super::{GoogleClient, gcloud};
use crate::oauth::{self, IdentityToken, TokenError};
use crate::plugin_runner::env_var;
use credlet_exec::store;

const WHAT: &str = "Google Cloud credentials";
const MISSING_FIELD: &str = "a required field is missing or invalid";

/// The credentials that a token is obtained with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum GoogleCredentialSource {
    /// A service account of this instance, by the metadata server.
    Metadata {
        /// `default`, or the e-mail address of the account.
        account: String,
    },
    /// A service account key.
    ServiceAccountKey(ServiceAccountKey),
    /// A user login.
    AuthorizedUser(AuthorizedUser),
    /// An identity of another identity provider.
    ExternalAccount(Box<ExternalAccount>),
    /// An impersonated service account.
    Impersonated {
        /// The `generateAccessToken` URL of the service account.
        url: String,
        /// Service accounts between the caller and the impersonated one, each of which impersonates the next.
        delegates: Vec<String>,
        /// Credentials of the caller.
        from: Box<GoogleCredentialSource>,
    },
}

/// A service account key.
#[derive(Clone, Debug, Deserialize)]
pub struct ServiceAccountKey {
    pub(super) client_email: String,
    pub(super) private_key: Secret,
    #[serde(default)]
    pub(super) private_key_id: String,
    /// Token endpoint. Empty: the default.
    #[serde(default)]
    pub(super) token_uri: String,
}

/// A refresh token of a user login.
#[derive(Clone, Debug, Deserialize)]
pub struct AuthorizedUser {
    pub(super) client_id: String,
    pub(super) client_secret: Secret,
    pub(super) refresh_token: Secret,
    /// Token endpoint. Empty: the default.
    #[serde(default, alias = "token_url")]
    pub(super) token_uri: String,
    /// Whether to send client id and secret as basic authentication, as Google's STS requires.
    #[serde(skip)]
    pub(super) basic_auth: bool,
}

/// An identity of another identity provider (workload or workforce identity federation).
#[derive(Clone, Debug, Deserialize)]
pub struct ExternalAccount {
    pub(super) audience: String,
    pub(super) subject_token_type: String,
    pub(super) token_url: String,
    #[serde(default)]
    pub(super) service_account_impersonation_url: String,
    #[serde(default)]
    pub(super) service_account_impersonation: ImpersonationOptions,
    #[serde(default)]
    pub(super) client_id: String,
    #[serde(default)]
    pub(super) client_secret: Secret,
    #[serde(default)]
    pub(super) workforce_pool_user_project: String,
    pub(super) credential_source: SubjectTokenSource,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ImpersonationOptions {
    pub(super) token_lifetime_seconds: Option<u32>,
}

/// Where to read the external token.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SubjectTokenSource {
    pub(super) file: String,
    pub(super) url: String,
    pub(super) headers: BTreeMap<String, Secret>,
    pub(super) format: SubjectTokenFormat,
    pub(super) environment_id: String,
    pub(super) executable: Option<serde_json::Value>,
    pub(super) certificate: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SubjectTokenFormat {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) subject_token_field_name: String,
}

impl GoogleCredentialSource {
    /// Returns the application default credentials: the file in `GOOGLE_APPLICATION_CREDENTIALS`, that of `gcloud auth
    /// application-default login`, or the default service account of the instance. Sends no request.
    ///
    /// # Errors
    /// When the file cannot be read, is not JSON, has an unknown type, or lacks a field.
    pub fn application_default(env: &dyn Env) -> Result<Self, TokenError> {
        if let Some(path) = env_var(env, "GOOGLE_APPLICATION_CREDENTIALS") {
            return Self::file(Path::new(&path));
        }
        match gcloud::directory(env).map(|dir| dir.join("application_default_credentials.json")) {
            Some(path) if path.exists() => Self::file(&path),
            _ => Ok(Self::Metadata { account: "default".into() }),
        }
    }

    /// Reads a credentials file.
    ///
    /// # Errors
    /// When the file cannot be read, is not JSON, has an unknown type, or lacks a field.
    pub fn file(path: &Path) -> Result<Self, TokenError> {
        let text = oauth::read_text_file(path, WHAT, oauth::FILE_LIMIT)?;
        Self::parse(&text).map_err(|problem| match problem {
            ParseProblem::Content(reason) => {
                TokenError::InvalidFile { what: WHAT.into(), path: path.to_owned(), reason }
            }
            ParseProblem::Kind(kind) => unsupported(&kind, path),
        })
    }

    /// Parses the JSON of a credentials file.
    pub(super) fn parse(text: &str) -> Result<Self, ParseProblem> {
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
            // Parsed separately, by its own type.
            source_credentials: Box<serde_json::value::RawValue>,
        }
        // The parser's message would quote the key.
        fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ParseProblem> {
            serde_json::from_str(text)
                .map_err(|error| ParseProblem::Content(if error.is_data() { MISSING_FIELD } else { "not JSON" }))
        }
        let text = text.trim_start_matches('\u{feff}');
        match read::<Kind>(text)?.kind.as_str() {
            "service_account" => {
                let account: ServiceAccountKey = read(text)?;
                match account.client_email.is_empty() || account.private_key.is_empty() {
                    true => Err(ParseProblem::Content(MISSING_FIELD)),
                    false => Ok(Self::ServiceAccountKey(account)),
                }
            }
            kind @ ("authorized_user" | "external_account_authorized_user") => {
                let user = AuthorizedUser { basic_auth: kind != "authorized_user", ..read(text)? };
                match user.refresh_token.is_empty() || (user.basic_auth && user.token_uri.is_empty()) {
                    true => Err(ParseProblem::Content(MISSING_FIELD)),
                    false => Ok(Self::AuthorizedUser(user)),
                }
            }
            "external_account" => Ok(Self::ExternalAccount(Box::new(read(text)?))),
            "impersonated_service_account" => {
                let Impersonated { service_account_impersonation_url: url, delegates, source_credentials } =
                    read(text)?;
                let from = Box::new(Self::parse(source_credentials.get())?);
                Ok(Self::Impersonated { url, delegates, from })
            }
            other => Err(ParseProblem::Kind(other.to_owned())),
        }
    }
}

/// Why a credentials file is invalid.
#[derive(Debug)]
pub(super) enum ParseProblem {
    Content(&'static str),
    Kind(String),
}

pub(super) fn unsupported(kind: &str, path: &Path) -> TokenError {
    let kind = credlet_api::escape_line(kind);
    let kind: String = kind.chars().take(60).collect();
    TokenError::invalid_setting(format!("{WHAT} in {}", path.display()), format!("unsupported type `{kind}`"))
}

impl GoogleCredentialSource {
    /// Returns the external account that this source is, or impersonates with.
    pub(super) fn external(&self) -> Option<&ExternalAccount> {
        match self {
            Self::ExternalAccount(external) => Some(external),
            Self::Impersonated { from, .. } => from.external(),
            Self::Metadata { .. } | Self::ServiceAccountKey(_) | Self::AuthorizedUser(_) => None,
        }
    }
}

impl GoogleClient {
    /// The cache key of a source. `subject` is the identity token of an external account. `None`: not cached, because the
    /// metadata server is local, and the identity of the instance may change.
    pub(super) fn cache_key(&self, source: &GoogleCredentialSource, subject: Option<&IdentityToken>) -> Option<String> {
        match source {
            GoogleCredentialSource::Metadata { .. } => None,
            GoogleCredentialSource::ServiceAccountKey(account) => Some(store::cache_key([
                "service account",
                &account.client_email,
                account.private_key.expose(),
                &account.token_uri,
                &self.token_url,
            ])),
            GoogleCredentialSource::AuthorizedUser(user) => Some(store::cache_key([
                "user",
                &user.client_id,
                user.client_secret.expose(),
                user.refresh_token.expose(),
                &user.token_uri,
                &self.token_url,
            ])),
            GoogleCredentialSource::ExternalAccount(external) => Some(store::cache_key([
                "external",
                &external.audience,
                &external.subject_token_type,
                &external.token_url,
                &external.service_account_impersonation_url,
                &external.client_id,
                external.client_secret.expose(),
                &external.workforce_pool_user_project,
                subject?.expose(),
            ])),
            GoogleCredentialSource::Impersonated { url, delegates, from } => {
                let from = self.cache_key(from, subject)?;
                Some(store::cache_key(["impersonated", url, &delegates.join(","), &from]))
            }
        }
    }
}
