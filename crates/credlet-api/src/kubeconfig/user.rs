use std::collections::BTreeMap;

use super::{Data, Located, NamedExtension};
use crate::Secret;

/// How to prove who one is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthInfo {
    /// A file with a client certificate and its intermediates.
    pub client_certificate: Located<String>,
    /// The same as PEM.
    pub client_certificate_data: Located<Data>,
    /// A file with the certificate's key.
    pub client_key: Located<String>,
    /// The same as PEM.
    pub client_key_data: Located<Data>,
    /// A bearer token.
    pub token: Located<Secret>,
    /// A file with one, to be read again and again.
    pub token_file: Located<String>,
    /// Whom to act as.
    pub impersonate: Located<String>,
    /// The uid to act with.
    pub impersonate_uid: Located<String>,
    /// The groups to act with.
    pub impersonate_groups: Located<Vec<String>>,
    /// More attributes to act with.
    pub impersonate_user_extra: Located<BTreeMap<String, Vec<String>>>,
    /// For basic authentication.
    pub username: Located<String>,
    /// For basic authentication.
    pub password: Located<Secret>,
    /// A kind of login that was built into clients once.
    pub auth_provider: Option<Located<AuthProviderConfig>>,
    /// A program to ask for a credential.
    pub exec: Option<Located<ExecSection>>,
    /// Free data of other programs.
    pub extensions: Vec<NamedExtension>,
}

/// The section `auth-provider` of a user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthProviderConfig {
    /// Which one.
    pub name: Located<String>,
    /// Its settings and the tokens it has been given.
    pub config: BTreeMap<String, Secret>,
    /// The line on which each of them stands, for those who write a new token in its place.
    pub config_lines: BTreeMap<String, usize>,
}

/// The section `exec` of a user as it is written; what it comes to is an [`ExecConfig`](crate::exec::ExecConfig).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecSection {
    /// The program.
    pub command: Located<String>,
    /// Its arguments, in which people keep secrets.
    pub args: Located<Vec<Secret>>,
    /// Variables for its environment.
    pub env: Vec<ExecEnvVar>,
    /// The version in which it is asked.
    pub api_version: Located<String>,
    /// Shown when it is missing.
    pub install_hint: Located<String>,
    /// Whether it is told about the cluster.
    pub provide_cluster_info: Located<bool>,
    /// Whether it may talk to a person. Where this is empty and the version is older than v1, that means
    /// `IfAvailable`; for v1 it is a mistake.
    pub interactive_mode: Located<String>,
}

/// A variable for the program's environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecEnvVar {
    /// Its name.
    pub name: Located<String>,
    /// Its value.
    pub value: Secret,
}
