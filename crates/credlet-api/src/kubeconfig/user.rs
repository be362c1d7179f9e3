use std::collections::BTreeMap;

use super::{Located, NamedExtension, SecretBytes};
use crate::Secret;

/// The section `user`: credentials.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthInfo {
    /// Path of the client certificate and its intermediates.
    pub client_certificate: Located<String>,
    /// PEM of the client certificate and its intermediates.
    pub client_certificate_data: Located<SecretBytes>,
    /// Path of the private key.
    pub client_key: Located<String>,
    /// PEM of the private key.
    pub client_key_data: Located<SecretBytes>,
    /// Bearer token. Beside `token_file`, used only while that file cannot be read.
    pub token: Located<Secret>,
    /// Path of a file with a bearer token, which is reread periodically.
    pub token_file: Located<String>,
    /// User to impersonate.
    pub impersonate: Located<String>,
    /// UID to impersonate.
    pub impersonate_uid: Located<String>,
    /// Groups to impersonate.
    pub impersonate_groups: Located<Vec<String>>,
    /// Extra attributes to impersonate.
    pub impersonate_user_extra: Located<BTreeMap<String, Vec<String>>>,
    /// User name for basic authentication.
    pub username: Located<String>,
    /// Password for basic authentication.
    pub password: Located<Secret>,
    /// Legacy auth provider that is built into the client.
    pub auth_provider: Option<Located<AuthProviderConfig>>,
    /// Exec plugin. A token, a user name or a client certificate takes precedence over it.
    pub exec: Option<Located<ExecSection>>,
    /// Arbitrary data of other programs.
    pub extensions: Vec<NamedExtension>,
}

/// The section `auth-provider` of a user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthProviderConfig {
    /// Name of the provider, such as `oidc`.
    pub name: Located<String>,
    /// Settings of the provider, including its tokens.
    pub config: BTreeMap<String, Secret>,
    /// Line of each setting, for editing the file when a token is refreshed.
    pub config_lines: BTreeMap<String, usize>,
}

/// The section `exec` of a user. The loader validates it and converts it to an [`ExecConfig`](crate::exec::ExecConfig).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecSection {
    /// Name or path of the program.
    pub command: Located<String>,
    /// Arguments, which may contain secrets.
    pub args: Located<Vec<Secret>>,
    /// Variables that the plugin gets in addition to the inherited ones.
    pub env: Vec<ExecSectionEnvVar>,
    /// Version of the protocol.
    pub api_version: Located<String>,
    /// Message for the user if the program is not installed.
    pub install_hint: Located<String>,
    /// Whether to pass the cluster to the plugin.
    pub provide_cluster_info: Located<bool>,
    /// Whether the plugin may prompt the user. Empty means `IfAvailable` before v1, and is an error in v1.
    pub interactive_mode: Located<String>,
}

/// An environment variable in an [`ExecSection`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecSectionEnvVar {
    /// Name of the variable.
    pub name: Located<String>,
    /// Value of the variable.
    pub value: Secret,
}
