//! The rules that an operator writes.

use std::fmt;
use std::str::FromStr;

use super::path;
use super::wish::{Verb, Wish};

/// Something that is never passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deny {
    /// Commands in containers.
    Exec,
    /// The streams of containers.
    Attach,
    /// Ports of pods.
    PortForward,
    /// HTTP to pods, services and nodes.
    Proxy,
    /// Containers that are added to a running pod (`kubectl debug`).
    Debug,
    /// Tokens of service accounts, which are good without the proxy.
    Token,
    /// Requests in somebody else's name.
    Impersonate,
}

impl Deny {
    const NAMES: [(&str, Self); 7] = [
        ("exec", Self::Exec),
        ("attach", Self::Attach),
        ("port-forward", Self::PortForward),
        ("proxy", Self::Proxy),
        ("debug", Self::Debug),
        ("token", Self::Token),
        ("impersonate", Self::Impersonate),
    ];

    pub(super) fn covers(self, wish: &Wish<'_>) -> bool {
        let under = |name: &str| wish.leads_to(name);
        // The kubelet runs commands, too, and whoever may speak to it may have them run.
        let of_node = || wish.object.is_none_or(|object| object.resource.eq_ignore_ascii_case("nodes"));
        let kubelet = under("proxy") && of_node();
        match self {
            Self::Exec => under("exec") || kubelet,
            Self::Attach => under("attach") || kubelet,
            Self::PortForward => under("portforward") || kubelet,
            Self::Proxy => under("proxy"),
            Self::Debug => under("ephemeralcontainers"),
            Self::Token => under("token"),
            Self::Impersonate => wish.impersonates,
        }
    }
}

impl FromStr for Deny {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, deny)| *deny).ok_or_else(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("it is one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Deny {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, deny)| deny == self).map_or("", |(name, _)| name))
    }
}

/// Something that is passed on: verbs, and a path below the API server's own.
///
/// In the path, `*` is one segment, and `**` at the end is all that is there and below: `get,list
/// /apis/apps/v1/namespaces/*/deployments/**`. The word `discovery` alone is what clients look at before they do
/// anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    text: String,
    /// Empty: all of them.
    verbs: Vec<Verb>,
    paths: Vec<Pattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    /// `None`: any.
    segments: Vec<Option<String>>,
    and_below: bool,
}

/// Where an API server says what it has.
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

impl Allow {
    pub(super) fn covers(&self, wish: &Wish<'_>) -> bool {
        (self.verbs.is_empty() || self.verbs.contains(&wish.verb))
            && self.paths.iter().any(|pattern| pattern.fits(wish.path))
    }
}

impl Pattern {
    fn fits(&self, path: &[String]) -> bool {
        let lengths =
            if self.and_below { path.len() >= self.segments.len() } else { path.len() == self.segments.len() };
        lengths && self.segments.iter().zip(path).all(|(wanted, found)| wanted.as_ref().is_none_or(|it| it == found))
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut segments = path::segments(text).map_err(|unclear| match text.starts_with('/') {
            true => unclear.to_string(),
            false => "its path begins with a slash".to_owned(),
        })?;
        let and_below = segments.pop_if(|last| last == "**").is_some();
        let one = |segment: String| match segment.as_str() {
            "*" => Ok(None),
            text if text.contains('*') => Err("`*` is a whole segment of its path, and `**` the last one".to_owned()),
            _ => Ok(Some(segment)),
        };
        Ok(Self { segments: segments.into_iter().map(one).collect::<Result<_, _>>()?, and_below })
    }
}

impl FromStr for Allow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "discovery" {
            let paths = DISCOVERY.iter().map(|path| path.parse()).collect::<Result<_, _>>()?;
            return Ok(Self { text: text.to_owned(), verbs: vec![Verb::Get], paths });
        }
        let mut words = text.split_whitespace();
        let (Some(written), Some(path), None) = (words.next(), words.next(), words.next()) else {
            return Err("it has verbs and a path, as in `get,list /api/v1/namespaces/shop/**`".to_owned());
        };
        let verb = |name: &str| name.parse().map_err(|()| format!("{:?} is no verb", credlet_api::visible(name)));
        let verbs = match written {
            "*" => Vec::new(),
            verbs => verbs.split(',').map(verb).collect::<Result<_, _>>()?,
        };
        Ok(Self { text: format!("{written} {path}"), verbs, paths: vec![path.parse()?] })
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_is_none_is_said_to_be_none() {
        for (text, why) in [
            ("", "verbs and a path"),
            ("get", "verbs and a path"),
            ("get /a /b", "verbs and a path"),
            ("GET /a", "is no verb"),
            ("get,, /a", "is no verb"),
            ("get a", "begins with a slash"),
            ("get /a/../b", "dotted"),
            ("get /a/%zz", "escaped"),
            ("get /a*", "whole segment"),
            ("get /**/a", "whole segment"),
        ] {
            let error = text.parse::<Allow>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!("Exec".parse::<Deny>().unwrap_err().contains("one of exec, attach, port-forward"));
    }

    #[test]
    fn a_pattern_fits_what_it_says_and_nothing_beside_it() {
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
            assert_eq!(pattern.parse::<Pattern>().unwrap().fits(&path), fits, "{pattern} {path:?}");
        }
    }
}
