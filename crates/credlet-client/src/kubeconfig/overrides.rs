use std::collections::BTreeMap;
use std::path::PathBuf;

use credlet_api::Secret;
use credlet_api::exec::ExecConfig;

/// What the caller knows better than the files. An empty text is as good as none, as with kubectl's flags.
///
/// ```
/// use credlet_client::kubeconfig::Overrides;
///
/// let mut overrides = Overrides::default();
/// overrides.context = Some("blue".to_owned());
/// overrides.token = Some("hunter2".into());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Overrides {
    /// `--context`: instead of `current-context`. It must exist.
    pub context: Option<String>,
    /// `--cluster`: instead of the context's. It must exist.
    pub cluster: Option<String>,
    /// `--user`: instead of the context's. It must exist.
    pub user: Option<String>,
    /// `--namespace`.
    pub namespace: Option<String>,

    /// `--server`. The cluster's `tls-server-name` goes with the old one.
    pub server: Option<String>,
    /// `--tls-server-name`.
    pub tls_server_name: Option<String>,
    /// `--insecure-skip-tls-verify`. The cluster's certificate authorities are forgotten.
    pub insecure_skip_tls_verify: bool,
    /// `--certificate-authority`. The cluster's own and its `insecure-skip-tls-verify` are forgotten.
    pub certificate_authority: Option<PathBuf>,
    /// `--proxy-url`.
    pub proxy_url: Option<Secret>,
    /// `--disable-compression`.
    pub disable_compression: bool,

    /// `--token`. The user's `tokenFile` is forgotten.
    pub token: Option<Secret>,
    /// A file with a token, to be read again and again. The user's `token` is forgotten.
    pub token_file: Option<PathBuf>,
    /// `--username`.
    pub username: Option<String>,
    /// `--password`.
    pub password: Option<Secret>,
    /// `--client-certificate`. The user's `client-certificate-data` is forgotten.
    pub client_certificate: Option<PathBuf>,
    /// `--client-key`. The user's `client-key-data` is forgotten.
    pub client_key: Option<PathBuf>,
    /// A program to ask, in place of the user's.
    pub exec: Option<ExecConfig>,

    /// `--as`.
    pub impersonate: Option<String>,
    /// `--as-uid`.
    pub impersonate_uid: Option<String>,
    /// `--as-group`, replacing all of the user's if there is any.
    pub impersonate_groups: Vec<String>,
    /// `--as-user-extra`, added to the user's, by name.
    pub impersonate_user_extra: BTreeMap<String, Vec<String>>,
}
