//! Files that are not kubeconfigs: the error has file and line and is returned without delay.

use std::fs;
use std::path::Path;

use credlet_kubeconfig::{ConfigOverrides, LoadingRules};
use credlet_testkit::logs::LeakCheck;

use super::{Files, SERVER, kubeconfig, load};

/// Returns the error without the path.
fn refuse(path: &Path) -> String {
    let rules = LoadingRules::list(vec![path.to_owned()]);
    let error = rules.load(&credlet_platform::FixedEnv::default()).expect_err("not refused").to_string();
    error.strip_prefix(&format!("{} ", path.display())).expect("the file is not named").to_owned()
}

#[test]
fn rejects_directory() {
    assert_eq!(refuse(Files::new().path("").as_path()), "is a directory");
}

#[test]
fn reports_unreadable_file() {
    use std::os::unix::fs::PermissionsExt as _;

    let here = Files::new();
    let path = here.write("config", kubeconfig(SERVER, ""));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    // Root can read every file.
    if fs::read(&path).is_err() {
        assert_eq!(refuse(&path), "cannot be read: permission denied");
    }
    // A file in place of a parent directory is not a missing file.
    let inside = path.join("config");
    assert_eq!(refuse(&inside), "cannot be read: not a directory");
}

#[test]
fn pipe_without_writer_does_not_hang() {
    let here = Files::new();
    let path = here.path("pipe");
    credlet_testkit::make_fifo(&path);
    assert_eq!(refuse(&path), "is a pipe without a writer");
}

#[test]
fn reads_kubeconfig_from_pipe() {
    let here = Files::new();
    let path = here.path("pipe");
    credlet_testkit::make_fifo(&path);
    let writer = std::thread::spawn({
        let path = path.clone();
        move || fs::write(path, kubeconfig(SERVER, "token: t"))
    });
    let found = LoadingRules::list(vec![path]).load(&here.env()).unwrap();
    writer.join().unwrap().unwrap();
    assert_eq!(found.resolve(&ConfigOverrides::default(), &here.env()).unwrap().server.value, "https://h");
}

#[test]
fn null_device_is_empty_kubeconfig() {
    let found = LoadingRules::list(vec!["/dev/null".into()]).load(&credlet_platform::FixedEnv::default()).unwrap();
    assert_eq!(found.contexts().count(), 0);
}

#[test]
fn endless_device_is_read_up_to_the_limit() {
    let rules = LoadingRules::list(vec!["/dev/zero".into()]).max_file_size(1_000_000);
    let error = rules.load(&credlet_platform::FixedEnv::default()).unwrap_err().to_string();
    assert_eq!(error, "/dev/zero is larger than 1 MB");
}

#[test]
fn rejects_50_megabytes() {
    let here = Files::new();
    let path = here.write("config", kubeconfig(SERVER, ""));
    fs::File::options().write(true).open(&path).unwrap().set_len(50_000_000).unwrap();
    assert_eq!(refuse(&path), "is larger than 48 MB");
}

#[test]
fn utf16_requires_valid_bom_text() {
    let here = Files::new();
    let mut bytes = vec![0xff, 0xfe];
    bytes.extend(kubeconfig(SERVER, "token: t").encode_utf16().flat_map(u16::to_le_bytes));
    let path = here.write("config", &bytes);
    LoadingRules::list(vec![path.clone()]).load(&here.env()).unwrap();

    here.write("config", &bytes[..bytes.len() - 1]);
    assert_eq!(
        refuse(&path),
        "is not a valid kubeconfig: invalid UTF-16: odd number of bytes (save the file as UTF-8)"
    );
    here.write("config", &bytes[2..]);
    assert_eq!(
        refuse(&path),
        "is not a valid kubeconfig: unsupported encoding: UTF-16 without a byte order mark (save the file as UTF-8)"
    );
    here.write("config", b"current-context: \xff");
    assert_eq!(refuse(&path), "is not a valid kubeconfig: invalid UTF-8 (byte 17)");
}

#[test]
fn a_yaml_bomb_does_not_go_off() {
    let mut bomb = String::from(
        "users:\n- name: u\n  user:\n    exec:\n      args: &a [x, x, x, x, x, x, x, x, x]\nextensions:\n- name: a0\n  extension: &a0 [*a, *a, *a, *a, *a, *a, *a, *a]\n",
    );
    for level in 1..12 {
        let list = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("- name: a{level}\n  extension: &a{level} [{list}]\n"));
    }
    let here = Files::new();
    assert_eq!(
        refuse(&here.write("config", bomb)),
        "is not a valid kubeconfig: the document exceeds the limits on size and nesting"
    );
}

#[test]
fn syntax_errors_have_line() {
    let here = Files::new();
    for (text, expected) in [
        ("clusters:\n- name: a\n- name: a\n", "duplicate name \"a\" in clusters (lines 2 and 3)"),
        (
            "users:\n- name: u\n  user:\n    token: 0123\n",
            "invalid `users[].user.token`: expected a string (line 4, column 12)",
        ),
        ("contexts:\n- name: 5\n", "invalid `contexts[].name`: expected a string (line 2, column 9)"),
        ("kind: Pod\n", "unexpected `kind`: must be Config (line 1)"),
        ("apiVersion: v2\n", "unsupported `apiVersion`: must be v1 (line 1)"),
        ("- a\n", "not an object (line 1, column 1)"),
        ("a:\n- [\n", "invalid JSON or YAML (line 2, column 3)"),
    ] {
        assert_eq!(refuse(&here.write("config", text)), format!("is not a valid kubeconfig: {expected}"));
    }
}

#[test]
fn errors_never_quote_values() {
    let watch = LeakCheck::new();
    let secret = watch.secret("value");
    let value = secret.expose();
    let here = Files::new();
    for text in [
        format!("users:\n- name: u\n  user:\n    token: [{value}]\n"),
        format!("users:\n- name: u\n  user:\n    token: {value}\n  {value}"),
        format!("users:\n- name: u\n  user: '{value}'\n"),
        format!("users:\n- name: u\n  user: {{exec: '{value}'}}\n"),
        format!("users:\n- name: u\n  user: {{client-key-data: '{value}!'}}\n"),
        format!("users:\n- name: u\n  user: {{exec: {{provideClusterInfo: '{value}'}}}}\n"),
        format!("users: *{value}\n"),
        format!("users: !<{value}> x\n"),
        format!("\"{value}\n"),
        format!("kind: '{value}'\n"),
        format!("apiVersion: '{value}'\n"),
        value.to_owned(),
    ] {
        let path = here.write("config", &text);
        let error = LoadingRules::list(vec![path]).load(&here.env()).expect_err(&text);
        watch.error(&error);
    }
}

#[test]
fn reports_invalid_certificate_by_field_and_line() {
    let here = Files::new();
    here.write("ca.pem", "not a certificate");
    here.write("empty.pem", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n");
    let at = |cluster: &str| {
        let file = here.write("config", kubeconfig(&format!("server: 'https://h', {cluster}"), ""));
        let found = LoadingRules::list(vec![file.clone()]).load(&here.env()).unwrap();
        let error = found.resolve(&ConfigOverrides::default(), &here.env()).unwrap_err().to_string();
        error.strip_prefix(&format!("{}, line 5: cluster \"k\": ", file.display())).unwrap().to_owned()
    };
    assert_eq!(at("certificate-authority: gone.pem"), "invalid `certificate-authority`: the file does not exist");
    assert_eq!(at("certificate-authority: ."), "invalid `certificate-authority`: the file is a directory");
    assert_eq!(at("certificate-authority: ca.pem"), "missing PEM certificate in `certificate-authority`");
    assert_eq!(at("certificate-authority-data: YQ=="), "missing PEM certificate in `certificate-authority-data`");
}

#[test]
fn line_break_in_name_is_escaped() {
    let text = "current-context: \"a\\nb\"\n";
    let error = load(text).resolve(&ConfigOverrides::default(), &credlet_platform::FixedEnv::default()).unwrap_err();
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
}
