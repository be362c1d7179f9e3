//! Allow and deny rules as written by the operator.

use std::fmt;
use std::str::FromStr;

use super::attributes::{RequestAttributes, RequestVerb};
use super::path;

/// A kind of request that is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DenyRule {
    /// Running commands in containers.
    Exec,
    /// Attaching to containers.
    Attach,
    /// Forwarding ports of pods.
    PortForward,
    /// HTTP requests to pods, services and nodes.
    Proxy,
    /// Adding containers to a running pod (`kubectl debug`).
    Debug,
    /// Requesting service account tokens, which are valid without the proxy.
    Token,
    /// Requests with `Impersonate-…` headers.
    Impersonate,
}

impl DenyRule {
    const NAMES: [(&str, Self); 7] = [
        ("exec", Self::Exec),
        ("attach", Self::Attach),
        ("port-forward", Self::PortForward),
        ("proxy", Self::Proxy),
        ("debug", Self::Debug),
        ("token", Self::Token),
        ("impersonate", Self::Impersonate),
    ];

    pub(super) fn covers(self, attributes: &RequestAttributes<'_>) -> bool {
        let under = |name: &str| attributes.leads_to(name);
        // The kubelet API behind a node's `proxy` subresource also runs commands.
        let of_node = || attributes.object.is_none_or(|object| object.resource.eq_ignore_ascii_case("nodes"));
        let kubelet = under("proxy") && of_node();
        match self {
            Self::Exec => under("exec") || kubelet,
            Self::Attach => under("attach") || kubelet,
            Self::PortForward => under("portforward") || kubelet,
            Self::Proxy => under("proxy"),
            Self::Debug => under("ephemeralcontainers"),
            Self::Token => under("token"),
            Self::Impersonate => attributes.impersonates,
        }
    }
}

impl FromStr for DenyRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, deny)| *deny).ok_or_else(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("must be one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for DenyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, deny)| deny == self).map_or("", |(name, _)| name))
    }
}

/// Requests that are forwarded: verbs and a path below the path of the API server.
///
/// In the path, `*` matches one segment and a trailing `**` matches any number: `get,list
/// /apis/apps/v1/namespaces/*/deployments/**`. The rule `discovery` matches the paths of API discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowRule {
    text: String,
    /// Empty: all verbs.
    verbs: Vec<RequestVerb>,
    paths: Vec<PathPattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PathPattern {
    /// `None` matches any segment.
    segments: Vec<Option<String>>,
    and_below: bool,
}

/// Paths of API discovery.
const DISCOVERY: [&str; 9] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/apis/*/*",
    "/openapi/v2",
    "/openapi/v3/**",
    "/version",
    "/version/openapi",
];

impl AllowRule {
    pub(super) fn covers(&self, attributes: &RequestAttributes<'_>) -> bool {
        (self.verbs.is_empty() || self.verbs.contains(&attributes.verb))
            && self.paths.iter().any(|pattern| pattern.matches(attributes.path))
    }
}

impl PathPattern {
    fn matches(&self, path: &[String]) -> bool {
        let lengths =
            if self.and_below { path.len() >= self.segments.len() } else { path.len() == self.segments.len() };
        lengths
            && self.segments.iter().zip(path).all(|(expected, found)| expected.as_ref().is_none_or(|it| it == found))
    }
}

impl FromStr for PathPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut segments = path::segments(text).map_err(|unclear| match text.starts_with('/') {
            true => unclear.to_string(),
            false => "the path must begin with a slash".to_owned(),
        })?;
        let and_below = segments.pop_if(|last| last == "**").is_some();
        let one = |segment: String| match segment.as_str() {
            "*" => Ok(None),
            text if text.contains('*') => {
                Err("`*` must be a whole segment of the path, and `**` the last one".to_owned())
            }
            _ => Ok(Some(segment)),
        };
        Ok(Self { segments: segments.into_iter().map(one).collect::<Result<_, _>>()?, and_below })
    }
}

impl FromStr for AllowRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "discovery" {
            let paths = DISCOVERY.iter().map(|path| path.parse()).collect::<Result<_, _>>()?;
            return Ok(Self { text: text.to_owned(), verbs: vec![RequestVerb::Get], paths });
        }
        let mut parts = text.split_whitespace();
        let (Some(written), Some(path), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err("must be verbs and a path, as in `get,list /api/v1/namespaces/shop/**`".to_owned());
        };
        let verb = |name: &str| {
            name.parse().map_err(|()| format!("unknown verb {:?}", credlet_api::escape_control_chars(name)))
        };
        let verbs = match written {
            "*" => Vec::new(),
            verbs => verbs.split(',').map(verb).collect::<Result<_, _>>()?,
        };
        Ok(Self { text: format!("{written} {path}"), verbs, paths: vec![path.parse()?] })
    }
}

impl fmt::Display for AllowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_rules() {
        for (text, why) in [
            ("", "verbs and a path"),
            ("get", "verbs and a path"),
            ("get /a /b", "verbs and a path"),
            ("GET /a", "unknown verb"),
            ("get,, /a", "unknown verb"),
            ("get a", "must begin with a slash"),
            ("get /a/../b", "dot segments"),
            ("get /a/%zz", "percent-encoding"),
            ("get /a*", "whole segment"),
            ("get /**/a", "whole segment"),
        ] {
            let error = text.parse::<AllowRule>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!("Exec".parse::<DenyRule>().unwrap_err().contains("one of exec, attach, port-forward"));
    }

    #[test]
    fn pattern_matches_segments() {
        for (pattern, path, fits) in [
            ("/a/b", "/a/b", true),
            ("/a/b", "/a/b/", true),
            ("/a/b", "/a", false),
            ("/a/b", "/a/b/c", false),
            ("/a/b", "/A/b", false),
            ("/a/*/c", "/a/x/c", true),
            ("/a/*/c", "/a/c", false),
            ("/a/**", "/a", true),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/ab", false),
            ("/**", "/", true),
            ("/**", "/anything/at/all", true),
            ("/a%20b", "/a%20b", true),
        ] {
            let path = path::segments(path).unwrap();
            assert_eq!(pattern.parse::<PathPattern>().unwrap().matches(&path), fits, "{pattern} {path:?}");
        }
    }
}
