//! Rules 18 to 26: what is wrong, all of it at once, and only in what is used.

use credlet_client::kubeconfig::{KubeconfigError, LoadingRules, Overrides, Problem};

use super::{EXEC, Files, SERVER, kubeconfig, load, refuse, resolve, resolve_with};

/// The mistakes in this user.
fn user(user: &str) -> String {
    refuse(&kubeconfig(SERVER, user)).replace("kubeconfig, line 8: user \"u\": ", "")
}

/// The mistakes in this cluster.
fn cluster(cluster: &str) -> String {
    let error = refuse(&kubeconfig(cluster, ""));
    // What is missing is missed where the cluster begins.
    error.replace("kubeconfig, line 5: cluster \"k\": ", "").replace("kubeconfig, line 4: cluster \"k\": ", "")
}

#[test]
fn exec_and_auth_provider_exclude_each_other() {
    let both = format!("{EXEC}, auth-provider: {{name: oidc}}");
    assert_eq!(user(&both), "`exec` and `auth-provider` exclude each other: keep one");
}

#[test]
fn exec_needs_a_command() {
    assert_eq!(user(&EXEC.replace("aws", "''")), "in `exec`, `command` is empty");
}

#[test]
fn exec_needs_a_version_that_somebody_speaks() {
    assert_eq!(user("exec: {command: aws, interactiveMode: Never}"), "`exec.apiVersion` is empty");
    let unknown = "`exec.apiVersion` is none of client.authentication.k8s.io/v1, …/v1beta1 and …/v1alpha1";
    assert_eq!(user(&EXEC.replace("io/v1", "io/v2")), unknown);
}

#[test]
fn every_variable_needs_a_name_and_no_value() {
    let exec = EXEC.replace("command: aws", "command: aws, env: [{value: a}, {name: A}, {name: '', value: ''}]");
    assert_eq!(user(&exec), "in `exec`, `env[0].name` is empty; in `exec`, `env[2].name` is empty");
    let exec = EXEC.replace("command: aws", "command: aws, env: [{name: 'A=B', value: ''}]");
    assert_eq!(resolve(&kubeconfig(SERVER, &exec)).identity.exec.unwrap().config.env.len(), 1);
}

#[test]
fn v1_needs_an_interactive_mode_and_its_case_matters() {
    let missing = "`exec.interactiveMode` is empty: with v1 it must be Never, IfAvailable or Always";
    assert_eq!(user(&EXEC.replace(", interactiveMode: Never", "")), missing);
    assert_eq!(user(&EXEC.replace("Never", "''")), missing);
    let invalid = "in `exec`, `interactiveMode` is none of Never, IfAvailable and Always (the case matters)";
    assert_eq!(user(&EXEC.replace("Never", "never")), invalid);
}

#[test]
fn only_a_token_and_a_name_or_password_are_more_than_one_method() {
    let both = "a token and a username or password exclude each other: keep one";
    assert_eq!(user("token: t, username: a"), both);
    assert_eq!(user("token: t, password: a"), both);
    assert!(user("tokenFile: /not/there, username: a").starts_with(both));
    for fine in ["token: t", "username: a, password: b"] {
        resolve(&kubeconfig(SERVER, &format!("{fine}, {EXEC}")));
    }
}

#[test]
fn a_token_must_fit_into_a_header() {
    assert_eq!(user(r#"token: "a\n""#), "`token` holds a line break or another control character");
}

#[test]
fn a_certificate_needs_a_key_and_each_of_them_one_source() {
    assert_eq!(
        user("client-certificate-data: YQ=="),
        "a client certificate needs `client-key-data` or `client-key`; \
         `client-certificate-data` holds no certificate in PEM form"
    );
    let both = "client-certificate-data: YQ==, client-certificate: /x, client-key-data: YQ==, client-key: /x";
    let said = user(both);
    assert!(said.contains("`client-certificate-data` and `client-certificate` are both set: keep one"), "{said}");
    assert!(said.contains("`client-key-data` and `client-key` are both set: keep one"), "{said}");
    let missing = user("client-certificate: /not/there, client-key: /not/there");
    assert_eq!(missing, "the file in `client-certificate` does not exist; the file in `client-key` does not exist");
}

#[test]
fn groups_need_a_user_to_act_as() {
    for field in ["as-uid: '1'", "as-groups: [g]", "as-user-extra: {a: [b]}"] {
        assert_eq!(user(field), "`as-uid`, `as-groups` and `as-user-extra` need `as`");
        assert!(resolve(&kubeconfig(SERVER, &format!("as: eve, {field}"))).impersonation.is_some());
    }
}

#[test]
fn a_cluster_needs_a_server_it_can_reach() {
    assert_eq!(cluster(""), "`server` is missing");
    assert_eq!(cluster("server: ''"), "`server` is missing");
    assert_eq!(cluster("server: 'ftp://h'"), "`server` has a scheme other than https and http");
    assert_eq!(cluster("server: 'https://'"), "`server` is not an address like https://host:port/path");
    let proxy = "`proxy-url` has a scheme other than http, https and socks5";
    assert_eq!(cluster("server: 'https://h', proxy-url: 'ftp://p:1'"), proxy);
}

#[test]
fn a_cluster_has_one_source_of_trust() {
    let said = cluster("server: 'https://h', certificate-authority: /not/there, certificate-authority-data: YQ==");
    assert_eq!(
        said,
        "`certificate-authority-data` and `certificate-authority` are both set: keep one; \
         `certificate-authority-data` holds no certificate in PEM form"
    );
    let said = cluster("server: 'https://h', certificate-authority: /not/there, insecure-skip-tls-verify: true");
    assert_eq!(
        said,
        "`insecure-skip-tls-verify` and a certificate authority exclude each other: keep one; \
         the file in `certificate-authority` does not exist"
    );
}

#[test]
fn all_mistakes_in_user_and_cluster_are_told_at_once() {
    let text = kubeconfig("proxy-url: 'ftp://p'", "token: t, username: u, exec: {}");
    let Err(KubeconfigError::Invalid { mistakes }) = resolve_with(&text, &Overrides::default()) else {
        panic!("not refused")
    };
    assert_eq!(mistakes.len(), 6, "{mistakes:?}");
}

#[test]
fn mistakes_in_what_is_not_used_do_not_matter_until_everything_is_checked() {
    let text = format!(
        "{}- name: other\n  user: {{exec: {{}}}}\n",
        kubeconfig(SERVER, EXEC).replace(
            "contexts: [",
            "contexts: [{name: '', context: {namespace: Nope}}, {name: d, context: {cluster: x, user: x}}, "
        )
    );
    resolve(&text);
    let problems: Vec<Problem> = load(&text).check().into_iter().map(|mistake| mistake.problem).collect();
    assert_eq!(problems.len(), 9, "{problems:?}");
    for expected in [
        Problem::NoName,
        Problem::NoCluster,
        Problem::NoUser,
        Problem::NoSuchCluster { name: "x".to_owned() },
        Problem::NoSuchUser { name: "x".to_owned() },
        Problem::NoApiVersion,
        Problem::NoInteractiveMode,
    ] {
        assert!(problems.contains(&expected), "{expected:?}");
    }
}

#[test]
fn a_check_finds_what_an_earlier_file_hides() {
    let here = Files::new();
    let good = here.write("good", kubeconfig(SERVER, EXEC));
    let hidden = here.write("hidden", kubeconfig("server: h", EXEC));
    let found = LoadingRules::list(vec![good, hidden.clone()]).load(&here.env()).unwrap();
    found.resolve(&Overrides::default(), &here.env()).unwrap();
    let mistakes = found.check();
    assert_eq!(mistakes.len(), 1);
    let expected = "cluster \"k\": `server` has no scheme: put https:// in front of it";
    assert_eq!(mistakes[0].to_string(), format!("{}, line 5: {expected}", hidden.display()));
    assert!(load(&kubeconfig(SERVER, EXEC)).check().is_empty());
    assert_eq!(load("current-context: x").check()[0].problem, Problem::NoSuchContext);
}

#[test]
fn namespaces_have_the_form_of_dns_labels() {
    let problems = |name: &str| {
        load(&kubeconfig(SERVER, EXEC).replace("user: u}", &format!("user: u, namespace: {name}}}"))).check()
    };
    assert!(problems("kube-system").is_empty());
    for bad in ["Kube", "-a", "a-", "a.b", "a_b", &"a".repeat(64)] {
        assert_eq!(problems(bad)[0].problem, Problem::Namespace, "{bad}");
    }
}

#[test]
fn names_from_a_file_cannot_play_with_the_terminal() {
    let text = kubeconfig("", "").replace("name: k", r#"name: "k\e[2J""#).replace("cluster: k", r#"cluster: "k\e[2J""#);
    assert_eq!(refuse(&text), "kubeconfig, line 4: cluster \"kU+001B[2J\": `server` is missing");
}
