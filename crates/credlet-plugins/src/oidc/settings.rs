//! The flags, checked: from here on they make sense.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_client::conn::{Roots, Server, is_loopback};
use credlet_core::Env;
use http::HeaderName;

use super::options::{GrantType, Options, PkceMethod, Storage};
use super::{Error, key};
use crate::store::{KernelKeyring, Keyring};

/// The variable for a client secret that should not be an argument.
pub(super) const CLIENT_SECRET_ENV: &str = "CREDLET_OIDC_CLIENT_SECRET";

/// Where kubelogin waits for the browser, and what is registered with issuers therefore.
const LISTEN: [&str; 2] = ["127.0.0.1:8000", "127.0.0.1:18000"];

/// How to log in, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) issuer: String,
    pub(super) client_id: String,
    pub(super) client_secret: Secret,
    /// Sorted: the order means nothing.
    pub(super) scopes: Vec<String>,
    pub(super) use_access_token: bool,
    pub(super) pkce: bool,
    /// Sorted.
    pub(super) extra_params: Vec<(String, String)>,
    /// Sorted.
    pub(super) headers: Vec<(HeaderName, Secret)>,
    pub(super) grant: GrantType,
    pub(super) listen: Vec<SocketAddr>,
    pub(super) redirect: Redirect,
    pub(super) open_browser: bool,
    pub(super) browser_command: Option<String>,
    pub(super) timeout: Duration,
    pub(super) page_after: Option<String>,
    pub(super) roots: Roots,
    pub(super) force_refresh: bool,
    pub(super) directory: Option<PathBuf>,
    pub(super) storage: Storage,
    pub(super) keyring: Arc<dyn Keyring>,
}

/// Where the browser is told to come back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// To this host, at the port we listen on.
    Host(String),
    /// To this very address.
    Url(String),
}

impl Settings {
    /// Checks the flags.
    ///
    /// # Errors
    /// Whoever wrote them must act.
    pub fn new(options: &Options, env: &dyn Env) -> Result<Self, Error> {
        known_but_not_here(options)?;
        let issuer =
            options.issuer_url.clone().filter(|url| !url.is_empty()).ok_or(Error::Missing("--oidc-issuer-url"))?;
        check_issuer(&issuer)?;
        let client_id =
            options.client_id.clone().filter(|id| !id.is_empty()).ok_or(Error::Missing("--oidc-client-id"))?;
        let from_env = || env.var(CLIENT_SECRET_ENV).and_then(|secret| secret.into_string().ok()).map(Secret::new);
        let client_secret = options.client_secret.clone().or_else(from_env).unwrap_or_default();
        if options.grant_type == GrantType::ClientCredentials && client_secret.is_empty() {
            return Err(Error::Missing("--oidc-client-secret"));
        }
        let redirect = match (&options.redirect_url, &options.redirect_url_hostname) {
            (Some(url), _) => Redirect::Url(url.clone()),
            (None, host) => Redirect::Host(host.clone().unwrap_or_else(|| "localhost".to_owned())),
        };
        if let Redirect::Url(url) = &redirect {
            Server::parse(url)
                .map_err(|_| flag("--oidc-redirect-url", "is not an address like http://localhost:8000"))?;
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
            listen: listen(&options.listen_address)?,
            redirect,
            open_browser: !options.skip_open_browser,
            browser_command: options.browser_command.clone().filter(|command| !command.is_empty()),
            timeout: Duration::from_secs(options.authentication_timeout_sec.into()),
            page_after: options.open_url_after_authentication.clone().filter(|url| !url.is_empty()),
            roots: roots(options)?,
            force_refresh: options.force_refresh,
            directory: key::directory(options.token_cache_dir.as_deref(), env),
            storage: options.token_cache_storage,
            keyring: Arc::new(KernelKeyring),
        })
    }

    /// With another keyring than the system's.
    #[must_use]
    pub fn keyring(self, keyring: Arc<dyn Keyring>) -> Self {
        Self { keyring, ..self }
    }

    /// Whether a person must do something.
    pub(super) fn needs_person(&self) -> bool {
        self.grant != GrantType::ClientCredentials
    }
}

fn flag(flag: &'static str, reason: &'static str) -> Error {
    Error::Flag { flag, reason }
}

fn known_but_not_here(options: &Options) -> Result<(), Error> {
    let others = &options.others;
    let grant = |reason| Err(flag("--grant-type", reason));
    match options.grant_type {
        GrantType::Password => {
            grant("cannot be `password`: let people log in at the issuer, or use client-credentials")
        }
        GrantType::AuthcodeKeyboard => {
            grant("cannot be `authcode-keyboard`: device-code needs no browser on this machine either")
        }
        _ if others.username.is_some() => Err(flag("--username", "is for the issuer's page, not for arguments")),
        _ if others.password.is_some() => Err(flag("--password", "is for the issuer's page, not for arguments")),
        _ if others.local_server_cert.is_some() || others.local_server_key.is_some() => {
            Err(flag("--local-server-cert", "is not supported: the page on localhost has no TLS"))
        }
        _ => Ok(()),
    }
}

fn headers(given: &[Secret]) -> Result<Vec<(HeaderName, Secret)>, Error> {
    let wrong = || flag("--oidc-request-header", "is not of the form name=value");
    let header = |text: &Secret| {
        let (name, value) = text.expose().split_once('=').ok_or_else(wrong)?;
        let name: HeaderName = name.parse().map_err(|_| wrong())?;
        http::HeaderValue::from_str(value).map_err(|_| wrong())?;
        Ok((name, Secret::new(value)))
    };
    let mut headers = given.iter().map(header).collect::<Result<Vec<_>, Error>>()?;
    headers.sort_by(|(a, x), (b, y)| (a.as_str(), x.expose()).cmp(&(b.as_str(), y.expose())));
    Ok(headers)
}

fn check_issuer(url: &str) -> Result<(), Error> {
    let wrong = |reason| flag("--oidc-issuer-url", reason);
    let server = Server::parse(url).map_err(|_| wrong("is not an address like https://host/path"))?;
    if !server.is_https() && !is_loopback(server.host()) {
        return Err(wrong("is not an https address"));
    }
    if url.contains(['?', '#']) {
        return Err(wrong("has a query or a fragment"));
    }
    Ok(())
}

fn scopes(options: &Options) -> Vec<String> {
    let words = options.extra_scopes.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned);
    // A client that logs in by itself is nobody whom an ID token could be about.
    let usual = (options.grant_type != GrantType::ClientCredentials).then(|| "openid".to_owned());
    let mut scopes: Vec<String> = words.chain(usual).collect();
    scopes.sort();
    scopes.dedup();
    scopes
}

fn extra_params(given: &[String]) -> Result<Vec<(String, String)>, Error> {
    // A second one of these would decide what the first one was checked for.
    const OURS: [&str; 8] = [
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
        let (name, value) = text.split_once('=').ok_or_else(|| wrong("is not of the form name=value"))?;
        if OURS.contains(&name) {
            return Err(wrong("names a parameter that is set by the login itself"));
        }
        Ok((name.to_owned(), value.to_owned()))
    };
    let mut pairs = given.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
    pairs.sort();
    Ok(pairs)
}

fn listen(given: &[String]) -> Result<Vec<SocketAddr>, Error> {
    let usual = LISTEN.map(str::to_owned);
    let texts = if given.is_empty() { usual.as_slice() } else { given };
    let wrong = || flag("--listen-address", "is not an address like 127.0.0.1:8000");
    let address = |text: &String| text.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(wrong);
    texts.iter().map(address).collect()
}

fn roots(options: &Options) -> Result<Roots, Error> {
    if options.insecure_skip_tls_verify {
        return Ok(Roots::Unchecked);
    }
    let mut pem = Vec::new();
    for path in &options.certificate_authority {
        let read = fs::read(path);
        pem.extend(read.map_err(|source| Error::File {
            flag: "--certificate-authority",
            path: path.clone(),
            source,
        })?);
        pem.push(b'\n');
    }
    for data in &options.certificate_authority_data {
        let wrong = || flag("--certificate-authority-data", "is not base64");
        pem.extend(STANDARD.decode(data.trim()).map_err(|_| wrong())?);
        pem.push(b'\n');
    }
    match pem.is_empty() {
        true => Ok(Roots::Platform),
        false if pem.windows(27).any(|window| window == b"-----BEGIN CERTIFICATE-----") => Ok(Roots::Pem(pem)),
        false => Err(flag("--certificate-authority", "holds no certificate in PEM form")),
    }
}

#[cfg(test)]
mod tests {
    use credlet_core::FixedEnv;

    use super::super::OtherOptions;
    use super::*;

    fn options() -> Options {
        let (issuer_url, client_id) = (Some("https://id.example".to_owned()), Some("kube".to_owned()));
        Options { issuer_url, client_id, ..Options::default() }
    }

    fn wrong(options: &Options) -> String {
        Settings::new(options, &FixedEnv::default()).unwrap_err().to_string()
    }

    #[test]
    fn tokens_do_not_travel_in_the_clear() {
        for url in
            ["http://id.example", "ftp://id.example", "id.example", "https://id.example?x", "https://id.example/#x"]
        {
            let options = Options { issuer_url: Some(url.to_owned()), ..options() };
            assert!(wrong(&options).starts_with("`--oidc-issuer-url` "), "{url}");
        }
        for url in ["http://127.0.0.1:1/x", "http://localhost:1", "http://[::1]:1", "https://id.example/realms/x"] {
            let options = Options { issuer_url: Some(url.to_owned()), ..options() };
            Settings::new(&options, &FixedEnv::default()).unwrap();
        }
    }

    #[test]
    fn scopes_and_parameters_have_one_order() {
        let options = Options {
            extra_scopes: vec!["groups email".into(), "openid".into(), "email".into()],
            auth_request_extra_params: vec!["prompt=login".into(), "audience=a=b".into()],
            ..options()
        };
        let settings = Settings::new(&options, &FixedEnv::default()).unwrap();
        assert_eq!(settings.scopes, ["email", "groups", "openid"]);
        let pairs = [("audience".to_owned(), "a=b".to_owned()), ("prompt".to_owned(), "login".to_owned())];
        assert_eq!(settings.extra_params, pairs);
    }

    #[test]
    fn a_parameter_of_the_login_itself_cannot_be_replaced() {
        let options = Options { auth_request_extra_params: vec!["state=mine".into()], ..options() };
        assert!(wrong(&options).contains("set by the login itself"));
    }

    #[test]
    fn the_client_secret_may_come_from_the_environment() {
        let env = FixedEnv::new([(CLIENT_SECRET_ENV, "hunter2")]);
        let settings = Settings::new(&options(), &env).unwrap();
        assert_eq!(settings.client_secret.expose(), "hunter2");
        assert!(!format!("{settings:?}").contains("hunter2"));
        let given = Options { client_secret: Some("other".into()), ..options() };
        assert_eq!(Settings::new(&given, &env).unwrap().client_secret.expose(), "other");
    }

    #[test]
    fn flags_of_kubelogins_that_are_not_here_are_refused_by_name() {
        for (others, grant_type, word) in [
            (OtherOptions { username: Some("ada".into()), ..OtherOptions::default() }, GrantType::Auto, "--username"),
            (OtherOptions { password: Some("x".into()), ..OtherOptions::default() }, GrantType::Auto, "--password"),
            (OtherOptions { local_server_key: Some("x".into()), ..OtherOptions::default() }, GrantType::Auto, "no TLS"),
            (OtherOptions::default(), GrantType::Password, "client-credentials"),
            (OtherOptions::default(), GrantType::AuthcodeKeyboard, "device-code"),
        ] {
            let told = wrong(&Options { others, grant_type, ..options() });
            assert!(told.contains(word), "{told}");
        }
        let others = OtherOptions { tls_renegotiation_once: true, ..OtherOptions::default() };
        Settings::new(&Options { others, ..options() }, &FixedEnv::default()).unwrap();
    }

    #[test]
    fn headers_for_the_issuer_are_read_and_not_shown() {
        let request_headers = vec!["x-b=2=3".into(), "X-A=hunter2".into()];
        let settings = Settings::new(&Options { request_headers, ..options() }, &FixedEnv::default()).unwrap();
        let headers: Vec<_> = settings.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(headers, [("x-a", "hunter2"), ("x-b", "2=3")]);
        assert!(!format!("{settings:?}").contains("hunter2"));
        for header in ["x", "a b=c", "a=b\nc"] {
            assert!(
                wrong(&Options { request_headers: vec![header.replace("\\n", "\n").into()], ..options() })
                    .contains("name=value")
            );
        }
    }

    #[test]
    fn a_client_cannot_log_in_by_itself_without_a_secret() {
        let options = Options { grant_type: GrantType::ClientCredentials, ..options() };
        assert_eq!(wrong(&options), "`--oidc-client-secret` is missing");
    }
}
