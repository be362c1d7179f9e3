use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::exec::FailedResponse;
use credlet_exec::{
    CommandSpec, EnvInheritance, FetchReason, FetchedValue, Platform, PluginPolicy, ProcessExit, RefreshPolicy,
    RefreshingCache, RunLimits, Source, StdinSource, build_env,
};
use credlet_http::HttpCredential;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;

use super::{BodyDigest, SignError, SignFuture, Signer};
use crate::policy::may_reach_workload;

/// Sets headers on every request: headers that a gateway in front of the API server requires, or the credential. They
/// replace headers of the same name from the client.
///
/// The API server forwards unknown headers to pods, services and nodes (their `proxy` subresource), which may disclose
/// them to the client. Such requests get only `Authorization` and `Impersonate-…`, which the API server removes.
#[derive(Debug)]
pub struct HeaderSigner(HeaderSource);

#[derive(Debug)]
enum HeaderSource {
    Fixed(HeaderMap),
    Command(RefreshingCache<HeaderCommand>),
}

impl HeaderSigner {
    /// Uses fixed headers.
    ///
    /// # Errors
    /// If HTTP does not allow a name or value. The error does not contain the value.
    pub fn fixed<'a>(headers: impl IntoIterator<Item = (&'a str, &'a Secret)>) -> Result<Self, SignError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let (name, value) = header(name, value.expose())?;
            map.append(name, value);
        }
        Ok(Self(HeaderSource::Fixed(map)))
    }

    /// Uses the headers that a command prints, one `Name: value` per line. The command runs again when the headers are
    /// older than `keep` or the API server rejects them. A line `Expires: 2030-01-02T03:04:05Z` sets their expiry
    /// instead of `keep`. `policy` must allow the command each time.
    pub fn command(
        command: String,
        args: Vec<String>,
        keep: Duration,
        policy: PluginPolicy,
        platform: Platform,
    ) -> Self {
        let clock = Arc::clone(&platform.clock);
        let source = HeaderCommand { command, args, keep, policy, platform };
        Self(HeaderSource::Command(RefreshingCache::new(source, clock, RefreshPolicy::default())))
    }
}

impl Signer for HeaderSigner {
    /// Carries only the generation, which identifies the headers of a rejected request.
    fn credential(&self) -> SignFuture<'_, HttpCredential> {
        Box::pin(async {
            let generation = match &self.0 {
                HeaderSource::Fixed(_) => 1,
                HeaderSource::Command(cache) => cache.get().await.map_err(|error| (*error).clone())?.generation(),
            };
            Ok(HttpCredential::new(generation, None, None))
        })
    }

    fn sign<'a>(&'a self, head: &'a mut Parts, _: BodyDigest) -> SignFuture<'a, ()> {
        Box::pin(async {
            match &self.0 {
                HeaderSource::Fixed(headers) => set_headers(headers, head),
                HeaderSource::Command(cache) => {
                    set_headers(&cache.get().await.map_err(|error| (*error).clone())?.value().0, head);
                }
            }
            Ok(())
        })
    }

    fn on_unauthorized(&self, generation: u64) -> SignFuture<'_, bool> {
        Box::pin(async move {
            let HeaderSource::Command(cache) = &self.0 else { return Ok(false) };
            let entry = cache.get().await.map_err(|error| (*error).clone())?;
            if entry.generation() != generation {
                // A concurrent request has already replaced the headers.
                return Ok(true);
            }
            let response = FailedResponse { code: 401, ..FailedResponse::default() };
            let other = cache.replace(&entry, response).await.map_err(|error| (*error).clone())?;
            Ok(other.is_some_and(|other| other.generation() != generation))
        })
    }
}

/// Headers that determine how a request is framed or routed. A signer must not set them: that would enable request
/// smuggling.
const CONNECTION_HEADERS: [HeaderName; 9] = [
    HOST,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    CONNECTION,
    UPGRADE,
    TE,
    TRAILER,
    EXPECT,
    HeaderName::from_static("keep-alive"),
];

fn set_headers(headers: &HeaderMap, head: &mut Parts) {
    for name in headers.keys() {
        head.headers.remove(name);
    }
    let consumed_only = may_reach_workload(head.uri.path());
    let sent = headers.iter().filter(|(name, _)| !consumed_only || is_consumed_by_api_server(name));
    head.headers.extend(sent.map(|(name, value)| (name.clone(), value.clone())));
}

/// The API server removes these headers before it forwards a request.
fn is_consumed_by_api_server(name: &HeaderName) -> bool {
    *name == AUTHORIZATION || name.as_str().starts_with("impersonate-")
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), SignError> {
    let name = HeaderName::try_from(name).map_err(|_| misconfigured("invalid header name"))?;
    if CONNECTION_HEADERS.contains(&name) {
        return Err(misconfigured(&format!("unsupported header `{name}`: it is set by the proxy")));
    }
    let value = HeaderValue::from_str(value);
    let mut value = value.map_err(|_| misconfigured("invalid character in a header value"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn misconfigured(message: &str) -> SignError {
    SignError::Misconfigured { message: message.into() }
}

/// A command that prints headers.
struct HeaderCommand {
    command: String,
    args: Vec<String>,
    keep: Duration,
    policy: PluginPolicy,
    platform: Platform,
}

#[derive(PartialEq)]
struct CommandHeaders(HeaderMap);

impl Source for HeaderCommand {
    type Value = CommandHeaders;
    type Error = SignError;

    async fn fetch(&self, _: &FetchReason) -> Result<FetchedValue<CommandHeaders>, SignError> {
        let unavailable = |reason: String| SignError::Unavailable { message: format!("the header command {reason}") };
        let env = &*self.platform.env;
        let path = self.policy.resolve(&self.command, env);
        let path = path.map_err(|error| unavailable(format!("could not be started: {error}")))?;
        let program = CommandSpec {
            path,
            args: self.args.clone(),
            env: build_env(env, &EnvInheritance::default(), []),
            stdin: StdinSource::Null,
            limits: RunLimits::NON_INTERACTIVE,
        };
        let finished =
            self.platform.runner.run(program).await.map_err(|error| unavailable(format!("failed: {error}")))?;
        if finished.exit != ProcessExit::Exited(0) {
            // The output is not quoted, because it may contain secrets. Stderr of the command goes to stderr of the
            // proxy.
            return Err(unavailable(finished.exit.to_string()));
        }
        let text = std::str::from_utf8(&finished.stdout).map_err(|_| unavailable("printed invalid UTF-8".into()))?;
        let (headers, expires) = parse(text)?;
        let expires = expires.or_else(|| self.platform.clock.now().saturating_add(self.keep).ok());
        Ok(FetchedValue { value: CommandHeaders(headers), expires })
    }

    fn cancelled(&self) -> SignError {
        SignError::Unavailable { message: "the header command was cancelled: the runtime was shut down".into() }
    }
}

impl fmt::Debug for HeaderCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderCommand").field("command", &self.command).finish()
    }
}

pub(super) fn parse(text: &str) -> Result<(HeaderMap, Option<Timestamp>), SignError> {
    let (mut headers, mut expires) = (HeaderMap::new(), None);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (name, value) =
            line.split_once(':').ok_or(misconfigured("invalid output of the header command: a line has no colon"))?;
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case("expires") {
            expires = Some(value.parse().map_err(|_| {
                misconfigured("invalid output of the header command: `Expires` is not an RFC 3339 time")
            })?);
            continue;
        }
        let (name, value) = header(name, value)?;
        headers.append(name, value);
    }
    if headers.is_empty() {
        return Err(misconfigured("invalid output of the header command: no headers"));
    }
    Ok((headers, expires))
}

#[cfg(test)]
mod tests {
    use credlet_testkit::logs::LeakCheck;

    use super::*;

    fn head() -> Parts {
        let request = http::Request::get("/").header("x-team", "client").header("accept", "a").body(()).unwrap();
        request.into_parts().0
    }

    #[tokio::test]
    async fn fixed_headers_replace_those_of_the_client() {
        let watch = LeakCheck::new();
        let secret = watch.secret("header");
        let signer = HeaderSigner::fixed([("X-Team", &secret), ("Authorization", &Secret::new("Basic eDp5"))]).unwrap();
        let mut head = head();
        signer.sign(&mut head, BodyDigest::Unknown).await.unwrap();
        assert_eq!(head.headers["x-team"], secret.expose());
        assert_eq!(head.headers["authorization"], "Basic eDp5");
        assert_eq!(head.headers["accept"], "a");
        watch.text(format!("{signer:?} {head:?}"));
        let error = HeaderSigner::fixed([("x", &Secret::new(format!("{}\n", secret.expose())))]).unwrap_err();
        watch.error(&error);
        let error = HeaderSigner::fixed([("Transfer-Encoding", &Secret::new("chunked"))]).unwrap_err().to_string();
        assert!(error.contains("unsupported header `transfer-encoding`"), "{error}");
    }

    #[tokio::test]
    async fn denied_command_is_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("trace");
        let args = vec!["-c".to_owned(), format!("touch {}; echo a: b", trace.display())];
        let only_aws = PluginPolicy::new("Allowlist", Some(vec!["aws".to_owned()])).unwrap();
        for (policy, allowed) in [(PluginPolicy::DENY_ALL, false), (only_aws, false), (PluginPolicy::ALLOW_ALL, true)] {
            let signer = HeaderSigner::command(
                "/bin/sh".to_owned(),
                args.clone(),
                Duration::from_secs(9),
                policy,
                Platform::system(),
            );
            let result = signer.credential().await;
            assert_eq!((result.is_ok(), trace.exists()), (allowed, allowed), "{result:?}");
        }
    }

    #[tokio::test]
    async fn workloads_get_no_gateway_headers() {
        let watch = LeakCheck::new();
        let secret = watch.secret("header");
        let all = [("X-Team", &secret), ("Authorization", &secret), ("Impersonate-User", &secret)];
        let signer = HeaderSigner::fixed(all).unwrap();
        let mut head = head();
        head.uri = "https://api.example/api/v1/namespaces/x/services/echo/proxy/".parse().unwrap();
        signer.sign(&mut head, BodyDigest::Unknown).await.unwrap();
        assert_eq!(head.headers.get("x-team"), None, "nor the client's own");
        assert!(head.headers.contains_key("authorization") && head.headers.contains_key("impersonate-user"));
        watch.text(format!("{head:?}"));
    }

    #[test]
    fn parses_headers_and_expiry() {
        let (headers, expires) = parse("CF-Token: a: b\r\n\nx-two:2\nexpires: 2030-01-02T03:04:05Z\n").unwrap();
        assert_eq!((&headers["cf-token"], &headers["x-two"]), (&"a: b".parse().unwrap(), &"2".parse().unwrap()));
        assert_eq!(expires.unwrap().to_string(), "2030-01-02T03:04:05Z");
        for bad in ["", "hunter2", "a b: c", "Expires: soon\na: b", "a: \u{7f}", "Host: a", "a: b\ncontent-Length: 3"] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
