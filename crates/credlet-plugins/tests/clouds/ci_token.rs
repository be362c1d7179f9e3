use crate::support::{Peer, Reply, Stage, jwt};

/// 2026-11-15T20:00:00Z.
const LATER: &str = r#"{"exp":1794772800}"#;

#[test]
fn a_file_or_a_variable_is_the_credential_until_its_own_end() {
    let stage = Stage::new();
    let token = jwt(LATER);
    let path = stage.file("token", format!("{token}\n"));
    let stage = stage.var("CI_TOKEN", format!(" {token}\n"));
    for line in
        [format!("--file {}", path.display()), format!("--token-file={}", path.display()), "--env CI_TOKEN".into()]
    {
        let run = stage.ci_token(&line);
        assert_eq!((run.token(), run.expires()), (token.clone(), "2026-11-15T20:00:00Z".into()), "{line}");
    }
}

#[test]
fn github_is_asked_if_there_is_nothing_else() {
    let token = jwt(LATER);
    let answer = format!(r#"{{"value":"{token}"}}"#);
    let server = Peer::start(move |_| Reply::Answer(200, answer.clone()));
    let stage = Stage::new();
    let bearer = stage.watch.secret("request token");
    let stage = stage
        .var("ACTIONS_ID_TOKEN_REQUEST_URL", format!("{}/id", server.url))
        .var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", bearer.expose());
    assert_eq!(stage.ci_token("--audience my-cluster&x").token(), token);
    assert_eq!(stage.ci_token("").token(), token);
    let seen = server.seen();
    assert_eq!((seen[0].path.as_str(), seen[1].path.as_str()), ("/id?audience=my-cluster%26x", "/id"));
    let path = stage.file("token", jwt(LATER));
    stage.ci_token(&format!("--file {}", path.display())).token();
    assert_eq!(server.seen().len(), 2, "a file needs nobody");
}

#[test]
fn what_would_be_refused_later_is_refused_now() {
    for (claims, told) in [
        (r#"{"exp":1794769000}"#, "the token of this job expired at 2026-11-15T18:56:40Z\nhint: get a new one"),
        (r#"{"exp":1794772800,"nbf":1794772000}"#, "is not good yet by this machine's clock"),
    ] {
        let run = Stage::new().var("T", jwt(claims)).ci_token("--env T");
        assert!(run.refusal().contains(told), "{run:?}");
    }
    for text in ["hunter2", "a.b", "a.b.c", "ghs_hunter2"] {
        let run = Stage::new().var("T", text).ci_token("--env T");
        assert!(run.refusal().contains("the token of this job is not a JSON web token"), "{run:?}");
        assert!(!run.stderr.contains("hunter2"));
    }
    for (line, told) in [
        ("", "there is no token of a CI job\nhint: name its file"),
        ("--env T", "the variable T is not set, or empty"),
        ("--file /nowhere", "the token of this job cannot be read from /nowhere (entity not found)"),
        ("--file /", "the token of this job cannot be read from / (invalid input parameter)"),
    ] {
        let run = Stage::new().var("T", "  ").ci_token(line);
        assert!(run.refusal().contains(told), "{line}: {run:?}");
    }
}

#[test]
fn a_file_that_holds_no_token_is_told_without_its_content() {
    let large = "hunter2".repeat(200_000).into_bytes();
    for (content, told) in [
        (b"".to_vec(), "is empty"),
        (b" \n\t".to_vec(), "is empty"),
        (b"hunter2 hunter2".to_vec(), "holds more than a token"),
        (b"hunter2\nhunter2\n".to_vec(), "holds more than a token"),
        (b"hunter2\0".to_vec(), "holds more than a token"),
        (b"hunter2\xff".to_vec(), "cannot be read from"),
        (b"{\"token\":\"hunter2\"}".to_vec(), "is not a JSON web token"),
        (b"..".to_vec(), "is not a JSON web token"),
        (large, "(file too large)"),
    ] {
        let stage = Stage::new();
        let path = stage.file("token", content);
        let run = stage.ci_token(&format!("--file {}", path.display()));
        assert!(run.refusal().contains(told) && !run.stderr.contains("hunter2"), "{run:?}");
    }
}

#[test]
fn a_ci_that_gives_something_else_than_a_token_is_told() {
    for value in ["hunter2", "ghs_hunter2", "a.b.c"] {
        let server = Peer::start(move |_| Reply::Answer(200, format!(r#"{{"value":"{value}"}}"#)));
        let stage = Stage::new()
            .var("ACTIONS_ID_TOKEN_REQUEST_URL", &*server.url)
            .var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "opens");
        let run = stage.ci_token("");
        assert!(run.refusal().contains("is not a JSON web token") && !run.stderr.contains("hunter2"), "{run:?}");
    }
    // A variable that is there and empty offers nothing.
    let run = Stage::new()
        .var("ACTIONS_ID_TOKEN_REQUEST_URL", "")
        .var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "opens")
        .ci_token("");
    assert!(run.refusal().contains("there is no token of a CI job"), "{run:?}");
}

#[test]
fn a_token_without_an_end_has_none_here() {
    let run = Stage::new().var("T", jwt("{}")).ci_token("--env T");
    assert_eq!(run.expires(), "");
}
