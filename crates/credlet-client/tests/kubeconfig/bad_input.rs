//! Whatever lies where a kubeconfig should be: a clear error with file and line, at once.

use std::fs;
use std::path::Path;

use credlet_client::kubeconfig::{LoadingRules, Overrides};
use credlet_testkit::logs::Watch;

use super::{Files, SERVER, kubeconfig, load};

/// The error, without the path in front of it.
fn refuse(path: &Path) -> String {
    let rules = LoadingRules::list(vec![path.to_owned()]);
    let error = rules.load(&credlet_core::FixedEnv::default()).expect_err("not refused").to_string();
    error.strip_prefix(&format!("{} ", path.display())).expect("the file is not named").to_owned()
}

#[test]
fn a_directory_is_no_kubeconfig() {
    assert_eq!(refuse(Files::new().path("").as_path()), "is a directory");
}

#[test]
fn a_file_that_may_not_be_read_says_so() {
    use std::os::unix::fs::PermissionsExt as _;

    let here = Files::new();
    let path = here.write("config", kubeconfig(SERVER, ""));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    // The superuser reads everything.
    if fs::read(&path).is_err() {
        assert_eq!(refuse(&path), "may not be read by this user");
    }
    // A file in the place of a directory is not the same as a missing file.
    let inside = path.join("config");
    assert_eq!(refuse(&inside), "cannot be read: not a directory");
}

#[test]
fn a_pipe_into_which_nobody_writes_does_not_hang() {
    let here = Files::new();
    let path = here.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(refuse(&path), "is a pipe into which nobody writes");
}

#[test]
fn a_pipe_with_a_kubeconfig_in_it_works_as_with_kubectl() {
    let here = Files::new();
    let path = here.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let writer = std::thread::spawn({
        let path = path.clone();
        move || fs::write(path, kubeconfig(SERVER, "token: t"))
    });
    let found = LoadingRules::list(vec![path]).load(&here.env()).unwrap();
    writer.join().unwrap().unwrap();
    assert_eq!(found.resolve(&Overrides::default(), &here.env()).unwrap().server.value, "https://h");
}

#[test]
fn the_null_device_is_an_empty_kubeconfig() {
    let found = LoadingRules::list(vec!["/dev/null".into()]).load(&credlet_core::FixedEnv::default()).unwrap();
    assert_eq!(found.contexts().count(), 0);
}

#[test]
fn a_device_without_end_is_left_at_the_limit() {
    let rules = LoadingRules::list(vec!["/dev/zero".into()]).max_file_size(1_000_000);
    let error = rules.load(&credlet_core::FixedEnv::default()).unwrap_err().to_string();
    assert_eq!(error, "/dev/zero is larger than 1 MB");
}

#[test]
fn fifty_megabytes_are_too_many() {
    let here = Files::new();
    let path = here.write("config", kubeconfig(SERVER, ""));
    fs::File::options().write(true).open(&path).unwrap().set_len(50_000_000).unwrap();
    assert_eq!(refuse(&path), "is larger than 48 MB");
}

#[test]
fn utf16_works_with_a_mark_and_is_refused_when_broken() {
    let here = Files::new();
    let mut bytes = vec![0xff, 0xfe];
    bytes.extend(kubeconfig(SERVER, "token: t").encode_utf16().flat_map(u16::to_le_bytes));
    let path = here.write("config", &bytes);
    LoadingRules::list(vec![path.clone()]).load(&here.env()).unwrap();

    here.write("config", &bytes[..bytes.len() - 1]);
    assert_eq!(refuse(&path), "is UTF-16 text of an odd length, so its end is missing: save it as UTF-8");
    here.write("config", &bytes[2..]);
    assert_eq!(refuse(&path), "looks like UTF-16 text without a byte order mark: save it as UTF-8");
    here.write("config", b"current-context: \xff");
    assert_eq!(refuse(&path), "is not UTF-8 text (byte 17)");
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
    assert_eq!(refuse(&here.write("config", bomb)), "is larger or deeper than any honest document");
}

#[test]
fn mistakes_in_the_text_are_named_with_their_line() {
    let here = Files::new();
    for (text, expected) in [
        ("clusters:\n- name: a\n- name: a\n", "has two entries named \"a\" in one list of clusters (lines 2 and 3)"),
        (
            "users:\n- name: u\n  user:\n    token: 0123\n",
            "has a `users[].user.token` that is not a string (line 4, column 12)",
        ),
        ("contexts:\n- name: 5\n", "has a `contexts[].name` that is not a string (line 2, column 9)"),
        ("kind: Pod\n", "has a `kind` other than Config (line 1)"),
        ("apiVersion: v2\n", "has an `apiVersion` other than v1 (line 1)"),
        ("- a\n", "is not an object (line 1, column 1)"),
        ("a:\n- [\n", "is neither JSON nor YAML (line 2, column 3)"),
    ] {
        assert_eq!(refuse(&here.write("config", text)), expected);
    }
}

#[test]
fn no_value_is_quoted_whatever_is_wrong_with_it() {
    let watch = Watch::new();
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
fn certificates_that_are_missing_or_none_are_named_by_field_and_line() {
    let here = Files::new();
    here.write("ca.pem", "not a certificate");
    here.write("empty.pem", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n");
    let at = |cluster: &str| {
        let file = here.write("config", kubeconfig(&format!("server: 'https://h', {cluster}"), ""));
        let found = LoadingRules::list(vec![file.clone()]).load(&here.env()).unwrap();
        let error = found.resolve(&Overrides::default(), &here.env()).unwrap_err().to_string();
        error.strip_prefix(&format!("{}, line 5: cluster \"k\": ", file.display())).unwrap().to_owned()
    };
    assert_eq!(at("certificate-authority: gone.pem"), "the file in `certificate-authority` does not exist");
    assert_eq!(at("certificate-authority: ."), "the file in `certificate-authority` is a directory");
    assert_eq!(at("certificate-authority: ca.pem"), "`certificate-authority` holds no certificate in PEM form");
    assert_eq!(at("certificate-authority-data: YQ=="), "`certificate-authority-data` holds no certificate in PEM form");
}

#[test]
fn a_name_with_a_line_break_stays_on_one_line() {
    let text = "current-context: \"a\\nb\"\n";
    let error = load(text).resolve(&Overrides::default(), &credlet_core::FixedEnv::default()).unwrap_err();
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
}
