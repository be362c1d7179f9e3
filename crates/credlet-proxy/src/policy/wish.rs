//! What a request wants, as the API server understands it.

use std::fmt;
use std::str::FromStr;

use http::{Method, Request};

use crate::percent;

/// What is done, in the words of Kubernetes' roles, and one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// One object, its log, or a path that is no object's.
    Get,
    /// Many objects.
    List,
    /// One or many, as they change.
    Watch,
    /// `POST`.
    Create,
    /// `PUT`.
    Update,
    /// `PATCH`.
    Patch,
    /// One object.
    Delete,
    /// Many objects.
    DeleteCollection,
    /// A line to a container, a pod, a service or a node, on which anything may be said: `exec`, `attach`,
    /// `portforward`, `proxy`, and whatever else becomes another protocol. By whatever method: with a WebSocket they
    /// all begin with a `GET`.
    Connect,
    /// A method that the API server has no verb for.
    Other,
}

impl Verb {
    /// All that can be said in a rule, by their names.
    const NAMES: [(&str, Self); 9] = [
        ("get", Self::Get),
        ("list", Self::List),
        ("watch", Self::Watch),
        ("create", Self::Create),
        ("update", Self::Update),
        ("patch", Self::Patch),
        ("delete", Self::Delete),
        ("deletecollection", Self::DeleteCollection),
        ("connect", Self::Connect),
    ];

    pub(super) fn reads(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl FromStr for Verb {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, verb)| *verb).ok_or(())
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, verb)| verb == self).map_or("do something else at", |(name, _)| name))
    }
}

/// What a request wants.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    pub(super) verb: Verb,
    /// Below the API server's own path.
    pub(super) path: &'a [String],
    /// `None`: a path that is no object's, such as `/version`.
    pub(super) object: Option<Object<'a>>,
    /// Whether it is made in somebody else's name.
    pub(super) impersonates: bool,
}

/// Which object a path is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Object<'a> {
    /// Empty: the core one.
    pub(super) group: &'a str,
    pub(super) resource: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) subresource: Option<&'a str>,
}

/// Subresources that are a line to somewhere.
const LINES: [&str; 4] = ["exec", "attach", "portforward", "proxy"];

impl<'a> Wish<'a> {
    /// What a request for this path wants. `upgrades`: whether it is to become another protocol.
    pub(super) fn of<B>(request: &Request<B>, path: &'a [String], upgrades: bool) -> Self {
        let impersonates = request.headers().keys().any(|name| name.as_str().starts_with("impersonate-"));
        let (watch, object) = Object::at(path);
        let is_line = LINES.iter().any(|line| leads_to(path, object, line));
        let named = object.is_none_or(|object| object.name.is_some());
        let verb = match *request.method() {
            _ if upgrades || is_line => Verb::Connect,
            Method::GET | Method::HEAD if watch && object.is_some() => Verb::Watch,
            // Before the query is looked at: where the path names one object the API server does not look at it either.
            Method::GET | Method::HEAD if named => Verb::Get,
            Method::GET | Method::HEAD if watches(request.uri().query()) => Verb::Watch,
            Method::GET | Method::HEAD => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if named => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => Verb::Other,
        };
        Self { verb, path, object, impersonates }
    }

    /// Whether it is about this subresource. Names are compared without regard to case where something is refused by
    /// them: no honest one differs in it alone.
    pub(super) fn leads_to(&self, subresource: &str) -> bool {
        leads_to(self.path, self.object, subresource)
    }
}

/// Of a path that is no object's as far as we know, any segment counts: it may be one of an API that lies elsewhere.
fn leads_to(path: &[String], object: Option<Object<'_>>, subresource: &str) -> bool {
    match object {
        Some(object) => object.subresource.is_some_and(|found| found.eq_ignore_ascii_case(subresource)),
        None => path.iter().any(|found| found.eq_ignore_ascii_case(subresource)),
    }
}

impl<'a> Object<'a> {
    /// The object of a path, and whether the path says that it is watched. `/api/v1/watch/pods` is an old way to say
    /// it, as `/api/v1/proxy/nodes/x` is for `/api/v1/nodes/x/proxy`.
    fn at(path: &'a [String]) -> (bool, Option<Self>) {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let (group, mut rest) = match *words.as_slice() {
            ["api", _, ref rest @ ..] => ("", rest),
            ["apis", group, _, ref rest @ ..] => (group, rest),
            _ => return (false, None),
        };
        let mark = rest.first().copied().filter(|first| ["watch", "proxy"].contains(first));
        rest = &rest[usize::from(mark.is_some())..];
        let watch = mark == Some("watch");
        // A namespace is an object itself, and has objects.
        if let ["namespaces", _, sub, ..] = rest
            && !["status", "finalize"].contains(sub)
        {
            rest = &rest[2..];
        }
        let Some(resource) = rest.first() else { return (watch, None) };
        let subresource = if mark == Some("proxy") { mark } else { rest.get(2).copied() };
        (watch, Some(Self { group, resource, name: rest.get(1).copied(), subresource }))
    }
}

/// Whether a query asks for a watch, by Go's rules: pairs that cannot be read do not count, the first one does, and all
/// but two values mean yes.
fn watches(query: Option<&str>) -> bool {
    let decoded = |text: &str| Some(String::from_utf8_lossy(&percent::decoded(text)?).into_owned());
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.contains(';'));
    let mut values = pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decoded(name)?, decoded(value)?)).filter(|(name, _)| name == "watch")
    });
    values.next().is_some_and(|(_, value)| !["false", "0"].contains(&value.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::path;
    use super::*;

    fn verb(method: &str, target: &str) -> String {
        let request = Request::builder().method(method).uri(target).body(()).unwrap();
        let path = path::segments(request.uri().path()).unwrap();
        Wish::of(&request, &path, false).verb.to_string()
    }

    #[test]
    fn a_verb_is_the_one_that_the_api_server_would_find() {
        for (method, target, expected) in [
            ("GET", "/version", "get"),
            ("GET", "/apis/apps/v1?watch=1", "get"),
            ("GET", "/api/v1/pods", "list"),
            ("HEAD", "/api/v1/namespaces/a/pods", "list"),
            ("GET", "/api/v1/namespaces", "list"),
            ("GET", "/api/v1/namespaces/a", "get"),
            ("GET", "/api/v1/namespaces/a/status", "get"),
            ("GET", "/api/v1/namespaces/a/pods/x", "get"),
            ("GET", "/api/v1/namespaces/a/pods/x/log?follow=true", "get"),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/x", "get"),
            ("GET", "/api/v1/pods?watch", "watch"),
            ("GET", "/api/v1/pods?a=b&watch=TRUE", "watch"),
            ("GET", "/api/v1/pods?%77atch=1", "watch"),
            ("GET", "/api/v1/pods?watch=False", "list"),
            ("GET", "/api/v1/pods?watch=0&watch=1", "list"),
            ("GET", "/api/v1/pods?watch=0;&watch=1", "watch"),
            ("GET", "/api/v1/pods?watch=%zz", "list"),
            // Of one object that the path names, all that is asked for is what it is now.
            ("GET", "/api/v1/namespaces/a/pods/x?watch=1", "get"),
            ("HEAD", "/api/v1/namespaces/a/pods/x?watch=true", "get"),
            ("GET", "/api/v1/namespaces/a?watch=1", "get"),
            ("GET", "/api/v1/namespaces/a/pods/x/log?watch=1", "get"),
            // One that a selector names can be watched: that is how it is done.
            ("GET", "/api/v1/namespaces/a/pods?watch=1&fieldSelector=metadata.name%3Dx", "watch"),
            ("GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx", "list"),
            ("GET", "/api/v1/watch/pods", "watch"),
            ("GET", "/api/v1/watch/namespaces/a/pods/x", "watch"),
            ("POST", "/api/v1/namespaces/a/pods", "create"),
            ("PUT", "/api/v1/namespaces/a/pods/x", "update"),
            ("PATCH", "/api/v1/namespaces/a/pods/x", "patch"),
            ("DELETE", "/api/v1/namespaces/a/pods/x", "delete"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection"),
            ("GET", "/api/v1/namespaces/a/pods/x/exec?command=id", "connect"),
            ("POST", "/api/v1/namespaces/a/pods/x/exec", "connect"),
            ("GET", "/api/v1/namespaces/a/pods/x/EXEC", "connect"),
            ("GET", "/api/v1/namespaces/a/pods/x/attach", "connect"),
            ("GET", "/api/v1/namespaces/a/pods/x/portforward/", "connect"),
            ("GET", "/api/v1/namespaces/a/pods/x/proxy", "connect"),
            ("GET", "/api/v1/namespaces/a/services/x:80/proxy/index.html", "connect"),
            ("GET", "/api/v1/nodes/x/proxy/exec/a/b/c", "connect"),
            ("GET", "/api/v1/proxy/nodes/x", "connect"),
            ("GET", "/oapi/v1/namespaces/a/pods/x/exec", "connect"),
            (
                "GET",
                "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/x/portforward/22",
                "connect",
            ),
            ("OPTIONS", "/api/v1/pods", "do something else at"),
        ] {
            assert_eq!(verb(method, target), expected, "{method} {target}");
        }
    }
}
