use super::*;

fn policy(flags: &str) -> Policy {
    let mut policy = Policy::new("the test");
    for flag in flags.split('+').map(str::trim).filter(|flag| !flag.is_empty()) {
        match flag.split_once(' ') {
            None => policy.read_only = flag == "--read-only",
            Some(("--deny", what)) => policy.deny.push(what.parse().unwrap()),
            Some((_, what)) => policy.allow.push(what.parse().unwrap()),
        }
    }
    policy
}

fn request(line: &str) -> Request<()> {
    let (method, target) = line.split_once(' ').unwrap();
    Request::builder().method(method).uri(target).body(()).unwrap()
}

#[track_caller]
fn check(flags: &str, passed: &[&str], refused: &[&str]) {
    let policies = PolicySet::new(vec![policy(flags)], "").unwrap().unwrap();
    for line in passed {
        assert_eq!(policies.check(&request(line), None), Ok(()), "{flags}: {line}");
    }
    for line in refused {
        let message = policies.check(&request(line), None).expect_err(line);
        assert!(message.contains("the test"), "{message}");
    }
}

#[test]
fn read_only_rejects_changes() {
    check(
        "--read-only",
        &[
            "GET /version",
            "GET /api/v1/namespaces/shop/pods",
            "HEAD /api/v1/pods",
            "GET /api/v1/pods?watch=true",
            "GET /api/v1/namespaces/shop/pods/web/log?follow=true",
            "GET /api/v1/namespaces/shop/services/exec",
            "GET /api/v1/namespaces/exec/pods/attach",
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            "POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
        ],
        &[
            "POST /api/v1/namespaces/shop/pods",
            "PUT /api/v1/namespaces/shop/pods/web",
            "PATCH /api/v1/namespaces/shop/pods/web",
            "DELETE /api/v1/namespaces/shop/pods/web",
            "DELETE /api/v1/namespaces/shop/pods",
            "POST /version",
            "OPTIONS /api/v1/pods",
            "TRACE /api/v1/pods",
            "get /api/v1/pods",
            "GET /api/v1/namespaces/shop/pods/web/exec?command=id",
            "GET /api/v1/namespaces/shop/pods/web/exec/",
            "GET /api/v1/namespaces/shop/pods/web/%65xec",
            "GET /api/v1/namespaces/shop/pods/web/EXEC",
            "GET /api/v1/namespaces/shop/pods/web/attach",
            "GET /api/v1/namespaces/shop/pods/web/portforward",
            "GET /api/v1/namespaces/shop/pods/web/proxy",
            "GET /api/v1/namespaces/shop/services/web/proxy/reset",
            "GET /api/v1/nodes/one/proxy/exec/shop/web/main",
            "GET /api/v1/proxy/nodes/one/run",
            "GET /oapi/v1/namespaces/shop/pods/web/exec",
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x",
            "POST /apis/other.example/v1/selfsubjectaccessreviews",
            "POST /apis/authentication.k8s.io/v1/tokenreviews",
        ],
    );
}

#[test]
fn ambiguous_path_is_rejected_by_every_policy() {
    for flags in ["--read-only", "--deny exec", "--allow * /**"] {
        let spellings = [
            "GET /api/v1/namespaces/shop/pods/web%2Fexec",
            "GET /api/v1/namespaces/shop/pods/web/%2565xec",
            "GET /api/v1/namespaces/shop/pods/x/../web/exec",
            "GET /api/v1/namespaces/shop/pods/x/%2e%2e/web/log",
            "GET /api/v1/namespaces/shop/pods/web//exec",
            "GET //api/v1/namespaces/shop/pods/web/exec",
            "GET /api/v1/namespaces/shop/pods/web/exec;x",
            "GET /api/v1/namespaces/shop/pods/web/exec%00",
            "GET /api/v1/namespaces/shop/pods/web/%zz",
        ];
        let policies = PolicySet::new(vec![policy(flags)], "").unwrap().unwrap();
        for line in spellings {
            let message = policies.check(&request(line), None).expect_err(line);
            assert!(message.contains("cannot be checked") && message.contains("set by the test"), "{message}");
        }
    }
}

#[test]
fn deny_applies_to_every_method() {
    let pod = "/api/v1/namespaces/shop/pods/web";
    let kubelet = "GET /api/v1/nodes/one/proxy/run/shop/web/main";
    check(
        "--deny exec",
        &[&format!("GET {pod}/attach"), &format!("DELETE {pod}"), "GET /api/v1/namespaces/shop/services/web/proxy"],
        &[&format!("GET {pod}/exec"), &format!("POST {pod}/exec?command=id"), &format!("PUT {pod}/Exec"), kubelet],
    );
    check("--deny attach", &[&format!("POST {pod}/exec")], &[&format!("GET {pod}/attach"), kubelet]);
    check("--deny port-forward", &[&format!("POST {pod}/exec")], &[&format!("GET {pod}/portforward"), kubelet]);
    check("--deny proxy", &[&format!("POST {pod}/exec")], &[&format!("GET {pod}:80/proxy/x"), kubelet]);
    check("--deny debug", &[&format!("PATCH {pod}")], &[&format!("PATCH {pod}/ephemeralcontainers")]);
    let account = "/api/v1/namespaces/shop/serviceaccounts/web";
    check("--deny token", &[&format!("GET {account}")], &[&format!("POST {account}/token")]);
    check(
        "--deny exec + --deny attach",
        &[&format!("GET {pod}/log")],
        &[&format!("GET {pod}/exec"), &format!("GET {pod}/attach")],
    );
}

#[test]
fn deny_impersonate_checks_headers() {
    let policies = PolicySet::new(vec![policy("--deny impersonate")], "").unwrap().unwrap();
    assert_eq!(policies.check(&request("GET /version"), None), Ok(()));
    for name in ["Impersonate-User", "impersonate-group", "Impersonate-Uid", "Impersonate-Extra-Scopes"] {
        let mut request = request("GET /version");
        request.headers_mut().insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), "x".parse().unwrap());
        assert!(policies.check(&request, None).unwrap_err().contains("--deny impersonate"), "{name}");
    }
}

#[test]
fn get_of_one_object_is_not_a_watch() {
    check(
        "--allow list,watch /api/v1/namespaces/shop/**",
        &["GET /api/v1/namespaces/shop/pods?watch=1", "GET /api/v1/namespaces/shop/pods"],
        &[
            "GET /api/v1/namespaces/shop/secrets/key?watch=1",
            "GET /api/v1/namespaces/shop/pods/web/log?watch=true",
            "GET /api/v1/namespaces/shop?watch",
        ],
    );
}

#[test]
fn allow_rejects_unlisted_requests() {
    check(
        "--allow get,list,watch /api/v1/namespaces/shop/** + --allow create /apis/batch/v1/namespaces/*/jobs + --allow discovery",
        &[
            "GET /api/v1/namespaces/shop/pods",
            "GET /api/v1/namespaces/shop/pods/web/log",
            "GET /api/v1/namespaces/shop",
            "POST /apis/batch/v1/namespaces/any/jobs",
            "GET /api",
            "GET /apis/apps/v1",
            "GET /openapi/v3/apis/apps/v1",
        ],
        &[
            "GET /api/v1/namespaces/shops/pods",
            "GET /api/v1/namespaces/other/pods",
            "GET /api/v1/pods",
            "DELETE /api/v1/namespaces/shop/pods/web",
            // A streaming request is not a `get`, whatever its method.
            "GET /api/v1/namespaces/shop/pods/web/exec",
            "GET /apis/batch/v1/namespaces/any/jobs",
            "POST /apis/batch/v1/namespaces/any/jobs/x/status",
            "GET /",
            "GET /metrics",
        ],
    );
    let lines = "--allow connect /api/v1/namespaces/shop/pods/*/exec";
    check(lines, &["GET /api/v1/namespaces/shop/pods/web/exec"], &["GET /api/v1/namespaces/shop/pods/web/attach"]);
    check("--read-only + --allow * /api/**", &["GET /api/v1/pods"], &["POST /api/v1/pods", "GET /version"]);
}

#[test]
fn upgrade_is_not_read_only() {
    let policies = |flags: &str| PolicySet::new(vec![policy(flags)], "").unwrap().unwrap();
    let watch = request("GET /api/v1/pods?watch=1");
    for protocol in ["websocket", "WebSocket", "SPDY/3.1"] {
        assert!(policies("--read-only").check(&watch, Some(protocol.as_bytes())).is_err(), "{protocol}");
        assert!(policies("--allow get,watch /**").check(&watch, Some(protocol.as_bytes())).is_err(), "{protocol}");
        assert_eq!(policies("--deny exec").check(&watch, Some(protocol.as_bytes())), Ok(()), "{protocol}");
    }
    for protocol in ["tls/1.2", "websocket, x", "x"] {
        let message = policies("--deny exec").check(&watch, Some(protocol.as_bytes())).unwrap_err();
        assert!(message.contains("cannot be checked"), "{message}");
    }
}

#[test]
fn path_outside_server_prefix_is_rejected() {
    let policies =
        PolicySet::new(vec![policy("--deny exec + --allow * /api/**")], "/k8s/clusters/c-1").unwrap().unwrap();
    let check = |line| policies.check(&request(line), None);
    assert_eq!(check("GET /k8s/clusters/c-1/api/v1/pods"), Ok(()));
    assert_eq!(check("GET /k8s/clusters/c%2D1/api/v1/pods"), Ok(()));
    assert!(check("GET /k8s/clusters/c-1/api/v1/namespaces/a/pods/x/exec").unwrap_err().contains("--deny exec"));
    for line in ["GET /k8s/clusters/c-2/api/v1/pods", "GET /v3/users", "GET /api/v1/pods", "GET /k8s/clusters"] {
        assert!(check(line).unwrap_err().contains("outside the path"), "{line}");
    }
    assert!(PolicySet::new(vec![policy("--read-only")], "/a/../b").is_err());
}

#[test]
fn all_policies_apply() {
    let mut own = policy("--deny exec");
    own.set_by = "another test".into();
    let policies = PolicySet::new(vec![policy("--read-only"), own], "").unwrap().unwrap();
    assert_eq!(policies.to_string(), "--read-only --deny exec");
    assert_eq!(
        policies.check(&request("POST /x"), None).unwrap_err(),
        "this proxy is not allowed to create /x: --read-only (set by the test)"
    );
    assert_eq!(policies.check(&request("GET /x"), None), Ok(()));
    assert!(PolicySet::new(vec![Policy::new("x"), Policy::new("y")], "/a/../b").unwrap().is_none());
}

#[test]
fn method_override_in_query_is_rejected() {
    for flags in ["--read-only", "--deny exec", "--allow * /**"] {
        let policies = PolicySet::new(vec![policy(flags)], "").unwrap().unwrap();
        for query in
            ["_method=DELETE", "a=b&%5fmethod=DELETE", "X-HTTP-Method-Override=PUT", "_HttpMethod=PATCH", "$method=x"]
        {
            let message = policies.check(&request(&format!("GET /api/v1/pods?{query}")), None).unwrap_err();
            assert!(message.contains("overrides the method"), "{message}");
        }
        assert_eq!(policies.check(&request("GET /api/v1/pods?method=x&a_method=y"), None), Ok(()));
    }
}

#[test]
fn recognizes_workload_paths() {
    for path in [
        "/api/v1/namespaces/x/services/echo/proxy",
        "/api/v1/namespaces/x/services/https:echo:443/proxy/a/b",
        "/api/v1/namespaces/x/pods/echo:80/proxy/",
        "/api/v1/nodes/one/proxy/logs",
        "/api/v1/proxy/namespaces/x/services/echo",
        "/api/v1/namespaces/x/services/echo/%70roxy/",
        "/api/v1/namespaces/x/services/echo/%2570roxy/",
        "/api/v1/namespaces/x/services/echo%2fproxy/",
        "/api/v1/namespaces/x/services/echo//proxy/",
        "/api/v1/namespaces/x/services/../services/echo/proxy",
        "/API/v1/namespaces/x/services/echo/PROXY",
        "/k8s/clusters/c-1/api/v1/namespaces/x/services/echo/proxy/",
        "/api/east/api/v1/namespaces/x/services/echo/proxy/",
        "/oapi/v1/namespaces/x/services/echo/proxy",
    ] {
        assert!(may_reach_workload(path), "{path}");
    }
    for path in [
        "/version",
        "/api/v1/namespaces/proxy/pods",
        "/api/v1/namespaces/x/services/proxy",
        "/api/v1/namespaces/x/pods/web/exec",
        "/apis/apps/v1/namespaces/x/deployments/proxy/scale",
        "/k8s/clusters/c-1/api/v1/namespaces/proxy/pods",
    ] {
        assert!(!may_reach_workload(path), "{path}");
    }
}
