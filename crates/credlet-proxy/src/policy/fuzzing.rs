//! Entry points of `fuzz/fuzz_targets` into private parsers. Not part of the public API.

use http::Request;

use super::{Policy, PolicySet, path};

/// Segments of a request path. `None` if the path is ambiguous.
pub fn path_segments(path: &str) -> Option<Vec<String>> {
    path::segments(path).ok()
}

/// Whether this policy allows a request to an API server at this path. `None` if the policy has no rules or the path is
/// invalid.
pub fn is_allowed(policy: Policy, server_path: &str, request: &Request<()>, upgrade: Option<&[u8]>) -> Option<bool> {
    let policies = PolicySet::new(vec![policy], server_path).ok().flatten()?;
    Some(policies.check(request, upgrade).is_ok())
}
