use super::*;

fn file(exec: &str) -> String {
    format!("# mine\nusers:\n- name: ada\n  user:\n{exec}- name: bob # and he\n  user: {{token: hunter2}}\n")
}

/// Returns the wrapped text, and the result of unwrapping it.
fn wrap_and_unwrap(exec: &str) -> (String, String) {
    let text = file(exec);
    let wrapped = wrap(&text, "ada", "credlet", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let users = exec_users(&wrapped).unwrap();
    assert_eq!(users, [ExecUser { name: "ada".into(), plugin: "aws".into(), wrapped: true }], "{}", *wrapped);
    let back = unwrap(&wrapped, "ada").unwrap_or_else(|error| panic!("{error}\n{}", *wrapped));
    let config = |text: &str| section(text, "ada").unwrap();
    let words = |exec: ExecSection| (exec.command.value, exec.args.value);
    assert_eq!(words(config(&back)), words(config(&text)), "{}", *back);
    (wrapped.to_string(), back.to_string())
}

#[test]
fn edits_block_lists() {
    for exec in [
        "    exec:\n      command: aws # the one from brew\n      args:\n      # who\n      - eks\n      - get-token\n      env: null\n",
        "    exec:\n      args:\n        - eks\n\n        # what\n        - 'get-token'\n      command: \"aws\"\n",
        "    exec: {command: aws, args: [eks, get-token]} # short\n",
        "    exec:\n      command: 'aws'\n      args: [ \"eks\", \"a, b\" ]\n",
    ] {
        let (_, back) = wrap_and_unwrap(exec);
        let normal = |text: &str| text.replace(['"', '\'', ' '], "");
        assert_eq!(normal(&back), normal(&file(exec)));
    }
}

#[test]
fn adds_missing_args_list() {
    for exec in [
        "    exec:\n      command: aws\n      apiVersion: v1\n",
        "    exec:\n      command: aws\n      args:\n      apiVersion: v1\n",
        "    exec:\n      command: aws\n      args: null\n",
        "    exec:\n      command: aws\n      args: []\n",
        "    exec: {command: aws}\n",
    ] {
        wrap_and_unwrap(exec);
    }
}

#[test]
fn edits_keep_other_lines() {
    let (wrapped, _) = wrap_and_unwrap("    exec:\n      args:\n      - eks # x\n      command: aws\n");
    assert_eq!(
        wrapped,
        file(
            "    exec:\n      args:\n      - \"cache\"\n      - \"--\"\n      - \"aws\"\n      - eks # x\n      command: credlet\n"
        )
    );
}

#[test]
fn wrap_names_session_variables() {
    let exec = "    exec: {command: aws, env: [{name: PAGER, value: a}, {name: AWS_PROFILE, value: b}]}\n";
    let (wrapped, _) = wrap_and_unwrap(exec);
    let args: Vec<_> = section(&wrapped, "ada").unwrap().args.iter().map(|arg| arg.expose().to_owned()).collect();
    assert_eq!(args, ["cache", "--env", "PAGER", "--", "aws"]);
}

#[test]
fn json_is_edited_as_json() {
    let json = "{\n \"users\": [\n  {\"name\": \"ada\", \"user\": {\"exec\": {\n   \"command\": \"aws\",\n   \"args\": [\n    \"eks\",\n    \"get-token\"\n   ]}}}]}\n";
    let wrapped = wrap(json, "ada", "credlet", &["--encrypt".to_owned()]).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&wrapped).is_ok(), "{}", *wrapped);
    assert!(wrapped.contains("[\"cache\", \"--encrypt\", \"--\", \"aws\", \n    \"eks\""), "{}", *wrapped);
    let back = unwrap(&wrapped, "ada").unwrap();
    assert_eq!(section(&back, "ada").unwrap().args.len(), 2);
    assert!(serde_json::from_str::<serde_json::Value>(&back).is_ok(), "{}", *back);
}

#[test]
fn windows_line_ends_stay() {
    let text = file("    exec:\n      command: aws\n      args:\n      - eks\n").replace('\n', "\r\n");
    let wrapped = wrap(&text, "ada", "credlet", &[]).unwrap();
    assert_eq!(wrapped.matches('\n').count(), wrapped.matches("\r\n").count());
    assert_eq!(*unwrap(&wrapped, "ada").unwrap(), text);
}

#[test]
fn recognizes_every_cache_form() {
    for (command, args) in [
        ("/opt/bin/credlet", "[cache, --encrypt, --, aws, eks]"),
        ("credlet", "[plugin, cache, --, aws, eks]"),
        ("credlet-cache", "[--, aws, eks]"),
        ("/opt/bin/credlet-cache-aws", "[eks]"),
    ] {
        let text = file(&format!("    exec:\n      command: {command}\n      args: {args}\n"));
        let users = exec_users(&text).unwrap();
        assert_eq!(users, [ExecUser { name: "ada".into(), plugin: "aws".into(), wrapped: true }], "{command}");
        assert!(matches!(wrap(&text, "ada", "credlet", &[]), Err(EditError::Wrapped { .. })), "{command}");
        let back = section(&unwrap(&text, "ada").unwrap(), "ada").unwrap();
        let args: Vec<_> = back.args.iter().map(Secret::expose).collect();
        assert_eq!((&*back.command.value, &*args), ("aws", &["eks"][..]), "{command}");
    }
}

#[test]
fn shared_section_is_not_edited() {
    let shared = "users:\n- name: ada\n  user: &u\n    exec:\n      command: aws\n      args:\n      - eks\n- name: eve\n  user: *u\n";
    assert_eq!(wrap(shared, "ada", "credlet", &[]).unwrap_err(), EditError::Form { line: 5 });
    assert!(matches!(wrap(shared, "eve", "credlet", &[]), Err(EditError::Form { .. })));
}

#[test]
fn wrap_errors_have_reason() {
    let text = file("    exec:\n      command: aws\n");
    assert!(matches!(wrap(&text, "bob", "credlet", &[]), Err(EditError::NoPlugin { .. })));
    assert!(matches!(wrap(&text, "eve", "credlet", &[]), Err(EditError::NoUser { .. })));
    assert!(matches!(unwrap(&text, "ada"), Err(EditError::NotWrapped { .. })));
    let wrapped = wrap(&text, "ada", "/opt/bin/credlet", &[]).unwrap();
    assert!(matches!(wrap(&wrapped, "ada", "credlet", &[]), Err(EditError::Wrapped { .. })));
    assert!(matches!(wrap("users: [", "ada", "credlet", &[]), Err(EditError::Unreadable(_))));
}

#[test]
fn save_creates_backup_and_detects_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    std::fs::write(&path, "old").unwrap();
    assert_eq!(save(&path, "other", "new"), Err(SaveError::Changed));
    assert_eq!(save(&path, "old", "new"), Ok(dir.path().join("config.before-credlet")));
    assert_eq!(save(&path, "new", "newer"), Ok(dir.path().join("config.before-credlet-2")));
    std::fs::write(dir.path().join("config.lock"), "").unwrap();
    assert!(matches!(save(&path, "newer", "x"), Err(SaveError::Locked { .. })));
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(
        (read("config"), read("config.before-credlet"), read("config.before-credlet-2")),
        ("newer".into(), "old".into(), "new".into())
    );
}
