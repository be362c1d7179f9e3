use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::exec::Response;
use credlet_client::conn::Credential;
use credlet_core::{
    Ended, Fetched, Flight, Inherit, Limits, Patience, Program, Source, Stdin, Why, World, look_up, surroundings,
};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;

use super::{BodyDigest, SignError, Signer, Signing};

/// Headers on every request: those that a gateway before the API server asks for, or the credential itself. What the
/// client has sent under the same name is replaced.
#[derive(Debug)]
pub struct Headers(From);

#[derive(Debug)]
enum From {
    Here(HeaderMap),
    Command(Flight<Command>),
}

impl Headers {
    /// Always the same.
    ///
    /// # Errors
    /// When one of them cannot be a header. It is not shown.
    pub fn fixed<'a>(headers: impl IntoIterator<Item = (&'a str, &'a Secret)>) -> Result<Self, SignError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let (name, value) = header(name, value.expose())?;
            map.append(name, value);
        }
        Ok(Self(From::Here(map)))
    }

    /// What a command prints, each as a line `Name: value`. It is run again when the headers are older than `keep`, or
    /// when the API server refuses them. A line `Expires: 2030-01-02T03:04:05Z` is no header: it says for how long
    /// these are good, and takes the place of `keep`.
    pub fn command(command: String, args: Vec<String>, keep: Duration, world: World) -> Self {
        let clock = Arc::clone(&world.clock);
        let source = Command { command, args, keep, world };
        Self(From::Command(Flight::new(source, clock, Patience::default())))
    }
}

impl Signer for Headers {
    /// Nothing but a number, by which the headers of a refused request are known.
    fn credential(&self) -> Signing<'_, Credential> {
        Box::pin(async {
            let serial = match &self.0 {
                From::Here(_) => 1,
                From::Command(flight) => flight.get().await.map_err(|error| (*error).clone())?.generation(),
            };
            Ok(Credential::new(serial, None, None))
        })
    }

    fn sign<'a>(&'a self, head: &'a mut Parts, _: BodyDigest) -> Signing<'a, ()> {
        Box::pin(async {
            match &self.0 {
                From::Here(headers) => put(headers, head),
                From::Command(flight) => {
                    put(&flight.get().await.map_err(|error| (*error).clone())?.value().0, head);
                }
            }
            Ok(())
        })
    }

    fn refused(&self, serial: u64) -> Signing<'_, bool> {
        Box::pin(async move {
            let From::Command(flight) = &self.0 else { return Ok(false) };
            let entry = flight.get().await.map_err(|error| (*error).clone())?;
            if entry.generation() != serial {
                // Somebody else was refused before us.
                return Ok(true);
            }
            let response = Response { code: 401, ..Response::default() };
            let other = flight.replace(&entry, response).await.map_err(|error| (*error).clone())?;
            Ok(other.is_some_and(|other| other.generation() != serial))
        })
    }
}

/// Whoever sets these makes another request of it, or two.
const OF_THE_CONNECTION: [HeaderName; 9] = [
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

fn put(headers: &HeaderMap, head: &mut Parts) {
    for name in headers.keys() {
        head.headers.remove(name);
    }
    head.headers.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), SignError> {
    let name = HeaderName::try_from(name).map_err(|_| wrong("a header has a name that no header can have"))?;
    if OF_THE_CONNECTION.contains(&name) {
        return Err(wrong(&format!("the header `{name}` says how a request travels, which is the proxy's business")));
    }
    let value = HeaderValue::from_str(value);
    let mut value = value.map_err(|_| wrong("a header has a character that no header can carry"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn wrong(message: &str) -> SignError {
    SignError::Misconfigured { message: message.into() }
}

/// A command that prints headers.
struct Command {
    command: String,
    args: Vec<String>,
    keep: Duration,
    world: World,
}

/// Headers are secrets, though marked as such.
#[derive(PartialEq)]
struct Printed(HeaderMap);

impl Source for Command {
    type Value = Printed;
    type Error = SignError;

    async fn fetch(&self, _: &Why) -> Result<Fetched<Printed>, SignError> {
        let unable = |reason: String| SignError::Unavailable { message: format!("the header command {reason}") };
        let env = &*self.world.env;
        let path = look_up(&self.command, env).map_err(|error| unable(format!("is not found: {error}")))?;
        let program = Program {
            path,
            args: self.args.clone(),
            env: surroundings(env, &Inherit::default(), []),
            stdin: Stdin::Null,
            limits: Limits::ALONE,
        };
        let finished = self.world.runner.run(program).await.map_err(|error| unable(format!("failed: {error}")))?;
        if finished.ended != Ended::Exited(0) {
            // What it wrote may be anything; its own standard error has it.
            return Err(unable(finished.ended.to_string()));
        }
        let text = std::str::from_utf8(&finished.stdout).map_err(|_| unable("printed no text".into()))?;
        let (headers, expires) = parse(text)?;
        let expires = expires.or_else(|| self.world.clock.now().saturating_add(self.keep).ok());
        Ok(Fetched { value: Printed(headers), expires })
    }

    fn abandoned(&self) -> SignError {
        SignError::Unavailable { message: "the header command was abandoned because its runtime was shut down".into() }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").field("command", &self.command).finish()
    }
}

fn parse(text: &str) -> Result<(HeaderMap, Option<Timestamp>), SignError> {
    let (mut headers, mut expires) = (HeaderMap::new(), None);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (name, value) = line.split_once(':').ok_or(wrong("the header command printed a line without a colon"))?;
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case("expires") {
            expires =
                Some(value.parse().map_err(|_| wrong("the header command printed an `Expires` that is no time"))?);
            continue;
        }
        let (name, value) = header(name, value)?;
        headers.append(name, value);
    }
    if headers.is_empty() {
        return Err(wrong("the header command printed no header"));
    }
    Ok((headers, expires))
}

#[cfg(test)]
mod tests {
    use credlet_testkit::logs::Watch;

    use super::*;

    fn head() -> Parts {
        let request = http::Request::get("/").header("x-team", "client").header("accept", "a").body(()).unwrap();
        request.into_parts().0
    }

    #[tokio::test]
    async fn fixed_headers_take_the_place_of_the_clients_and_are_never_shown() {
        let watch = Watch::new();
        let secret = watch.secret("header");
        let signer = Headers::fixed([("X-Team", &secret), ("Authorization", &Secret::new("Basic eDp5"))]).unwrap();
        let mut head = head();
        signer.sign(&mut head, BodyDigest::Unknown).await.unwrap();
        assert_eq!(head.headers["x-team"], secret.expose());
        assert_eq!(head.headers["authorization"], "Basic eDp5");
        assert_eq!(head.headers["accept"], "a");
        watch.text(format!("{signer:?} {head:?}"));
        let error = Headers::fixed([("x", &Secret::new(format!("{}\n", secret.expose())))]).unwrap_err();
        watch.error(&error);
        let error = Headers::fixed([("Transfer-Encoding", &Secret::new("chunked"))]).unwrap_err().to_string();
        assert!(error.contains("`transfer-encoding` says how a request travels"), "{error}");
    }

    #[test]
    fn lines_are_headers_and_one_of_them_says_for_how_long() {
        let (headers, expires) = parse("CF-Token: a: b\r\n\nx-two:2\nexpires: 2030-01-02T03:04:05Z\n").unwrap();
        assert_eq!((&headers["cf-token"], &headers["x-two"]), (&"a: b".parse().unwrap(), &"2".parse().unwrap()));
        assert_eq!(expires.unwrap().to_string(), "2030-01-02T03:04:05Z");
        for bad in ["", "hunter2", "a b: c", "Expires: soon\na: b", "a: \u{7f}", "Host: a", "a: b\ncontent-Length: 3"] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
