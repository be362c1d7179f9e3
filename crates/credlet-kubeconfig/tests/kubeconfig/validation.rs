//! Validation: all problems at once, and only those of the entries in use.

use credlet_kubeconfig::{ConfigOverrides, ConfigProblem, KubeconfigError, LoadingRules};

use super::{EXEC, Files, SERVER, kubeconfig, load, refuse, resolve, resolve_with};

/// The problems of this user.
fn user(user: &str) -> String {
    refuse(&kubeconfig(SERVER, user)).replace("kubeconfig, line 8: user \"u\": ", "")
}

/// The problems of this cluster.
fn cluster(cluster: &str) -> String {
    let error = refuse(&kubeconfig(cluster, ""));
    // Missing fields are reported at the beginning of the cluster.
    error.replace("kubeconfig, line 5: cluster \"k\": ", "").replace("kubeconfig, line 4: cluster \"k\": ", "")
}

#[test]
fn exec_conflicts_with_auth_provider() {
    let both = format!("{EXEC}, auth-provider: {{name: oidc}}");
    assert_eq!(user(&both), "`exec` conflicts with `auth-provider`: keep one");
}

#[test]
fn exec_needs_a_command() {
    assert_eq!(user(&EXEC.replace("aws", "''")), "invalid `exec`: `command` is empty");
}

#[test]
fn exec_requires_supported_version() {
    assert_eq!(user("exec: {command: aws, interactiveMode: Never}"), "`exec.apiVersion` is empty");
    let unknown = "unsupported `exec.apiVersion`: must be client.authentication.k8s.io/v1, …/v1beta1 or …/v1alpha1";
    assert_eq!(user(&EXEC.replace("io/v1", "io/v2")), unknown);
}

#[test]
fn env_variable_requires_a_name() {
    let exec = EXEC.replace("command: aws", "command: aws, env: [{value: a}, {name: A}, {name: '', value: ''}]");
    assert_eq!(user(&exec), "invalid `exec`: `env[0].name` is empty; invalid `exec`: `env[2].name` is empty");
    let exec = EXEC.replace("command: aws", "command: aws, env: [{name: 'A=B', value: ''}]");
    assert_eq!(resolve(&kubeconfig(SERVER, &exec)).identity.exec.unwrap().config.env.len(), 1);
}

#[test]
fn v1_requires_interactive_mode() {
    let missing = "`exec.interactiveMode` is empty: with v1 it must be Never, IfAvailable or Always";
    assert_eq!(user(&EXEC.replace(", interactiveMode: Never", "")), missing);
    assert_eq!(user(&EXEC.replace("Never", "''")), missing);
    let invalid = "invalid `exec`: invalid `interactiveMode`: must be Never, IfAvailable or Always (case-sensitive)";
    assert_eq!(user(&EXEC.replace("Never", "never")), invalid);
}

#[test]
fn token_conflicts_with_basic_auth() {
    let both = "the token conflicts with username or password: keep one";
    assert_eq!(user("token: t, username: a"), both);
    assert_eq!(user("token: t, password: a"), both);
    assert!(user("tokenFile: /not/there, username: a").starts_with(both));
    for fine in ["token: t", "username: a, password: b"] {
        resolve(&kubeconfig(SERVER, &format!("{fine}, {EXEC}")));
    }
}

#[test]
fn token_must_be_a_valid_header() {
    assert_eq!(user(r#"token: "a\n""#), "invalid `token`: contains a line break or another control character");
}

#[test]
fn certificate_requires_one_key() {
    assert_eq!(
        user("client-certificate-data: YQ=="),
        "missing `client-key-data` or `client-key` for the client certificate; \
         missing PEM certificate in `client-certificate-data`"
    );
    let both = "client-certificate-data: YQ==, client-certificate: /x, client-key-data: YQ==, client-key: /x";
    let said = user(both);
    assert!(said.contains("`client-certificate-data` conflicts with `client-certificate`: keep one"), "{said}");
    assert!(said.contains("`client-key-data` conflicts with `client-key`: keep one"), "{said}");
    let missing = user("client-certificate: /not/there, client-key: /not/there");
    assert_eq!(
        missing,
        "invalid `client-certificate`: the file does not exist; invalid `client-key`: the file does not exist"
    );
}

#[test]
fn impersonated_groups_require_user() {
    for field in ["as-uid: '1'", "as-groups: [g]", "as-user-extra: {a: [b]}"] {
        assert_eq!(user(field), "missing `as`: required by `as-uid`, `as-groups` and `as-user-extra`");
        assert!(resolve(&kubeconfig(SERVER, &format!("as: eve, {field}"))).impersonation.is_some());
    }
}

#[test]
fn cluster_requires_a_valid_server() {
    assert_eq!(cluster(""), "`server` is missing");
    assert_eq!(cluster("server: ''"), "`server` is missing");
    assert_eq!(cluster("server: 'ftp://h'"), "unsupported scheme in `server`: must be https or http");
    assert_eq!(cluster("server: 'https://'"), "`server` is not an address like https://host:port/path");
    let proxy = "unsupported scheme in `proxy-url`: must be http, https or socks5";
    assert_eq!(cluster("server: 'https://h', proxy-url: 'ftp://p:1'"), proxy);
}

#[test]
fn rejects_conflicting_trust_settings() {
    let said = cluster("server: 'https://h', certificate-authority: /not/there, certificate-authority-data: YQ==");
    assert_eq!(
        said,
        "`certificate-authority-data` conflicts with `certificate-authority`: keep one; \
         missing PEM certificate in `certificate-authority-data`"
    );
    let said = cluster("server: 'https://h', certificate-authority: /not/there, insecure-skip-tls-verify: true");
    assert_eq!(
        said,
        "`insecure-skip-tls-verify` conflicts with the certificate authority: keep one; \
         invalid `certificate-authority`: the file does not exist"
    );
}

#[test]
fn reports_all_problems_at_once() {
    let text = kubeconfig("proxy-url: 'ftp://p'", "token: t, username: u, exec: {}");
    let Err(KubeconfigError::Invalid { errors }) = resolve_with(&text, &ConfigOverrides::default()) else {
        panic!("not refused")
    };
    assert_eq!(errors.len(), 6, "{errors:?}");
}

#[test]
fn resolve_ignores_unused_entries() {
    let text = format!(
        "{}- name: other\n  user: {{exec: {{}}}}\n",
        kubeconfig(SERVER, EXEC).replace(
            "contexts: [",
            "contexts: [{name: '', context: {namespace: Nope}}, {name: d, context: {cluster: x, user: x}}, "
        )
    );
    resolve(&text);
    let problems: Vec<ConfigProblem> = load(&text).check().into_iter().map(|mistake| mistake.problem).collect();
    assert_eq!(problems.len(), 9, "{problems:?}");
    for expected in [
        ConfigProblem::NoName,
        ConfigProblem::NoCluster,
        ConfigProblem::NoUser,
        ConfigProblem::NoSuchCluster { name: "x".to_owned() },
        ConfigProblem::NoSuchUser { name: "x".to_owned() },
        ConfigProblem::NoApiVersion,
        ConfigProblem::NoInteractiveMode,
    ] {
        assert!(problems.contains(&expected), "{expected:?}");
    }
}

#[test]
fn check_covers_overridden_entries() {
    let here = Files::new();
    let good = here.write("good", kubeconfig(SERVER, EXEC));
    let hidden = here.write("hidden", kubeconfig("server: h", EXEC));
    let found = LoadingRules::list(vec![good, hidden.clone()]).load(&here.env()).unwrap();
    found.resolve(&ConfigOverrides::default(), &here.env()).unwrap();
    let errors = found.check();
    assert_eq!(errors.len(), 1);
    let expected = "cluster \"k\": missing scheme in `server`: must be https or http";
    assert_eq!(errors[0].to_string(), format!("{}, line 5: {expected}", hidden.display()));
    assert!(load(&kubeconfig(SERVER, EXEC)).check().is_empty());
    assert_eq!(load("current-context: x").check()[0].problem, ConfigProblem::NoSuchContext);
}

#[test]
fn namespace_must_be_a_dns_label() {
    let problems = |name: &str| {
        load(&kubeconfig(SERVER, EXEC).replace("user: u}", &format!("user: u, namespace: {name}}}"))).check()
    };
    assert!(problems("kube-system").is_empty());
    for bad in ["Kube", "-a", "a-", "a.b", "a_b", &"a".repeat(64)] {
        assert_eq!(problems(bad)[0].problem, ConfigProblem::Namespace, "{bad}");
    }
}

#[test]
fn names_are_escaped_in_messages() {
    let text = kubeconfig("", "").replace("name: k", r#"name: "k\e[2J""#).replace("cluster: k", r#"cluster: "k\e[2J""#);
    assert_eq!(refuse(&text), "kubeconfig, line 4: cluster \"kU+001B[2J\": `server` is missing");
}
