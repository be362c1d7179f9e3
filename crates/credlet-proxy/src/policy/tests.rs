use super::*;

fn policy(words: &str) -> Policy {
    let mut policy = Policy::new("the test");
    for word in words.split('+').map(str::trim).filter(|word| !word.is_empty()) {
        match word.split_once(' ') {
            None => policy.read_only = word == "--read-only",
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
fn check(words: &str, passed: &[&str], refused: &[&str]) {
    let guard = Guard::new(vec![policy(words)], "").unwrap().unwrap();
    for line in passed {
        assert_eq!(guard.check(&request(line), None), Ok(()), "{words}: {line}");
    }
    for line in refused {
        let message = guard.check(&request(line), None).expect_err(line);
        assert!(message.contains("the test"), "{message}");
    }
}

#[test]
fn read_only_lets_through_what_changes_nothing() {
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
fn a_way_around_by_the_spelling_of_a_path_is_refused_as_unclear_by_every_policy() {
    for words in ["--read-only", "--deny exec", "--allow * /**"] {
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
        let guard = Guard::new(vec![policy(words)], "").unwrap().unwrap();
        for line in spellings {
            let message = guard.check(&request(line), None).expect_err(line);
            assert!(message.contains("cannot judge") && message.contains("set by the test"), "{message}");
        }
    }
}

#[test]
fn what_is_denied_is_denied_by_every_method_and_the_rest_goes_on() {
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
fn acting_for_somebody_else_is_denied_by_the_headers_that_say_so() {
    let guard = Guard::new(vec![policy("--deny impersonate")], "").unwrap().unwrap();
    assert_eq!(guard.check(&request("GET /version"), None), Ok(()));
    for name in ["Impersonate-User", "impersonate-group", "Impersonate-Uid", "Impersonate-Extra-Scopes"] {
        let mut request = request("GET /version");
        request.headers_mut().insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), "x".parse().unwrap());
        assert!(guard.check(&request, None).unwrap_err().contains("--deny impersonate"), "{name}");
    }
}

#[test]
fn to_read_one_object_is_no_watch_whatever_its_query_says() {
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
fn with_a_list_only_what_is_on_it_goes_on() {
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
            // A line is no `get`, whatever its method.
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
fn what_becomes_another_protocol_is_no_reading_and_only_two_protocols_are_known() {
    let guard = |words: &str| Guard::new(vec![policy(words)], "").unwrap().unwrap();
    let watch = request("GET /api/v1/pods?watch=1");
    for protocol in ["websocket", "WebSocket", "SPDY/3.1"] {
        assert!(guard("--read-only").check(&watch, Some(protocol.as_bytes())).is_err(), "{protocol}");
        assert!(guard("--allow get,watch /**").check(&watch, Some(protocol.as_bytes())).is_err(), "{protocol}");
        assert_eq!(guard("--deny exec").check(&watch, Some(protocol.as_bytes())), Ok(()), "{protocol}");
    }
    for protocol in ["tls/1.2", "websocket, x", "x"] {
        let message = guard("--deny exec").check(&watch, Some(protocol.as_bytes())).unwrap_err();
        assert!(message.contains("cannot judge"), "{message}");
    }
}

#[test]
fn paths_are_those_below_the_servers_own_and_nothing_beside_it_is_passed_on() {
    let guard = Guard::new(vec![policy("--deny exec + --allow * /api/**")], "/k8s/clusters/c-1").unwrap().unwrap();
    let ask = |line| guard.check(&request(line), None);
    assert_eq!(ask("GET /k8s/clusters/c-1/api/v1/pods"), Ok(()));
    assert_eq!(ask("GET /k8s/clusters/c%2D1/api/v1/pods"), Ok(()));
    assert!(ask("GET /k8s/clusters/c-1/api/v1/namespaces/a/pods/x/exec").unwrap_err().contains("--deny exec"));
    for line in ["GET /k8s/clusters/c-2/api/v1/pods", "GET /v3/users", "GET /api/v1/pods", "GET /k8s/clusters"] {
        assert!(ask(line).unwrap_err().contains("not below"), "{line}");
    }
    assert!(Guard::new(vec![policy("--read-only")], "/a/../b").is_err());
}

#[test]
fn two_policies_are_both_held_each_is_named_and_none_at_all_costs_nothing() {
    let mut own = policy("--deny exec");
    own.set_by = "somebody else".into();
    let guard = Guard::new(vec![policy("--read-only"), own], "").unwrap().unwrap();
    assert_eq!(guard.to_string(), "--read-only --deny exec");
    assert_eq!(
        guard.check(&request("POST /x"), None).unwrap_err(),
        "this proxy does not create /x: --read-only (set by the test)"
    );
    assert_eq!(guard.check(&request("GET /x"), None), Ok(()));
    assert!(Guard::new(vec![Policy::new("x"), Policy::new("y")], "/a/../b").unwrap().is_none());
}
