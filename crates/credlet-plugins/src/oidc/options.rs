use std::path::PathBuf;

use clap::ArgAction::Set;
use clap::{Args, ValueEnum};
use credlet_api::Secret;

/// The flags of `kubelogin get-token` (int128), under its names, so that a kubeconfig changes one word.
///
/// Flags without a value may be written `--flag`, `--flag=true` and `--flag=false`, as Go programs have it.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// The issuer, exactly as it writes its name.
    #[arg(long = "oidc-issuer-url", value_name = "URL")]
    pub issuer_url: Option<String>,
    /// The name under which the issuer knows this client.
    #[arg(long = "oidc-client-id", value_name = "ID")]
    pub client_id: Option<String>,
    /// The client's secret, if it has one. Arguments can be seen by all users of this machine: CREDLET_OIDC_CLIENT_SECRET
    /// in the environment (`exec.env` in a kubeconfig) cannot.
    #[arg(long = "oidc-client-secret", value_name = "SECRET")]
    pub client_secret: Option<Secret>,
    /// A scope to ask for besides `openid`; may be repeated.
    #[arg(long = "oidc-extra-scope", value_name = "SCOPE", value_delimiter = ',')]
    pub extra_scopes: Vec<String>,
    /// Where the browser comes back to, if not http://localhost:PORT.
    #[arg(long = "oidc-redirect-url", value_name = "URL")]
    pub redirect_url: Option<String>,
    /// The host in the address the browser comes back to.
    #[arg(long = "oidc-redirect-url-hostname", value_name = "HOST", hide = true)]
    pub redirect_url_hostname: Option<String>,
    /// Use the access token instead of the ID token.
    #[arg(long = "oidc-use-access-token", action = Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value_t = false)]
    pub use_access_token: bool,
    /// `no` for an issuer that cannot bear PKCE; it is used otherwise.
    #[arg(long = "oidc-pkce-method", value_name = "METHOD", value_enum, default_value_t, ignore_case = true)]
    pub pkce_method: PkceMethod,
    /// Use PKCE, which is the default.
    #[arg(long = "oidc-use-pkce", action = Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value_t = false)]
    pub use_pkce: bool,
    /// More parameters for the issuer's login page, as name=value; may be repeated.
    #[arg(long = "oidc-auth-request-extra-params", value_name = "NAME=VALUE", value_delimiter = ',')]
    pub auth_request_extra_params: Vec<String>,
    /// A header for every request to the issuer, as name=value; may be repeated.
    #[arg(long = "oidc-request-header", value_name = "NAME=VALUE", value_delimiter = ',')]
    pub request_headers: Vec<Secret>,
    /// How to log in.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    pub grant_type: GrantType,
    /// Where to wait for the browser; may be repeated. [default: 127.0.0.1:8000,127.0.0.1:18000]
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',')]
    pub listen_address: Vec<String>,
    /// Only say which page to open.
    #[arg(long, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub skip_open_browser: bool,
    /// The program that opens a page, instead of $BROWSER and the system's.
    #[arg(long, value_name = "COMMAND")]
    pub browser_command: Option<String>,
    /// How long to wait for a person, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    pub authentication_timeout_sec: u32,
    /// The page to show after the login, instead of ours.
    #[arg(long, value_name = "URL")]
    pub open_url_after_authentication: Option<String>,
    /// Where tokens are kept. [default: ~/.cache/credlet/oidc]
    #[arg(long, value_name = "DIR")]
    pub token_cache_dir: Option<PathBuf>,
    /// How tokens are kept: `keyring` encrypts them with a key from the system's keyring.
    #[arg(long, value_name = "STORAGE", value_enum, default_value_t)]
    pub token_cache_storage: Storage,
    /// Get a new token even if the old one is still good.
    #[arg(long, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub force_refresh: bool,
    /// A file with the certificate authority of the issuer; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub certificate_authority: Vec<PathBuf>,
    /// The certificate authority itself, in base64; may be repeated.
    #[arg(long, value_name = "BASE64")]
    pub certificate_authority_data: Vec<String>,
    /// Believe whoever answers in the issuer's place.
    #[arg(long, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub insecure_skip_tls_verify: bool,
    /// Flags of kubelogin's that are known and refused, or known and without meaning here.
    #[command(flatten)]
    pub others: OtherOptions,
}

/// What kubelogin has and this has not. They are read, so that the answer to them is more than "unexpected argument".
#[derive(Args, Clone, Debug, Default)]
pub struct OtherOptions {
    /// Refused: the page on localhost has no TLS.
    #[arg(long, hide = true)]
    pub local_server_cert: Option<PathBuf>,
    /// Refused with it.
    #[arg(long, hide = true)]
    pub local_server_key: Option<PathBuf>,
    /// Refused: passwords are for the issuer's page.
    #[arg(long, hide = true)]
    pub username: Option<String>,
    /// Refused with it.
    #[arg(long, hide = true)]
    pub password: Option<Secret>,
    /// Without meaning: TLS 1.3 knows no renegotiation, and we take part in none.
    #[arg(long, hide = true, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub tls_renegotiation_once: bool,
    /// Without meaning.
    #[arg(long, hide = true, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub tls_renegotiation_freely: bool,
}

/// How to log in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum GrantType {
    /// The same as authcode.
    #[default]
    Auto,
    /// In a browser on this machine.
    Authcode,
    /// In a browser anywhere, by typing a code.
    DeviceCode,
    /// Without a person: the client itself logs in.
    ClientCredentials,
    /// Refused: kubelogin's way to type a name and a password into a terminal.
    #[value(hide = true)]
    Password,
    /// Refused: kubelogin's way to copy a code out of the browser's address.
    #[value(hide = true)]
    AuthcodeKeyboard,
}

/// Whether the login is tied to this process by PKCE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PkceMethod {
    /// Yes: an issuer that does not know it ignores it.
    #[default]
    Auto,
    /// No.
    No,
    /// Yes.
    #[value(name = "S256")]
    S256,
}

/// How tokens are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Storage {
    /// In files that only their owner can read.
    #[default]
    Disk,
    /// In such files, encrypted with a key from the system's keyring.
    Keyring,
    /// Not at all.
    None,
}
