//! Selection of files, and resolution of the paths in them.

use std::path::Path;

use credlet_kubeconfig::{ConfigOverrides, HeaderCredential, Kubeconfig, LoadingRules, ValueOrigin};
use credlet_platform::FixedEnv;
use credlet_testkit::ca::TestCa;

use super::{EXEC, Files, SERVER, in_dir, kubeconfig};

fn files(rules: &LoadingRules) -> Vec<&Path> {
    rules.files().collect()
}

#[test]
fn defaults_to_home_directory() {
    let env = FixedEnv::new([("HOME", "/home/ada"), ("KUBECONFIG", "")]);
    assert_eq!(files(&LoadingRules::from_env(&env)), [Path::new("/home/ada/.kube/config")]);
    assert!(files(&LoadingRules::from_env(&FixedEnv::default())).is_empty());
}

#[test]
fn kubeconfig_variable_is_a_list() {
    let env = FixedEnv::new([("HOME", "/home/ada"), ("KUBECONFIG", "/b::a:/b:./a:")]);
    assert_eq!(files(&LoadingRules::from_env(&env)), ["/b", "a", "./a"].map(Path::new));
    let env = FixedEnv::new([("HOME", "/home/ada"), ("KUBECONFIG", ":")]);
    assert!(files(&LoadingRules::from_env(&env)).is_empty());
}

#[test]
fn explicit_file_must_exist() {
    let here = Files::new();
    let good = here.write("good", kubeconfig(SERVER, "token: t"));
    let env = FixedEnv::new([("KUBECONFIG", &good)]);
    let rules = LoadingRules::from_env(&env).explicit(here.path("missing"));
    let error = rules.load(&env).unwrap_err().to_string();
    assert_eq!(error, format!("{} does not exist", here.path("missing").display()));
    assert_eq!(files(&LoadingRules::from_env(&env).explicit("")), [&good]);
}

#[test]
fn missing_files_are_skipped_and_recorded() {
    let here = Files::new();
    let good = here.write("good", kubeconfig(SERVER, "token: t"));
    let missing = here.path("missing");
    let kubeconfig = LoadingRules::list(vec![missing.clone(), good]).load(&here.env()).unwrap();
    assert_eq!(kubeconfig.missing_files(), [missing]);
    assert_eq!(kubeconfig.resolve(&ConfigOverrides::default(), &here.env()).unwrap().server.value, "https://h");
}

#[test]
fn reports_all_unreadable_files() {
    let here = Files::new();
    let (a, b) = (here.write("a", "clusters: ["), here.write("b", "users:\n- name: 5\n"));
    let error =
        LoadingRules::list(vec![a.clone(), here.path("c"), b.clone()]).load(&here.env()).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{} is not a valid kubeconfig: invalid JSON or YAML (line 1", a.display())),
        "{error}"
    );
    let second = format!(
        "; {} is not a valid kubeconfig: invalid `users[].name`: expected a string (line 2, column 9)",
        b.display()
    );
    assert!(error.ends_with(&second), "{error}");
}

#[test]
fn command_path_is_relative_to_its_file() {
    let here = Files::new();
    let dir = here.path("sub");
    for (command, expected) in [
        ("../relative/client/cmd".to_owned(), here.path("relative/client/cmd").display().to_string()),
        ("./bin/../cmd".to_owned(), dir.join("cmd").display().to_string()),
        ("/absolute/./cmd".to_owned(), "/absolute/./cmd".to_owned()),
        ("cmd".to_owned(), "cmd".to_owned()),
    ] {
        let file = here.write("sub/config", kubeconfig(SERVER, &EXEC.replace("aws", &command)));
        let found = LoadingRules::list(vec![file]).load(&here.env()).unwrap();
        let resolved = found.resolve(&ConfigOverrides::default(), &here.env()).unwrap();
        assert_eq!(resolved.identity.exec.unwrap().config.command, expected);
    }
}

#[test]
fn file_path_may_be_relative() {
    let here = Files::new();
    here.write("sub/config", kubeconfig(SERVER, &EXEC.replace("aws", "./cmd")));
    for file in [here.path("sub/../sub/config"), "sub/config".into(), "./sub/../sub/config".into()] {
        let found = LoadingRules::list(vec![file]).load(&here.env()).unwrap();
        let resolved = found.resolve(&ConfigOverrides::default(), &here.env()).unwrap();
        assert_eq!(resolved.identity.exec.unwrap().config.command, here.path("sub/cmd").display().to_string());
    }
}

#[test]
fn file_paths_are_relative_to_their_file() {
    let here = Files::new();
    let ca = TestCa::new();
    let ada = ca.client("ada").issue();
    here.write("pki/ca.pem", ca.pem());
    here.write("pki/ada.pem", ada.cert_pem());
    here.write("pki/ada.key", ada.key_pem());
    here.write("pki/token", "hunter2\n");
    let user = "client-certificate: ../pki/ada.pem, client-key: ../pki/ada.key, tokenFile: ../pki/token";
    let file = here.write("sub/config", kubeconfig("server: 'https://h', certificate-authority: ../pki/ca.pem", user));
    let found = LoadingRules::list(vec![file]).load(&FixedEnv::default()).unwrap();
    let resolved = found.resolve(&ConfigOverrides::default(), &FixedEnv::default()).unwrap();

    let authority = resolved.tls.certificate_authority.as_ref().unwrap();
    assert_eq!((&*authority.pem, authority.file.as_deref()), (ca.pem().as_bytes(), Some(&*here.path("pki/ca.pem"))));
    let certificate = resolved.identity.certificate.as_ref().unwrap();
    assert_eq!(certificate.certificate.value, ada.cert_pem().as_bytes());
    assert_eq!(certificate.key.expose(), ada.key_pem());
    assert_eq!(certificate.key_file, Some(here.path("pki/ada.key")));
    let Some(HeaderCredential::TokenFile { file, inline: None }) = resolved.identity.header.map(|header| header.value)
    else {
        panic!("no token file");
    };
    assert_eq!((file.path(), file.read().unwrap().expose()), (&*here.path("pki/token"), "hunter2"));
    // The file is read again, not cached.
    here.write("pki/token", " *******\n");
    assert_eq!(file.read().unwrap().expose(), "*******");
}

#[test]
fn from_bytes_resolves_paths_against_current_dir() {
    let here = Files::new();
    here.write("ca.pem", TestCa::new().pem());
    let text = kubeconfig("server: 'https://h', certificate-authority: ca.pem", &EXEC.replace("aws", "./cmd"));
    let env = in_dir(&here.path("."));
    let found = Kubeconfig::from_bytes(text.as_bytes(), &env).unwrap();
    let resolved = found.resolve(&ConfigOverrides::default(), &env).unwrap();
    // Not `cmd`, which would be looked up in PATH.
    assert_eq!(resolved.identity.exec.unwrap().config.command, "./cmd");
    assert_eq!(resolved.tls.certificate_authority.unwrap().origin, ValueOrigin::Text { line: 5 });
}

#[test]
fn loads_20000_contexts() {
    use std::fmt::Write as _;

    let mut text = String::from("apiVersion: v1\nkind: Config\ncurrent-context: c19999\ncontexts:\n");
    for index in 0..20_000 {
        writeln!(text, "- {{name: c{index}, context: {{cluster: k{index}, user: u{index}}}}}").unwrap();
    }
    text.push_str("clusters:\n");
    for index in 0..20_000 {
        writeln!(text, "- {{name: k{index}, cluster: {{server: 'https://h{index}'}}}}").unwrap();
    }
    text.push_str("users:\n");
    for index in 0..20_000 {
        writeln!(text, "- name: u{index}\n  user: {{{EXEC}}}").unwrap();
    }
    let here = Files::new();
    let kubeconfig = LoadingRules::list(vec![here.write("config", text)]).load(&here.env()).unwrap();
    assert_eq!(kubeconfig.contexts().count(), 20_000);
    let resolved = kubeconfig.resolve(&ConfigOverrides::default(), &here.env()).unwrap();
    assert_eq!(resolved.server.value, "https://h19999");
    assert!(resolved.identity.exec_in_use().is_some());
}
