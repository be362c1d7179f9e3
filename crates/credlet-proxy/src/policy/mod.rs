//! What a proxy passes on, where it is to pass on less than its user may do.
//!
//! **The path:** the path of a request is decoded (`path.rs`), and refused if two servers could read it in two ways → it is
//! found out what the request wants (`wish.rs`), as the API server will → each [`Policy`] has its say, by its
//! rules (`rule.rs`).
//!
//! What the user may do is the API server's to say. A policy is for those who lend their proxy: to a dashboard, a script,
//! an assistant.

mod path;
mod rule;
mod wish;

use std::fmt;

use http::Request;

pub use self::path::Unclear;
pub use self::rule::{Allow, Deny};
pub use self::wish::Verb;
use self::wish::{Object, Wish};

/// What is passed on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// Who set it, for whoever is refused by it.
    pub set_by: String,
    /// Only what changes nothing.
    pub read_only: bool,
    /// None of these.
    pub deny: Vec<Deny>,
    /// If there are any, only what one of them says.
    pub allow: Vec<Allow>,
}

impl Policy {
    /// One without rules.
    pub fn new(set_by: impl Into<String>) -> Self {
        Self { set_by: set_by.into(), read_only: false, deny: Vec::new(), allow: Vec::new() }
    }

    /// Whether it passes on everything.
    pub fn is_empty(&self) -> bool {
        !self.read_only && self.deny.is_empty() && self.allow.is_empty()
    }

    /// The rule that this breaks.
    fn broken(&self, wish: &Wish<'_>) -> Option<String> {
        if self.read_only && !wish.verb.reads() && !asks_about_itself(wish) {
            return Some("--read-only".to_owned());
        }
        if let Some(deny) = self.deny.iter().find(|deny| deny.covers(wish)) {
            return Some(format!("--deny {deny}"));
        }
        let unlisted = !self.allow.is_empty() && !self.allow.iter().any(|allow| allow.covers(wish));
        unlisted.then(|| "no --allow covers it".to_owned())
    }
}

/// As one would write it.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.read_only.then(|| "--read-only".to_owned()));
        words.extend(self.deny.iter().map(|deny| format!("--deny {deny}")));
        words.extend(self.allow.iter().map(|allow| format!("--allow '{allow}'")));
        f.write_str(&words.join(" "))
    }
}

/// Questions that are put as a `POST` and leave nothing behind: what may I do, who am I.
fn asks_about_itself(wish: &Wish<'_>) -> bool {
    let questions = [
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
    ];
    let asked = |object: Object<'_>| object.name.is_none() && questions.contains(&(object.group, object.resource));
    wish.verb == Verb::Create && wish.object.is_some_and(asked)
}

/// All policies of a proxy: what one of them refuses is refused.
#[derive(Debug)]
pub(crate) struct Guard {
    policies: Vec<Policy>,
    /// The path that the API server's address has.
    above: Vec<String>,
}

impl Guard {
    /// `None`: everything is passed on, and nobody need look.
    pub(crate) fn new(policies: Vec<Policy>, server_path: &str) -> Result<Option<Self>, Unclear> {
        let policies: Vec<_> = policies.into_iter().filter(|policy| !policy.is_empty()).collect();
        if policies.is_empty() {
            return Ok(None);
        }
        let above = if server_path.is_empty() { Vec::new() } else { path::segments(server_path)? };
        Ok(Some(Self { policies, above }))
    }

    /// Whether a request may go on. `upgrade`: the protocol that it is to become.
    pub(crate) fn check<B>(&self, request: &Request<B>, upgrade: Option<&[u8]>) -> Result<(), String> {
        let unjudged = |why: &dyn fmt::Display| {
            let Self { policies, .. } = self;
            let by = policies.first().map_or("", |policy| policy.set_by.as_str());
            format!("this proxy has a policy, set by {by}, and passes on no request that it cannot judge: {why}")
        };
        let segments = path::segments(request.uri().path()).map_err(|unclear| unjudged(&unclear))?;
        let below = segments.strip_prefix(self.above.as_slice());
        let below = below.ok_or_else(|| unjudged(&"it is not below the path of the API server"))?;
        // On anything else that it may become, requests could come that nobody looks at.
        let known =
            |protocol: &[u8]| [b"websocket".as_slice(), b"spdy/3.1"].iter().any(|it| it.eq_ignore_ascii_case(protocol));
        if upgrade.is_some_and(|protocol| !known(protocol)) {
            return Err(unjudged(&"it is to become a protocol that is neither a WebSocket nor SPDY/3.1"));
        }
        let wish = Wish::of(request, below, upgrade.is_some());
        for policy in &self.policies {
            if let Some(rule) = policy.broken(&wish) {
                let (verb, path) = (wish.verb, credlet_api::visible(request.uri().path()));
                return Err(format!("this proxy does not {verb} {path}: {rule} (set by {})", policy.set_by));
            }
        }
        Ok(())
    }
}

/// All of them, as one would write them.
impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.policies.iter().map(Policy::to_string).collect();
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests;
