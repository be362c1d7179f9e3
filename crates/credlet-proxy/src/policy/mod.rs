//! Policies that restrict which requests a proxy forwards.
//!
//! `path.rs` decodes the path of a request and rejects it if servers could interpret it differently. `attributes.rs`
//! determines verb and object as the API server does. Then every [`Policy`] is checked by its rules (`rule.rs`).
//!
//! The API server remains responsible for authorization. A policy is for users who share their proxy with a dashboard,
//! a script or an assistant.

mod attributes;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod path;
mod rule;

use std::fmt;

use http::Request;

pub use self::attributes::RequestVerb;
use self::attributes::{ObjectRef, RequestAttributes};
pub use self::path::AmbiguousPath;
pub use self::rule::{AllowRule, DenyRule};

/// Rules for the requests that a proxy forwards.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// Origin of the policy, for error messages.
    pub set_by: String,
    /// Forward only requests that change nothing.
    pub read_only: bool,
    /// Requests that are rejected.
    pub deny: Vec<DenyRule>,
    /// If not empty, only requests that match one of these rules are forwarded.
    pub allow: Vec<AllowRule>,
}

impl Policy {
    /// Creates a policy without rules.
    pub fn new(set_by: impl Into<String>) -> Self {
        Self { set_by: set_by.into(), read_only: false, deny: Vec::new(), allow: Vec::new() }
    }

    /// Whether the policy forwards every request.
    pub fn is_empty(&self) -> bool {
        !self.read_only && self.deny.is_empty() && self.allow.is_empty()
    }

    /// The rule that the request violates.
    fn violation(&self, attributes: &RequestAttributes<'_>) -> Option<String> {
        if self.read_only && !attributes.verb.reads() && !is_self_review(attributes) {
            return Some("--read-only".to_owned());
        }
        if let Some(deny) = self.deny.iter().find(|deny| deny.covers(attributes)) {
            return Some(format!("--deny {deny}"));
        }
        let unlisted = !self.allow.is_empty() && !self.allow.iter().any(|allow| allow.covers(attributes));
        unlisted.then(|| "no matching --allow".to_owned())
    }
}

/// Formats the policy as command-line flags.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut flags: Vec<String> = Vec::new();
        flags.extend(self.read_only.then(|| "--read-only".to_owned()));
        flags.extend(self.deny.iter().map(|deny| format!("--deny {deny}")));
        flags.extend(self.allow.iter().map(|allow| format!("--allow '{allow}'")));
        f.write_str(&flags.join(" "))
    }
}

/// Reviews that are sent as `POST` and store nothing, such as `kubectl auth can-i` and `kubectl auth whoami`.
fn is_self_review(attributes: &RequestAttributes<'_>) -> bool {
    let reviews = [
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
    ];
    let is_review = |object: ObjectRef<'_>| object.name.is_none() && reviews.contains(&(object.group, object.resource));
    attributes.verb == RequestVerb::Create && attributes.object.is_some_and(is_review)
}

/// All policies of a proxy. A request is forwarded if none of them rejects it.
#[derive(Debug)]
pub(crate) struct PolicySet {
    policies: Vec<Policy>,
    /// Segments of the path in the API server's URL.
    prefix: Vec<String>,
}

impl PolicySet {
    /// Returns `None` without rules, so that no request needs to be checked.
    pub(crate) fn new(policies: Vec<Policy>, server_path: &str) -> Result<Option<Self>, AmbiguousPath> {
        let policies: Vec<_> = policies.into_iter().filter(|policy| !policy.is_empty()).collect();
        if policies.is_empty() {
            return Ok(None);
        }
        let prefix = if server_path.is_empty() { Vec::new() } else { path::segments(server_path)? };
        Ok(Some(Self { policies, prefix }))
    }

    /// Returns an error message if a request is rejected. `upgrade`: the requested protocol.
    pub(crate) fn check<B>(&self, request: &Request<B>, upgrade: Option<&[u8]>) -> Result<(), String> {
        let unchecked = |why: &dyn fmt::Display| {
            let Self { policies, .. } = self;
            let by = policies.first().map_or("", |policy| policy.set_by.as_str());
            format!("the policy of this proxy cannot be checked: {why} (set by {by})")
        };
        let segments = path::segments(request.uri().path()).map_err(|unclear| unchecked(&unclear))?;
        let below = segments.strip_prefix(self.prefix.as_slice());
        let below = below.ok_or_else(|| unchecked(&"the path is outside the path of the API server"))?;
        // Other protocols could carry requests that are not checked.
        let known =
            |protocol: &[u8]| [b"websocket".as_slice(), b"spdy/3.1"].iter().any(|it| it.eq_ignore_ascii_case(protocol));
        if upgrade.is_some_and(|protocol| !known(protocol)) {
            return Err(unchecked(&"unsupported upgrade, only WebSocket and SPDY/3.1 are allowed"));
        }
        if attributes::names_other_method(request.uri().query()) {
            return Err(unchecked(&"the query overrides the method"));
        }
        let attributes = RequestAttributes::of(request, below, upgrade.is_some());
        for policy in &self.policies {
            if let Some(rule) = policy.violation(&attributes) {
                let (verb, path) = (attributes.verb, credlet_api::escape_control_chars(request.uri().path()));
                return Err(format!("this proxy is not allowed to {verb} {path}: {rule} (set by {})", policy.set_by));
            }
        }
        Ok(())
    }
}

/// Whether the API server may forward a request for this path to a pod, service or node (their `proxy` subresource),
/// with all headers that it does not consume. Returns true for an ambiguous path.
pub(crate) fn may_reach_workload(path: &str) -> bool {
    let Ok(segments) = path::segments(&path.to_ascii_lowercase()) else { return true };
    // The API may be below the path of a gateway, which may contain `api` itself.
    let roots = (0..segments.len()).filter(|at| ["api", "apis"].contains(&segments[*at].as_str()));
    let objects: Vec<_> = roots.filter_map(|at| ObjectRef::at(&segments[at..]).1).collect();
    match objects.as_slice() {
        [] => segments.iter().any(|segment| segment == "proxy"),
        objects => objects.iter().any(|object| object.subresource == Some("proxy")),
    }
}

/// Formats all policies as command-line flags.
impl fmt::Display for PolicySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags: Vec<_> = self.policies.iter().map(Policy::to_string).collect();
        f.write_str(&flags.join(" "))
    }
}

#[cfg(test)]
mod tests;
