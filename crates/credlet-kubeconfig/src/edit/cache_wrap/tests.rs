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
fn edits_lists_with_comments() {
    let exec = "    exec:\n      command: aws\n      args: # none\n      env: null\n";
    let (wrapped, _) = wrap_and_unwrap(exec);
    assert!(wrapped.contains("      args: [\"cache\", \"--\", \"aws\"] # none\n"), "{wrapped}");
    let flow = "    exec:\n      command: credlet\n      args: [\n        cache, # a, b\n        -- # ]\n        , aws # c\n        , eks\n      ]\n";
    let back = unwrap(&file(flow), "ada").unwrap();
    assert_eq!(*back, file("    exec:\n      command: aws\n      args: [eks\n      ]\n"));
    let block = "    exec:\n      command: 'credlet'\n      args:\n      # a\n      - cache\n      # b\n      - -- # c\n      - aws\n      # d\n      - eks\n";
    let back = unwrap(&file(block), "ada").unwrap();
    assert_eq!(
        *back,
        file("    exec:\n      command: 'aws'\n      args:\n      # a\n      # b\n      # d\n      - eks\n")
    );
}

#[test]
fn adds_list_to_last_line_without_line_break() {
    let text = "users:\n- name: ada\n  user:\n    exec:\n      command: aws";
    let wrapped = wrap(text, "ada", "credlet", &[]).unwrap();
    assert_eq!(*wrapped, text.replace("aws", "credlet") + "\n      args: [\"cache\", \"--\", \"aws\"]");
}

#[test]
fn edits_section_behind_alias_of_one_user() {
    let alias = "x: &e\n  command: aws\n  args:\n  - eks\nusers:\n- name: ada\n  user: {exec: *e}\n";
    for text in [alias.to_owned(), alias.replace("*e", "{<<: *e}")] {
        let wrapped = wrap(&text, "ada", "credlet", &[]).unwrap();
        assert_eq!(*unwrap(&wrapped, "ada").unwrap(), text);
        let shared = format!("{text}- name: eve\n  user: {{exec: *e}}\n");
        assert!(matches!(wrap(&shared, "ada", "credlet", &[]), Err(EditError::Form { .. })));
    }
}

#[test]
fn json_with_tabs_and_escapes_is_edited() {
    let json = "{\n\t\"users\":\t[{\"name\": \"\\ud83d\\ude00\", \"user\": {\"exec\": {\"command\": \"\\/bin\\/aws\",\n\t\t\"args\": []}}}]\n}";
    let wrapped = wrap(json, "\u{1f600}", "credlet", &[]).unwrap();
    assert!(wrapped.contains("\n\t\t\"args\": [\"cache\", \"--\", \"/bin/aws\"]"), "{}", *wrapped);
}
