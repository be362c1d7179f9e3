use super::*;
use crate::DocumentError;

fn decode(text: &str) -> KubeconfigFile {
    KubeconfigFile::decode(text.as_bytes()).unwrap_or_else(|error| panic!("the file {error}\n{text}"))
}

fn refuse(text: &str) -> KubeconfigDecodeError {
    KubeconfigFile::decode(text.as_bytes()).expect_err(text)
}

fn user(yaml: &str) -> AuthInfo {
    decode(&format!("users:\n- name: u\n  user:\n    {yaml}\n")).users[0].item.clone()
}

#[test]
fn empty_file_is_empty_config() {
    for text in ["", "\n \n", "# nothing yet\n", "null", "{}", "---\n", "\u{feff}", "clusters:\nusers: null\n"] {
        assert_eq!(decode(text), KubeconfigFile::default(), "{text:?}");
    }
}

#[test]
fn decodes_every_field_with_its_line() {
    let config = decode(include_str!("full.yaml"));
    assert_eq!((&*config.current_context.value, config.current_context.line), ("c", 3));
    assert!(config.preferences.colors.value);

    let cluster = &config.clusters[0];
    assert_eq!((&*cluster.name, cluster.line), ("k", 9));
    let cluster = &cluster.item;
    assert_eq!((cluster.server.expose(), cluster.server.line), ("https://127.0.0.1:6443", 11));
    assert_eq!((&*cluster.tls_server_name.value, cluster.tls_server_name.line), ("api", 12));
    assert_eq!((cluster.insecure_skip_tls_verify.value, cluster.insecure_skip_tls_verify.line), (true, 13));
    assert_eq!((&*cluster.certificate_authority.value, cluster.certificate_authority.line), ("ca.pem", 14));
    assert_eq!(
        (cluster.certificate_authority_data.expose(), cluster.certificate_authority_data.line),
        (&b"ca"[..], 15)
    );
    assert_eq!((cluster.proxy_url.expose(), cluster.proxy_url.line), ("socks5://p:1", 16));
    assert_eq!((cluster.disable_compression.value, cluster.disable_compression.line), (true, 17));
    let extension = &cluster.extensions[0];
    assert_eq!((&*extension.name, extension.line), (EXEC_EXTENSION, 19));
    // Keys sorted at every level, and one kind of number.
    assert_eq!(extension.item.as_ref().unwrap().as_json(), r#"{"audience":"AAA","nested":{"a":1,"b":2},"z":1}"#);

    let context = &config.contexts[0].item;
    assert_eq!((&*context.cluster.value, &*context.user.value, &*context.namespace.value), ("k", "u", "ns"));
    assert_eq!(context.namespace.line, 23);

    let user = &config.users[0].item;
    assert_eq!((&*user.client_certificate.value, user.client_certificate.line), ("c.pem", 27));
    assert_eq!((user.client_certificate_data.expose(), user.client_certificate_data.line), (&b"cert"[..], 28));
    assert_eq!((&*user.client_key.value, user.client_key.line), ("k.pem", 29));
    assert_eq!((user.client_key_data.expose(), user.client_key_data.line), (&b"key"[..], 30));
    assert_eq!((user.token.expose(), user.token.line), ("t", 31));
    assert_eq!((&*user.token_file.value, user.token_file.line), ("tok", 32));
    assert_eq!((&*user.impersonate.value, &*user.impersonate_uid.value), ("eve", "7"));
    assert_eq!(
        (&*user.impersonate_groups.value, user.impersonate_groups.line),
        (&["a".to_owned(), "b".to_owned()][..], 35)
    );
    assert_eq!(user.impersonate_user_extra["reason"], ["x"]);
    assert_eq!((&*user.username.value, user.password.expose()), ("ada", "p"));
    let provider = user.auth_provider.as_ref().unwrap();
    assert_eq!((&*provider.name.value, provider.line, provider.name.line), ("oidc", 39, 40));
    assert_eq!(provider.config["id-token"].expose(), "x");
    let exec = user.exec.as_ref().unwrap();
    assert_eq!((&*exec.command.value, exec.line, exec.command.line), ("aws", 42, 43));
    assert_eq!(exec.args.iter().map(Secret::expose).collect::<Vec<_>>(), ["a", ""]);
    assert_eq!((&*exec.env[0].name.value, exec.env[0].value.expose(), exec.env[0].name.line), ("A", "b", 45));
    assert_eq!(&*exec.api_version.value, "client.authentication.k8s.io/v1");
    assert_eq!((&*exec.install_hint.value, exec.provide_cluster_info.value), ("buy it", true));
    assert_eq!(&*exec.interactive_mode.value, "Never");
}

#[test]
fn decodes_json_with_lines() {
    let config =
        decode("{\n\t\"users\": [\n\t\t{\"name\": \"u\",\n\t\t\"user\": {\"token\": \"\\ud83d\\ude00\"}}\n\t]\n}\n");
    let token = &config.users[0].item.token;
    assert_eq!((token.expose(), token.line), ("😀", 4));
}

#[test]
fn null_counts_as_absent() {
    let config = decode(
        "kind: null\napiVersion: ~\ncurrent-context: null\npreferences: null\nextensions: null\n\
         clusters: [{name: k, cluster: null}]\ncontexts: [{name: c, context: null}]\n\
         users: [{name: u, user: {exec: null, auth-provider: null, token: null, as-groups: null, as-user-extra: null}}]",
    );
    assert_eq!(config.clusters[0].item, ClusterSection::default());
    assert_eq!(config.contexts[0].item, ContextSection::default());
    assert!(config.users[0].item.exec.is_none());
    let exec = user("exec: {args: null, env: null, provideClusterInfo: null}").exec.unwrap();
    assert!(exec.args.is_empty() && exec.env.is_empty() && !exec.provide_cluster_info.value);
}

#[test]
fn ignores_unknown_fields() {
    let exec = user("exec: {command: x, INTERACTIVEMODE: Never, futureField: {a: [1]}}").exec.unwrap();
    assert_eq!(&*exec.interactive_mode.value, "");
}

#[test]
fn last_of_equal_keys_wins() {
    assert_eq!(user("token: a\n    token: b").token.expose(), "b");
    assert_eq!(user("token: a\n    token: null").token.expose(), "");
    let exec = user("exec: {command: a, args: [x]}\n    exec: {command: b}").exec.unwrap();
    assert_eq!((&*exec.command.value, exec.args.len()), ("b", 0));
    assert_eq!(decode("users: [{name: a}]\nusers: [{name: b}]\n").users.len(), 1);
}

#[test]
fn merge_key_keeps_lines_of_definition() {
    let config = decode(
        "clusters:\n- name: base\n  cluster: &a\n    server: https://a\n    tls-server-name: x\n\
         - name: k\n  cluster:\n    <<: *a\n    server: https://b\n",
    );
    let cluster = &config.clusters[1].item;
    assert_eq!((cluster.server.expose(), cluster.server.line), ("https://b", 9));
    assert_eq!((&*cluster.tls_server_name.value, cluster.tls_server_name.line), ("x", 5));
}

#[test]
fn decodes_first_document_only() {
    let config = decode("---\ncurrent-context: a\n---\ncurrent-context: b\nclusters: 5\n");
    assert_eq!(&*config.current_context.value, "a");
}

#[test]
fn rejects_other_kind_and_version() {
    assert_eq!(refuse("kind: Foo"), KubeconfigDecodeError::UnexpectedKind { line: 1 });
    assert_eq!(refuse("kind: Config\napiVersion: v2"), KubeconfigDecodeError::UnsupportedVersion { line: 2 });
    assert_eq!(refuse("apiVersion: client.config/v1"), KubeconfigDecodeError::UnsupportedVersion { line: 1 });
    decode("kind: Config\napiVersion: v1");
}

#[test]
fn type_errors_have_field_and_line_but_no_value() {
    for (yaml, field) in [
        ("clusters:\n- name: 81188118", "clusters[].name"),
        ("users:\n- {user: {token: 081188118}}", "users[].user.token"),
        ("users:\n- {user: {token: 811881.18}}", "users[].user.token"),
        ("users:\n- {user: {tokenFile: yes}}", "users[].user.tokenFile"),
        ("contexts:\n- {context: {namespace: 81188118}}", "contexts[].context.namespace"),
        ("users:\n- {user: {exec: '81188118'}}", "users[].user.exec"),
        ("users:\n- {user: {exec: {args: '81188118'}}}", "users[].user.exec.args"),
        ("users:\n- {user: {exec: {args: [81188118]}}}", "users[].user.exec.args"),
        ("users:\n- {user: {exec: {provideClusterInfo: '81188118'}}}", "users[].user.exec.provideClusterInfo"),
        ("users:\n- {user: {exec: {env: [{name: A, value: 81188118}]}}}", "users[].user.exec.env[].value"),
        ("users:\n- {user: {exec: {env: '81188118'}}}", "users[].user.exec.env"),
        ("users:\n- {user: {auth-provider: {config: {a: 81188118}}}}", "users[].user.auth-provider.config"),
        ("users:\n- {user: {auth-provider: {config: [81188118]}}}", "users[].user.auth-provider.config"),
        ("users:\n- {user: {as-user-extra: {a: '81188118'}}}", "users[].user.as-user-extra"),
        ("users:\n- {user: {as-user-extra: {a: [81188118]}}}", "users[].user.as-user-extra"),
        ("users:\n- {user: {as-groups: {a: 81188118}}}", "users[].user.as-groups"),
        ("users:\n- {user: {client-key-data: 81188118}}", "users[].user.client-key-data"),
        ("users:\n- {user: {client-key-data: '811 88118'}}", "users[].user.client-key-data"),
        ("users:\n- {user: {client-key-data: '81188118A'}}", "users[].user.client-key-data"),
        ("users:\n- 81188118", "users"),
        ("kind: Config\nusers: 81188118", "users"),
        ("kind: Config\nusers: {a: 81188118}", "users"),
        ("kind: Config\ncurrent-context: 81188118\nusers:\n- name: a", "current-context"),
    ] {
        let error = refuse(yaml);
        assert!(
            matches!(error, KubeconfigDecodeError::InvalidDocument(DocumentError::InvalidType { field: found, .. }) if found == field),
            "{yaml}: {error:?}"
        );
        assert_eq!(error.line(), Some(2), "{yaml}: {error}");
        assert!(!format!("{error} {error:?}").contains("81188118"), "{error:?}");
    }
    // The line is right in files that are written as people write them, too.
    let exec =
        "users:\n- name: a\n- name: u\n  user:\n    exec:\n      command: a\n      args:\n      - a\n      - 5\n";
    assert_eq!(refuse(exec).line(), Some(9));
    let token = "users:\n- name: a\n- name: u\n  user:\n    as: x\n    token: 5\n    username: x\n";
    assert_eq!(refuse(token).line(), Some(6));
    let exec = "users:\n- name: a\n- name: u\n  user:\n    as: x\n    exec: x\n    username: x\n";
    assert_eq!(refuse(exec).line(), Some(6));
    assert!(matches!(refuse("[1]"), KubeconfigDecodeError::InvalidDocument(DocumentError::NotAnObject { .. })));
    assert!(matches!(refuse("hunter2"), KubeconfigDecodeError::InvalidDocument(DocumentError::NotAnObject { .. })));
    assert!(matches!(refuse("clusters: ["), KubeconfigDecodeError::InvalidDocument(DocumentError::Syntax { .. })));
}

#[test]
fn base64_may_have_line_breaks() {
    let user = user("client-key-data: |\n      a2\n      V5\n    client-certificate-data: \"\"");
    assert_eq!(user.client_key_data.expose(), b"key");
    assert!(user.client_certificate_data.is_empty());
}

#[test]
fn rejects_duplicate_names() {
    for (list, yaml) in [
        ("clusters", "clusters:\n- name: a\n- name: b\n- name: a\n"),
        ("users", "users:\n- name: a\n- name: b\n- name: a\n"),
        ("contexts", "contexts:\n- name: a\n- name: b\n- name: a\n"),
        ("extensions", "extensions:\n- {name: a, extension: 1}\n- name: b\n- name: a\n"),
        ("extensions", "users:\n- user: {extensions: [{name: a, extension: {}},\n  {name: b},\n  {name: a}]}\n"),
    ] {
        let error = refuse(yaml);
        let expected = KubeconfigDecodeError::DuplicateName { list, name: "a".to_owned(), first: 2, line: 4 };
        assert_eq!(error, expected);
    }
    // Another list is another matter.
    decode("clusters: [{name: a}]\nusers: [{name: a}]\n");
    // An empty extension is as good as none.
    decode("extensions: [{name: a}, {name: a, extension: null}, {name: a, extension: 1}]\n");
}

#[test]
fn decodes_utf16_with_byte_order_mark() {
    let text = "current-context: é\n";
    for (mark, unit) in [([0xff, 0xfe], u16::to_le_bytes as fn(u16) -> [u8; 2]), ([0xfe, 0xff], u16::to_be_bytes)] {
        let mut bytes = mark.to_vec();
        bytes.extend(text.encode_utf16().flat_map(unit));
        assert_eq!(&*KubeconfigFile::decode(&bytes).unwrap().current_context.value, "é");

        bytes.push(b'x');
        assert_eq!(KubeconfigFile::decode(&bytes), Err(KubeconfigDecodeError::TruncatedUtf16));
        bytes.pop();
        bytes.extend(unit(0xd800));
        assert_eq!(KubeconfigFile::decode(&bytes), Err(KubeconfigDecodeError::InvalidUtf16 { line: 2 }));

        assert_eq!(KubeconfigFile::decode(&bytes[2..]), Err(KubeconfigDecodeError::MissingByteOrderMark));
    }
    assert_eq!(KubeconfigFile::decode(&[0xff, 0xfe]), Ok(KubeconfigFile::default()));
    assert_eq!(KubeconfigFile::decode(&[0xff, 0xfe, 0]), Err(KubeconfigDecodeError::TruncatedUtf16));
}

#[test]
fn rejects_invalid_utf8() {
    assert_eq!(
        KubeconfigFile::decode(b"ab\xff"),
        Err(KubeconfigDecodeError::InvalidDocument(DocumentError::NotUtf8 { byte: 2 }))
    );
    assert!(KubeconfigFile::decode(&[0; 4096]).is_err());
    assert_eq!(&*KubeconfigFile::decode(b"\xef\xbb\xbfcurrent-context: a").unwrap().current_context.value, "a");
}

#[test]
fn rejects_alias_bombs() {
    let mut bomb = String::from("extensions:\n- name: x\n  extension:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let list = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("    a{level}: &a{level} [{list}]\n"));
    }
    assert_eq!(refuse(&bomb), KubeconfigDecodeError::InvalidDocument(DocumentError::TooComplex));

    let deep = format!("extensions: [{{name: x, extension: {}1{}}}]", "[".repeat(5000), "]".repeat(5000));
    assert!(KubeconfigFile::decode(deep.as_bytes()).is_err());
}

#[test]
fn accepts_many_merges_of_one_anchor() {
    let mut honest = String::from("users:\n- name: base\n  user: &b {exec: {command: aws, args: [a, b, c]}, as: x}\n");
    for index in 0..5_000 {
        honest.push_str(&format!("- name: u{index}\n  user:\n    <<: *b\n"));
    }
    assert_eq!(decode(&honest).users.len(), 5_001);
}

#[test]
fn debug_hides_secrets() {
    let config = decode(
        "clusters: [{name: k, cluster: {server: 'https://u:hunter2@h', proxy-url: 'http://u:hunter2@p', \
         extensions: [{name: e, extension: hunter2}]}}]\n\
         users: [{name: u, user: {token: hunter2, password: hunter2, client-key-data: aHVudGVyMg==, \
         auth-provider: {name: oidc, config: {a: hunter2}}, \
         exec: {command: x, args: [hunter2], env: [{name: A, value: hunter2}]}}}]",
    );
    let shown = format!("{config:?} {config:#?}");
    assert!(!shown.contains("hunter2") && !shown.contains("104, 117, 110"), "{shown}");
}
