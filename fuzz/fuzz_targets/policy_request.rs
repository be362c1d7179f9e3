//! A request line and headers against a proxy policy.

#![no_main]

use credlet_proxy::policy::fuzzing::{is_allowed, path_segments};
use credlet_proxy::policy::{DenyRule, Policy};
use http::Request;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let Some((method, target)) = lines.next().and_then(|line| line.split_once(' ')) else { return };
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    let Ok(request) = request.body(()) else { return };
    let upgrade = request.headers().get("upgrade").map(|value| value.as_bytes());
    let segments = path_segments(request.uri().path());
    if let Some(segments) = &segments {
        assert!(segments.iter().all(|segment| !["", ".", ".."].contains(&segment.as_str())));
        assert!(segments.iter().all(|segment| !segment.contains(['/', '\\', '%', ';'])));
    }

    let mut read_only = Policy::new("test");
    read_only.read_only = true;
    if is_allowed(read_only, "", &request, upgrade) == Some(true) {
        let is_self_review = method == "POST" && target.contains("/selfsubject");
        assert!(["GET", "HEAD"].contains(&method) || is_self_review, "{request:?}");
        assert!(segments.is_some() && upgrade.is_none());
    }
    let mut no_exec = Policy::new("test");
    no_exec.deny = vec![DenyRule::Exec];
    if is_allowed(no_exec, "", &request, upgrade) == Some(true) {
        let words: Vec<_> = segments.iter().flatten().map(|segment| segment.to_ascii_lowercase()).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        assert!(!matches!(words[..], ["api", _, "namespaces", _, "pods", _, "exec", ..]), "{request:?}");
    }
    let mut one_namespace = Policy::new("test");
    one_namespace.allow = vec!["* /api/v1/namespaces/shop/**".parse().expect("our own rule")];
    if is_allowed(one_namespace, "/base", &request, upgrade) == Some(true) {
        let segments = segments.expect("it was read");
        assert_eq!(segments[..5], ["base", "api", "v1", "namespaces", "shop"]);
    }
});
