//! Attributes of a request as the API server's `RequestInfoFactory` determines them.

use std::fmt;
use std::str::FromStr;

use credlet_api::percent_decode;
use http::{Method, Request};

/// Verb of a request as in RBAC rules, plus `connect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVerb {
    /// `get`: one object, its log, or a non-resource path.
    Get,
    /// Acts on a collection.
    List,
    /// `watch`: one object or a collection.
    Watch,
    /// `create`: method `POST`.
    Create,
    /// `update`: method `PUT`.
    Update,
    /// `patch`: method `PATCH`.
    Patch,
    /// `delete`: one object.
    Delete,
    /// Acts on a collection.
    DeleteCollection,
    /// Opens a stream to a container, pod, service or node: `exec`, `attach`, `portforward`, `proxy`, and every other
    /// protocol upgrade. It applies to all methods, because a WebSocket starts with a `GET`.
    Connect,
    /// A method without a Kubernetes verb.
    Other,
}

impl RequestVerb {
    /// The verbs that a rule can name.
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

impl FromStr for RequestVerb {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, verb)| *verb).ok_or(())
    }
}

impl fmt::Display for RequestVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            Self::NAMES.iter().find(|(_, verb)| verb == self).map_or("use an unknown verb on", |(name, _)| name),
        )
    }
}

/// Attributes of a request.
#[derive(Debug)]
pub(super) struct RequestAttributes<'a> {
    pub(super) verb: RequestVerb,
    /// Segments below the path of the API server's URL.
    pub(super) path: &'a [String],
    /// `None` for non-resource paths such as `/version`.
    pub(super) object: Option<ObjectRef<'a>>,
    /// Whether the request has `Impersonate-…` headers.
    pub(super) impersonates: bool,
}

/// Object or collection that a path refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectRef<'a> {
    /// Empty for the core group.
    pub(super) group: &'a str,
    pub(super) resource: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) subresource: Option<&'a str>,
}

/// Subresources that open a stream.
const STREAMING_SUBRESOURCES: [&str; 4] = ["exec", "attach", "portforward", "proxy"];

impl<'a> RequestAttributes<'a> {
    /// Determines the attributes of a request for this path. `upgrades`: whether the request asks for a protocol
    /// upgrade.
    pub(super) fn of<B>(request: &Request<B>, path: &'a [String], upgrades: bool) -> Self {
        let impersonates = request.headers().keys().any(|name| name.as_str().starts_with("impersonate-"));
        let (watch, object) = ObjectRef::at(path);
        let is_stream = STREAMING_SUBRESOURCES.iter().any(|line| leads_to(path, object, line));
        let named = object.is_none_or(|object| object.name.is_some());
        let verb = match *request.method() {
            _ if upgrades || is_stream => RequestVerb::Connect,
            Method::GET | Method::HEAD if watch && object.is_some() => RequestVerb::Watch,
            // The API server ignores the query where the path names one object, so this comes before the query.
            Method::GET | Method::HEAD if named => RequestVerb::Get,
            Method::GET | Method::HEAD if watches(request.uri().query()) => RequestVerb::Watch,
            Method::GET | Method::HEAD => RequestVerb::List,
            Method::POST => RequestVerb::Create,
            Method::PUT => RequestVerb::Update,
            Method::PATCH => RequestVerb::Patch,
            Method::DELETE if named => RequestVerb::Delete,
            Method::DELETE => RequestVerb::DeleteCollection,
            _ => RequestVerb::Other,
        };
        Self { verb, path, object, impersonates }
    }

    /// Whether the request is for this subresource. The comparison ignores case, so that a variant spelling cannot
    /// evade a rule.
    pub(super) fn leads_to(&self, subresource: &str) -> bool {
        leads_to(self.path, self.object, subresource)
    }
}

/// In an unknown path every segment counts, because it may belong to an API below another prefix.
fn leads_to(path: &[String], object: Option<ObjectRef<'_>>, subresource: &str) -> bool {
    match object {
        Some(object) => object.subresource.is_some_and(|found| found.eq_ignore_ascii_case(subresource)),
        None => path.iter().any(|found| found.eq_ignore_ascii_case(subresource)),
    }
}

impl<'a> ObjectRef<'a> {
    /// The object of a path and whether the path requests a watch. `/api/v1/watch/pods` and
    /// `/api/v1/proxy/nodes/x` are the deprecated forms of `?watch=true` and `/api/v1/nodes/x/proxy`.
    pub(super) fn at(path: &'a [String]) -> (bool, Option<Self>) {
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        let (group, mut rest) = match *segments.as_slice() {
            ["api", _, ref rest @ ..] => ("", rest),
            ["apis", group, _, ref rest @ ..] => (group, rest),
            _ => return (false, None),
        };
        // The API server compares case. A server in front of it may not, and a variant spelling must not evade a rule.
        let is = |segment: &&str, name: &str| segment.eq_ignore_ascii_case(name);
        let mark = ["watch", "proxy"].into_iter().find(|name| rest.first().is_some_and(|first| is(first, name)));
        rest = &rest[usize::from(mark.is_some())..];
        let watch = mark == Some("watch");
        // A namespace is an object and also contains objects.
        if let [first, _, sub, ..] = rest
            && is(first, "namespaces")
            && !["status", "finalize"].contains(sub)
        {
            rest = &rest[2..];
        }
        let Some(resource) = rest.first() else { return (watch, None) };
        let subresource = if mark == Some("proxy") { mark } else { rest.get(2).copied() };
        (watch, Some(Self { group, resource, name: rest.get(1).copied(), subresource }))
    }
}

/// Whether a query requests a watch, by Go's rules: malformed pairs are ignored, the first value counts, and every
/// value except `false` and `0` means true.
fn watches(query: Option<&str>) -> bool {
    let value = parameters(query).find(|(name, _)| name == "watch").map(|(_, value)| value);
    value.is_some_and(|value| !["false", "0"].contains(&value.to_ascii_lowercase().as_str()))
}

/// Whether a query has a parameter that some frameworks use to override the method, such as `_method`.
pub(super) fn names_other_method(query: Option<&str>) -> bool {
    let plain = |name: String| name.to_ascii_lowercase().replace(['-', '_'], "");
    let is_method = |(name, _): (String, String)| {
        let marked = name.starts_with(['_', '$']);
        let name = plain(name);
        name.contains("methodoverride") || (marked && ["method", "httpmethod", "$method"].contains(&name.as_str()))
    };
    parameters(query).any(is_method)
}

/// Decoded parameters of a query.
fn parameters(query: Option<&str>) -> impl Iterator<Item = (String, String)> {
    let decoded = |text: &str| Some(String::from_utf8_lossy(&percent_decode(text)?).into_owned());
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.contains(';'));
    pairs.filter_map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decoded(name)?, decoded(value)?))
    })
}

#[cfg(test)]
mod tests {
    use super::super::path;
    use super::*;

    fn verb(method: &str, target: &str) -> String {
        let request = Request::builder().method(method).uri(target).body(()).unwrap();
        let path = path::segments(request.uri().path()).unwrap();
        RequestAttributes::of(&request, &path, false).verb.to_string()
    }

    #[test]
    fn verb_matches_the_api_server() {
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
            // The query is ignored where the path names one object.
            ("GET", "/api/v1/namespaces/a/pods/x?watch=1", "get"),
            ("HEAD", "/api/v1/namespaces/a/pods/x?watch=true", "get"),
            ("GET", "/api/v1/namespaces/a?watch=1", "get"),
            ("GET", "/api/v1/namespaces/a/pods/x/log?watch=1", "get"),
            // A field selector can watch a single object.
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
            ("GET", "/api/v1/nameSpaces/a/pods/x/exec", "connect"),
            ("GET", "/api/v1/Proxy/nodes/x", "connect"),
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
            ("OPTIONS", "/api/v1/pods", "use an unknown verb on"),
        ] {
            assert_eq!(verb(method, target), expected, "{method} {target}");
        }
    }
}
