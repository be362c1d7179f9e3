use std::collections::BTreeMap;
use std::path::PathBuf;

use credlet_api::Secret;
use credlet_api::exec::ExecConfig;

/// Values that take precedence over the kubeconfig, like kubectl's flags. Empty values count as not set.
///
/// ```
/// use credlet_kubeconfig::ConfigOverrides;
///
/// let mut overrides = ConfigOverrides::default();
/// overrides.context = Some("blue".to_owned());
/// overrides.token = Some("hunter2".into());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ConfigOverrides {
    /// `--context`: replaces `current-context`. The context must exist.
    pub context: Option<String>,
    /// `--cluster`: replaces the context's cluster. It must exist.
    pub cluster: Option<String>,
    /// `--user`: replaces the context's user. It must exist.
    pub user: Option<String>,
    /// `--namespace`: replaces the context's namespace.
    pub namespace: Option<String>,

    /// `--server`. Also removes the cluster's `tls-server-name`.
    pub server: Option<String>,
    /// `--tls-server-name`.
    pub tls_server_name: Option<String>,
    /// `--insecure-skip-tls-verify`. Also removes the cluster's certificate authorities.
    pub insecure_skip_tls_verify: bool,
    /// `--certificate-authority`. Also removes the cluster's authorities and its `insecure-skip-tls-verify`.
    pub certificate_authority: Option<PathBuf>,
    /// `--proxy-url`: replaces that of the cluster.
    pub proxy_url: Option<Secret>,
    /// `--disable-compression`. `false` does not override the cluster's setting.
    pub disable_compression: bool,

    /// `--token`. Also removes the user's `tokenFile`.
    pub token: Option<Secret>,
    /// Token file, which is read again at least once a minute. Also removes the user's `token`.
    pub token_file: Option<PathBuf>,
    /// `--username`: replaces that of the user.
    pub username: Option<String>,
    /// `--password`: replaces that of the user. Without a user name it is not used.
    pub password: Option<Secret>,
    /// `--client-certificate`. Also removes the user's `client-certificate-data`.
    pub client_certificate: Option<PathBuf>,
    /// `--client-key`. Also removes the user's `client-key-data`.
    pub client_key: Option<PathBuf>,
    /// Exec plugin that replaces the user's.
    pub exec: Option<ExecConfig>,

    /// `--as`: replaces the user to impersonate.
    pub impersonate: Option<String>,
    /// `--as-uid`: replaces the UID to impersonate. Requires a user to impersonate.
    pub impersonate_uid: Option<String>,
    /// `--as-group`. If not empty, replaces all groups of the user.
    pub impersonate_groups: Vec<String>,
    /// `--as-user-extra`. Added to those of the user, by name.
    pub impersonate_user_extra: BTreeMap<String, Vec<String>>,
}
