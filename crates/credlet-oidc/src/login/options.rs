use std::path::PathBuf;

use clap::ArgAction::Set;
use clap::{Args, ValueEnum};
use credlet_api::Secret;

/// The flags of `kubelogin get-token` (int128/kubelogin), so that a kubeconfig only changes the command.
///
/// Boolean flags may be written `--flag`, `--flag=true` and `--flag=false`, as in Go programs.
#[derive(Args, Clone, Debug, Default)]
pub struct OidcOptions {
    /// Issuer URL, exactly as in the issuer's discovery document.
    #[arg(long = "oidc-issuer-url", value_name = "URL")]
    pub issuer_url: Option<String>,
    /// Client id.
    #[arg(long = "oidc-client-id", value_name = "ID")]
    pub client_id: Option<String>,
    /// Client secret, if the client has one. All users of this machine can read arguments, so prefer the environment variable
    /// CREDLET_OIDC_CLIENT_SECRET (`exec.env` in a kubeconfig).
    #[arg(long = "oidc-client-secret", value_name = "SECRET")]
    pub client_secret: Option<Secret>,
    /// Scope to request in addition to `openid`; may be repeated.
    #[arg(long = "oidc-extra-scope", value_name = "SCOPE", value_delimiter = ',')]
    pub extra_scopes: Vec<String>,
    /// Redirect URI. [default: http://localhost:PORT]
    #[arg(long = "oidc-redirect-url", value_name = "URL")]
    pub redirect_url: Option<String>,
    /// Host of the redirect URI.
    #[arg(long = "oidc-redirect-url-hostname", value_name = "HOST", hide = true)]
    pub redirect_url_hostname: Option<String>,
    /// Use the access token instead of the ID token.
    #[arg(long = "oidc-use-access-token", action = Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value_t = false)]
    pub use_access_token: bool,
    /// PKCE method; `no` for issuers that reject PKCE.
    #[arg(long = "oidc-pkce-method", value_name = "METHOD", value_enum, default_value_t, ignore_case = true)]
    pub pkce_method: PkceMethod,
    /// Use PKCE (default).
    #[arg(long = "oidc-use-pkce", action = Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value_t = false)]
    pub use_pkce: bool,
    /// Additional parameter of the authorization request, as name=value; may be repeated.
    #[arg(long = "oidc-auth-request-extra-params", value_name = "NAME=VALUE", value_delimiter = ',')]
    pub auth_request_extra_params: Vec<String>,
    /// Header for every request to the issuer, as name=value; may be repeated.
    #[arg(long = "oidc-request-header", value_name = "NAME=VALUE", value_delimiter = ',')]
    pub request_headers: Vec<Secret>,
    /// Grant type for the login.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    pub grant_type: GrantType,
    /// Address to listen on for the browser; may be repeated, the first free port is used. With the host `localhost` in the
    /// redirect URI, 127.0.0.1 and ::1 are both bound. [default: 127.0.0.1:8000,127.0.0.1:18000, or that of
    /// --oidc-redirect-url]
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',')]
    pub listen_address: Vec<String>,
    /// Print the URL to open instead of starting a browser.
    #[arg(long, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub skip_open_browser: bool,
    /// Command that opens a URL, instead of $BROWSER and the system's default.
    #[arg(long, value_name = "COMMAND")]
    pub browser_command: Option<String>,
    /// Timeout of the login in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    pub authentication_timeout_sec: u32,
    /// URL to open after the login, instead of the built-in page.
    #[arg(long, value_name = "URL")]
    pub open_url_after_authentication: Option<String>,
    #[cfg_attr(not(target_os = "macos"), doc = "Directory for stored logins. [default: ~/.cache/credlet/oidc]")]
    #[cfg_attr(target_os = "macos", doc = "Directory for stored logins. [default: ~/Library/Caches/credlet/oidc]")]
    #[arg(long, value_name = "DIR")]
    pub token_cache_dir: Option<PathBuf>,
    /// Storage of logins: `keyring` encrypts them with a key in the kernel's keyring.
    #[arg(long, value_name = "STORAGE", value_enum, default_value_t)]
    pub token_cache_storage: TokenStorage,
    /// Get a new token even if the stored one is still valid.
    #[arg(long, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub force_refresh: bool,
    /// File with the certificate authority of the issuer in PEM; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub certificate_authority: Vec<PathBuf>,
    /// Certificate authority of the issuer as base64-encoded PEM; may be repeated.
    #[arg(long, value_name = "BASE64")]
    pub certificate_authority_data: Vec<String>,
    /// Do not verify the issuer's TLS certificate. Insecure.
    #[arg(long, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub insecure_skip_tls_verify: bool,
    /// Flags of kubelogin that are rejected or ignored.
    #[command(flatten)]
    pub others: UnsupportedOptions,
}

/// Flags of kubelogin that are rejected with a helpful error, or ignored.
#[derive(Args, Clone, Debug, Default)]
pub struct UnsupportedOptions {
    /// Rejected: the page on localhost has no TLS.
    #[arg(long, hide = true)]
    pub local_server_cert: Option<PathBuf>,
    /// Rejected like `--local-server-cert`.
    #[arg(long, hide = true)]
    pub local_server_key: Option<PathBuf>,
    /// Rejected: passwords are entered on the issuer's page.
    #[arg(long, hide = true)]
    pub username: Option<String>,
    /// Rejected like `--username`.
    #[arg(long, hide = true)]
    pub password: Option<Secret>,
    /// Ignored: TLS renegotiation is not supported.
    #[arg(long, hide = true, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub tls_renegotiation_once: bool,
    /// Ignored like `--tls-renegotiation-once`.
    #[arg(long, hide = true, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub tls_renegotiation_freely: bool,
}

/// Grant type of the login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum GrantType {
    /// Same as authcode.
    #[default]
    Auto,
    /// In a browser on this machine.
    Authcode,
    /// With a code that is entered in a browser on any device (RFC 8628).
    DeviceCode,
    /// Without a user: the client authenticates with its secret.
    ClientCredentials,
    /// Rejected: user name and password in the terminal.
    #[value(hide = true)]
    Password,
    /// Rejected: a code that is copied from the browser to the terminal.
    #[value(hide = true)]
    AuthcodeKeyboard,
}

/// Use of PKCE (RFC 7636).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PkceMethod {
    /// S256. Issuers without PKCE ignore it.
    #[default]
    Auto,
    /// Without PKCE.
    No,
    /// With the method S256.
    #[value(name = "S256")]
    S256,
}

/// How logins are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TokenStorage {
    /// In files that only the user can read.
    #[default]
    Disk,
    /// In such files, encrypted with a key in the kernel's keyring.
    Keyring,
    /// Logins are not stored.
    None,
}
