use crate::support::{FakeEndpoint, FakeReply, Sandbox, jwt};

const LATER: &str = r#"{"exp":1794772800}"#;

#[test]
fn prints_token_of_file_or_variable() {
    let sandbox = Sandbox::new();
    let token = jwt(LATER);
    let path = sandbox.file("token", format!("{token}\n"));
    let sandbox = sandbox.var("CI_TOKEN", format!(" {token}\n"));
    for line in
        [format!("--file {}", path.display()), format!("--token-file={}", path.display()), "--env CI_TOKEN".into()]
    {
        let run = sandbox.ci_token(&line);
        assert_eq!((run.token(), run.expires()), (token.clone(), "2026-11-15T20:00:00Z".into()), "{line}");
    }
}

#[test]
fn requests_github_token_by_default() {
    let token = jwt(LATER);
    let answer = format!(r#"{{"value":"{token}"}}"#);
    let server = FakeEndpoint::start(move |_| FakeReply::Status(200, answer.clone()));
    let sandbox = Sandbox::new();
    let bearer = sandbox.watch.secret("request token");
    let sandbox = sandbox
        .var("ACTIONS_ID_TOKEN_REQUEST_URL", format!("{}/id", server.url))
        .var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", bearer.expose());
    assert_eq!(sandbox.ci_token("--audience my-cluster&x").token(), token);
    assert_eq!(sandbox.ci_token("").token(), token);
    let seen = server.seen();
    assert_eq!((seen[0].path.as_str(), seen[1].path.as_str()), ("/id?audience=my-cluster%26x", "/id"));
    let path = sandbox.file("token", jwt(LATER));
    sandbox.ci_token(&format!("--file {}", path.display())).token();
    assert_eq!(server.seen().len(), 2, "a file needs nobody");
}

#[test]
fn rejects_invalid_and_expired_tokens() {
    for (claims, told) in [
        (r#"{"exp":1794769000}"#, "token of this CI job expired at 2026-11-15T18:56:40Z\nhint: renew the token"),
        (r#"{"exp":1794772800,"nbf":1794772000}"#, "not valid yet according to the local clock"),
    ] {
        let run = Sandbox::new().var("T", jwt(claims)).ci_token("--env T");
        assert!(run.error().contains(told), "{run:?}");
    }
    for text in ["hunter2", "a.b", "a.b.c", "ghs_hunter2"] {
        let run = Sandbox::new().var("T", text).ci_token("--env T");
        assert!(run.error().contains("invalid token of this CI job: not a JSON web token"), "{run:?}");
        assert!(!run.stderr.contains("hunter2"));
    }
    for (line, told) in [
        ("", "no CI job token found\nhint: pass its file"),
        ("--env T", "environment variable T is missing or empty"),
        ("--file /nowhere", "failed to read token of this CI job: /nowhere does not exist"),
        ("--file /", "failed to read token of this CI job: / is a directory"),
    ] {
        let run = Sandbox::new().var("T", "  ").ci_token(line);
        assert!(run.error().contains(told), "{line}: {run:?}");
    }
}

#[test]
fn rejects_invalid_token_files_without_content() {
    let large = "hunter2".repeat(200_000).into_bytes();
    for (content, told) in [
        (b"".to_vec(), ": empty"),
        (b" \n\t".to_vec(), ": empty"),
        (b"hunter2 hunter2".to_vec(), "contains whitespace or control characters"),
        (b"hunter2\nhunter2\n".to_vec(), "contains whitespace or control characters"),
        (b"hunter2\0".to_vec(), "contains whitespace or control characters"),
        (b"hunter2\xff".to_vec(), "not UTF-8 text"),
        (b"{\"token\":\"hunter2\"}".to_vec(), "not a JSON web token"),
        (b"..".to_vec(), "not a JSON web token"),
        (large, "is larger than 64 KiB"),
    ] {
        let sandbox = Sandbox::new();
        let path = sandbox.file("token", content);
        let run = sandbox.ci_token(&format!("--file {}", path.display()));
        assert!(run.error().contains(told) && !run.stderr.contains("hunter2"), "{run:?}");
    }
}

#[test]
fn rejects_non_jwt_from_ci() {
    for value in ["hunter2", "ghs_hunter2", "a.b.c"] {
        let server = FakeEndpoint::start(move |_| FakeReply::Status(200, format!(r#"{{"value":"{value}"}}"#)));
        let sandbox = Sandbox::new()
            .var("ACTIONS_ID_TOKEN_REQUEST_URL", &*server.url)
            .var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "opens");
        let run = sandbox.ci_token("");
        assert!(run.error().contains("JSON web token") && !run.stderr.contains("hunter2"), "{run:?}");
    }
    // An empty variable counts as unset.
    let run = Sandbox::new()
        .var("ACTIONS_ID_TOKEN_REQUEST_URL", "")
        .var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "opens")
        .ci_token("");
    assert!(run.error().contains("no CI job token found"), "{run:?}");
}

#[test]
fn token_without_exp_has_no_expiry() {
    let run = Sandbox::new().var("T", jwt("{}")).ci_token("--env T");
    assert_eq!(run.expires(), "");
}
