//! Validated flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_exec::Env;
use credlet_http::{ServerAddr, TrustRoots, is_loopback};
use http::HeaderName;

use super::options::{GrantType, OidcOptions, PkceMethod, TokenStorage};
use super::{OidcError, cache_key};
use credlet_exec::store::{KernelKeyring, Keyring};

/// Environment variable for the client secret, which other users could read among the arguments.
pub const CLIENT_SECRET_ENV: &str = "CREDLET_OIDC_CLIENT_SECRET";

/// Default addresses of kubelogin, which are therefore registered with issuers.
const DEFAULT_LISTEN: [&str; 2] = ["127.0.0.1:8000", "127.0.0.1:18000"];

/// How to log in at which issuer.
#[derive(Clone, Debug)]
pub struct OidcSettings {
    pub(super) issuer: String,
    pub(super) client_id: String,
    pub(super) client_secret: Secret,
    pub(super) scopes: Vec<String>,
    pub(super) use_access_token: bool,
    pub(super) pkce: bool,
    pub(super) extra_params: Vec<(String, String)>,
    pub(super) headers: Vec<(HeaderName, Secret)>,
    pub(super) grant: GrantType,
    pub(super) listen: Vec<SocketAddr>,
    pub(super) redirect: RedirectTarget,
    pub(super) open_browser: bool,
    pub(super) browser_command: Option<String>,
    pub(super) timeout: Duration,
    pub(super) page_after: Option<String>,
    pub(super) roots: TrustRoots,
    pub(super) force_refresh: bool,
    pub(super) directory: Option<PathBuf>,
    pub(super) storage: TokenStorage,
    pub(super) keyring: Arc<dyn Keyring>,
}

/// Target of the redirect after the login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RedirectTarget {
    /// This host, at the listening port.
    Host(String),
    /// Exactly this URL.
    Url(String),
}

impl OidcSettings {
    /// Validates the flags.
    ///
    /// # Errors
    /// If a flag is missing or invalid, or a file cannot be read.
    pub fn new(options: &OidcOptions, env: &dyn Env) -> Result<Self, OidcError> {
        reject_unsupported(options)?;
        let issuer = options
            .issuer_url
            .clone()
            .filter(|url| !url.is_empty())
            .ok_or(OidcError::MissingFlag("--oidc-issuer-url"))?;
        check_issuer(&issuer)?;
        let client_id =
            options.client_id.clone().filter(|id| !id.is_empty()).ok_or(OidcError::MissingFlag("--oidc-client-id"))?;
        let from_env = || env.var(CLIENT_SECRET_ENV).and_then(|secret| secret.into_string().ok()).map(Secret::new);
        let client_secret = options.client_secret.clone().or_else(from_env).unwrap_or_default();
        if options.grant_type == GrantType::ClientCredentials && client_secret.is_empty() {
            return Err(OidcError::MissingFlag("--oidc-client-secret"));
        }
        let redirect = match (&options.redirect_url, &options.redirect_url_hostname) {
            (Some(url), _) => RedirectTarget::Url(url.clone()),
            (None, host) => RedirectTarget::Host(host.clone().unwrap_or_else(|| "localhost".to_owned())),
        };
        if let RedirectTarget::Url(url) = &redirect {
            ServerAddr::parse(url)
                .map_err(|_| flag("--oidc-redirect-url", "must be a URL like http://localhost:8000"))?;
        }
        Ok(Self {
            issuer,
            client_id,
            client_secret,
            scopes: scopes(options),
            use_access_token: options.use_access_token,
            pkce: options.use_pkce || options.pkce_method != PkceMethod::No,
            extra_params: extra_params(&options.auth_request_extra_params)?,
            headers: headers(&options.request_headers)?,
            grant: options.grant_type,
            listen: listen(&options.listen_address, &redirect)?,
            redirect,
            open_browser: !options.skip_open_browser,
            browser_command: options.browser_command.clone().filter(|command| !command.is_empty()),
            timeout: Duration::from_secs(options.authentication_timeout_sec.into()),
            page_after: options.open_url_after_authentication.clone().filter(|url| !url.is_empty()),
            roots: roots(options)?,
            force_refresh: options.force_refresh,
            directory: cache_key::directory(options.token_cache_dir.as_deref(), env),
            storage: options.token_cache_storage,
            keyring: Arc::new(KernelKeyring),
        })
    }

    /// Replaces the kernel's keyring, which holds the key for `--token-cache-storage=keyring`.
    #[must_use]
    pub fn with_keyring(self, keyring: Arc<dyn Keyring>) -> Self {
        Self { keyring, ..self }
    }

    /// Whether a user must log in.
    pub(super) fn is_interactive(&self) -> bool {
        self.grant != GrantType::ClientCredentials
    }
}

fn flag(flag: &'static str, reason: &'static str) -> OidcError {
    OidcError::InvalidFlag { flag, reason }
}

fn reject_unsupported(options: &OidcOptions) -> Result<(), OidcError> {
    let others = &options.others;
    let grant = |reason| Err(flag("--grant-type", reason));
    match options.grant_type {
        GrantType::Password => grant("`password` is not supported, log in at the issuer or use client-credentials"),
        GrantType::AuthcodeKeyboard => {
            grant("`authcode-keyboard` is not supported, use device-code, which needs no local browser either")
        }
        _ if others.username.is_some() => Err(flag("--username", "not supported, enter it on the issuer's page")),
        _ if others.password.is_some() => Err(flag("--password", "not supported, enter it on the issuer's page")),
        _ if others.local_server_cert.is_some() || others.local_server_key.is_some() => {
            Err(flag("--local-server-cert", "not supported, the page on localhost has no TLS"))
        }
        _ => Ok(()),
    }
}

fn headers(given: &[Secret]) -> Result<Vec<(HeaderName, Secret)>, OidcError> {
    let wrong = || flag("--oidc-request-header", "must have the form name=value");
    let header = |text: &Secret| {
        let (name, value) = text.expose().split_once('=').ok_or_else(wrong)?;
        let name: HeaderName = name.parse().map_err(|_| wrong())?;
        http::HeaderValue::from_str(value).map_err(|_| wrong())?;
        Ok((name, Secret::new(value)))
    };
    let mut headers = given.iter().map(header).collect::<Result<Vec<_>, OidcError>>()?;
    headers.sort_by(|(a, x), (b, y)| (a.as_str(), x.expose()).cmp(&(b.as_str(), y.expose())));
    Ok(headers)
}

fn check_issuer(url: &str) -> Result<(), OidcError> {
    let wrong = |reason| flag("--oidc-issuer-url", reason);
    let server = ServerAddr::parse(url).map_err(|_| wrong("must be a URL like https://host/path"))?;
    if !server.is_https() && !is_loopback(server.host()) {
        return Err(wrong("must be an https URL"));
    }
    if url.contains(['?', '#']) {
        return Err(wrong("must not have a query or a fragment"));
    }
    Ok(())
}

fn scopes(options: &OidcOptions) -> Vec<String> {
    let extra = options.extra_scopes.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned);
    // With client credentials there is no user, hence no ID token.
    let openid = (options.grant_type != GrantType::ClientCredentials).then(|| "openid".to_owned());
    let mut scopes: Vec<String> = extra.chain(openid).collect();
    scopes.sort();
    scopes.dedup();
    scopes
}

fn extra_params(given: &[String]) -> Result<Vec<(String, String)>, OidcError> {
    // Parameters of the login itself. A second one could override the checked one.
    const RESERVED: [&str; 8] = [
        "client_id",
        "code_challenge",
        "code_challenge_method",
        "nonce",
        "redirect_uri",
        "response_type",
        "scope",
        "state",
    ];
    let wrong = |reason| flag("--oidc-auth-request-extra-params", reason);
    let pair = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| wrong("must have the form name=value"))?;
        if RESERVED.contains(&name) {
            return Err(wrong("must not replace a parameter that is set by the login itself"));
        }
        Ok((name.to_owned(), value.to_owned()))
    };
    let mut pairs = given.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
    pairs.sort();
    Ok(pairs)
}

/// Returns the addresses to listen on: the configured ones, else that of a loopback redirect URL, else kubelogin's defaults.
fn listen(given: &[String], redirect: &RedirectTarget) -> Result<Vec<SocketAddr>, OidcError> {
    if given.is_empty()
        && let Some(address) = redirect.loopback_address()
    {
        return Ok(vec![address]);
    }
    let defaults = DEFAULT_LISTEN.map(str::to_owned);
    let texts = if given.is_empty() { defaults.as_slice() } else { given };
    let wrong = || flag("--listen-address", "must be an address like 127.0.0.1:8000");
    let address = |text: &String| text.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(wrong);
    texts.iter().map(address).collect()
}

impl RedirectTarget {
    /// Returns address and port of a redirect URL with a loopback host.
    pub(super) fn loopback_address(&self) -> Option<SocketAddr> {
        let Self::Url(url) = self else { return None };
        let server = ServerAddr::parse(url).ok().filter(|server| !server.is_https() && is_loopback(server.host()))?;
        let ip = server.host().parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        Some(SocketAddr::new(ip, server.port()))
    }
}

fn roots(options: &OidcOptions) -> Result<TrustRoots, OidcError> {
    if options.insecure_skip_tls_verify {
        return Ok(TrustRoots::Unchecked);
    }
    let mut pem = Vec::new();
    for path in &options.certificate_authority {
        let read = credlet_platform::fs::read_bounded(path, 8 << 20);
        let read = read.map_err(|reason| std::io::Error::new(reason.kind(), reason));
        let failed = |source| OidcError::ReadFile { flag: "--certificate-authority", path: path.clone(), source };
        pem.extend_from_slice(&read.map_err(failed)?);
        pem.push(b'\n');
    }
    for data in &options.certificate_authority_data {
        let wrong = || flag("--certificate-authority-data", "must be base64");
        pem.extend(STANDARD.decode(data.trim()).map_err(|_| wrong())?);
        pem.push(b'\n');
    }
    match pem.is_empty() {
        true => Ok(TrustRoots::Platform),
        false if pem.windows(27).any(|window| window == b"-----BEGIN CERTIFICATE-----") => Ok(TrustRoots::Pem(pem)),
        false => Err(flag("--certificate-authority", "has no certificate in PEM format")),
    }
}

#[cfg(test)]
mod tests {
    use credlet_exec::FixedEnv;

    use super::super::UnsupportedOptions;
    use super::*;

    fn options() -> OidcOptions {
        let (issuer_url, client_id) = (Some("https://id.example".to_owned()), Some("kube".to_owned()));
        OidcOptions { issuer_url, client_id, ..OidcOptions::default() }
    }

    fn wrong(options: &OidcOptions) -> String {
        OidcSettings::new(options, &FixedEnv::default()).unwrap_err().to_string()
    }

    #[test]
    fn issuer_requires_https_or_loopback() {
        for url in
            ["http://id.example", "ftp://id.example", "id.example", "https://id.example?x", "https://id.example/#x"]
        {
            let options = OidcOptions { issuer_url: Some(url.to_owned()), ..options() };
            assert!(wrong(&options).starts_with("invalid `--oidc-issuer-url`: "), "{url}");
        }
        for url in ["http://127.0.0.1:1/x", "http://localhost:1", "http://[::1]:1", "https://id.example/realms/x"] {
            let options = OidcOptions { issuer_url: Some(url.to_owned()), ..options() };
            OidcSettings::new(&options, &FixedEnv::default()).unwrap();
        }
    }

    #[test]
    fn scopes_and_parameters_are_sorted() {
        let options = OidcOptions {
            extra_scopes: vec!["groups email".into(), "openid".into(), "email".into()],
            auth_request_extra_params: vec!["prompt=login".into(), "audience=a=b".into()],
            ..options()
        };
        let settings = OidcSettings::new(&options, &FixedEnv::default()).unwrap();
        assert_eq!(settings.scopes, ["email", "groups", "openid"]);
        let pairs = [("audience".to_owned(), "a=b".to_owned()), ("prompt".to_owned(), "login".to_owned())];
        assert_eq!(settings.extra_params, pairs);
    }

    #[test]
    fn reserved_parameter_is_rejected() {
        let options = OidcOptions { auth_request_extra_params: vec!["state=mine".into()], ..options() };
        assert!(wrong(&options).contains("set by the login itself"));
    }

    #[test]
    fn client_secret_comes_from_environment() {
        let env = FixedEnv::new([(CLIENT_SECRET_ENV, "hunter2")]);
        let settings = OidcSettings::new(&options(), &env).unwrap();
        assert_eq!(settings.client_secret.expose(), "hunter2");
        assert!(!format!("{settings:?}").contains("hunter2"));
        let given = OidcOptions { client_secret: Some("other".into()), ..options() };
        assert_eq!(OidcSettings::new(&given, &env).unwrap().client_secret.expose(), "other");
    }

    #[test]
    fn unsupported_kubelogin_flags_are_rejected() {
        for (others, grant_type, word) in [
            (
                UnsupportedOptions { username: Some("ada".into()), ..UnsupportedOptions::default() },
                GrantType::Auto,
                "--username",
            ),
            (
                UnsupportedOptions { password: Some("x".into()), ..UnsupportedOptions::default() },
                GrantType::Auto,
                "--password",
            ),
            (
                UnsupportedOptions { local_server_key: Some("x".into()), ..UnsupportedOptions::default() },
                GrantType::Auto,
                "no TLS",
            ),
            (UnsupportedOptions::default(), GrantType::Password, "client-credentials"),
            (UnsupportedOptions::default(), GrantType::AuthcodeKeyboard, "device-code"),
        ] {
            let error = wrong(&OidcOptions { others, grant_type, ..options() });
            assert!(error.contains(word), "{error}");
        }
        let others = UnsupportedOptions { tls_renegotiation_once: true, ..UnsupportedOptions::default() };
        OidcSettings::new(&OidcOptions { others, ..options() }, &FixedEnv::default()).unwrap();
    }

    #[test]
    fn request_headers_are_parsed_and_redacted() {
        let request_headers = vec!["x-b=2=3".into(), "X-A=hunter2".into()];
        let settings = OidcSettings::new(&OidcOptions { request_headers, ..options() }, &FixedEnv::default()).unwrap();
        let headers: Vec<_> = settings.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(headers, [("x-a", "hunter2"), ("x-b", "2=3")]);
        assert!(!format!("{settings:?}").contains("hunter2"));
        for header in ["x", "a b=c", "a=b\nc"] {
            assert!(
                wrong(&OidcOptions { request_headers: vec![header.replace("\\n", "\n").into()], ..options() })
                    .contains("name=value")
            );
        }
    }

    #[test]
    fn listens_on_loopback_redirect_url() {
        let listen = |redirect: Option<&str>, given: &[&str]| {
            let redirect_url = redirect.map(str::to_owned);
            let listen_address = given.iter().map(|&text| text.to_owned()).collect();
            let settings =
                OidcSettings::new(&OidcOptions { redirect_url, listen_address, ..options() }, &FixedEnv::default())
                    .unwrap();
            settings.listen.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" ")
        };
        let usual = "127.0.0.1:8000 127.0.0.1:18000";
        assert_eq!(listen(None, &[]), usual);
        assert_eq!(listen(Some("http://localhost:9000/back"), &[]), "127.0.0.1:9000");
        assert_eq!(listen(Some("http://[::1]:9000"), &[]), "[::1]:9000");
        assert_eq!(listen(Some("http://127.0.0.1"), &[]), "127.0.0.1:80");
        assert_eq!(listen(Some("http://localhost:9000"), &["127.0.0.1:1"]), "127.0.0.1:1");
        for elsewhere in ["https://localhost:9000", "http://login.example:9000"] {
            assert_eq!(listen(Some(elsewhere), &[]), usual, "{elsewhere}");
        }
    }

    #[test]
    fn client_credentials_require_a_secret() {
        let options = OidcOptions { grant_type: GrantType::ClientCredentials, ..options() };
        assert_eq!(wrong(&options), "`--oidc-client-secret` is missing");
    }
}
