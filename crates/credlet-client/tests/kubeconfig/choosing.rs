//! Rules 5 to 8, 17 and 38 to 41: what becomes of the chosen context, and where its values come from.

use credlet_api::exec::{ApiVersion, InteractiveMode};
use credlet_client::kubeconfig::{LoadingRules, Origin, Overrides, Warning};
use credlet_testkit::ca::Ca;

use super::{EXEC, Files, SERVER, kubeconfig, overrides, refuse, resolve, resolve_with};

#[test]
fn every_value_knows_its_file_and_line() {
    let here = Files::new();
    here.write("ca.pem", Ca::new().pem());
    let first =
        here.write("first", "current-context: c\ncontexts:\n- name: c\n  context:\n    cluster: k\n    user: u\n");
    let second = here.write(
        "second",
        "current-context: other\nclusters:\n- name: k\n  cluster:\n    server: https://h\n    \
         certificate-authority: ca.pem\n    tls-server-name: x\n    proxy-url: http://p\n    disable-compression: true\n\
         users:\n- name: u\n  user:\n    token: t\n    as: eve\n    as-groups: [g]\n    exec:\n      command: x\n      \
         apiVersion: client.authentication.k8s.io/v1beta1\n",
    );
    let found = LoadingRules::list(vec![first.clone(), second.clone()]).load(&here.env()).unwrap();
    let resolved = found.resolve(&Overrides::default(), &here.env()).unwrap();
    let at = |file: &std::path::Path, line| Origin::File { path: file.into(), line };

    assert_eq!(resolved.context.as_ref().unwrap().origin, at(&first, 1));
    assert_eq!(resolved.server.origin, at(&second, 5));
    assert_eq!(resolved.tls.certificate_authority.as_ref().unwrap().origin, at(&second, 6));
    assert_eq!(resolved.tls.server_name.as_ref().unwrap().origin, at(&second, 7));
    assert_eq!(resolved.proxy_url.as_ref().unwrap().origin, at(&second, 8));
    assert_eq!(resolved.disable_compression.origin, at(&second, 9));
    assert_eq!(resolved.identity.header.as_ref().unwrap().origin, at(&second, 13));
    let impersonation = resolved.impersonation.as_ref().unwrap();
    assert_eq!(impersonation.user.origin, at(&second, 14));
    assert_eq!(impersonation.groups.as_ref().unwrap().origin, at(&second, 15));
    assert_eq!(resolved.identity.exec.as_ref().unwrap().origin, at(&second, 16));
    assert_eq!(resolved.namespace.origin, Origin::Default);
    assert_eq!((&*resolved.cluster, &*resolved.user), ("k", "u"));
    assert_eq!(resolved.server.origin.to_string(), format!("{}, line 5", second.display()));
}

#[test]
fn before_v1_a_silent_user_means_if_available() {
    for (version, name) in [(ApiVersion::V1alpha1, "v1alpha1"), (ApiVersion::V1beta1, "v1beta1")] {
        let exec =
            format!("exec: {{command: aws, apiVersion: client.authentication.k8s.io/{name}, interactiveMode: ''}}");
        let exec = resolve(&kubeconfig(SERVER, &exec)).identity.exec.unwrap().value.config;
        // v1alpha1 is spoken here, unlike by client-go.
        assert_eq!((exec.api_version, exec.interactive_mode), (version, InteractiveMode::IfAvailable));
        let never =
            format!("exec: {{command: aws, apiVersion: client.authentication.k8s.io/{name}, interactiveMode: Never}}");
        let exec = resolve(&kubeconfig(SERVER, &never)).identity.exec.unwrap().value.config;
        assert_eq!(exec.interactive_mode, InteractiveMode::Never);
    }
}

#[test]
fn the_plugin_is_told_all_about_its_cluster() {
    let here = Files::new();
    let ca = Ca::new();
    here.write("ca.pem", ca.pem());
    let cluster = "server: 'https://h/prefix?x=1#y', certificate-authority: ca.pem, tls-server-name: x, \
                   proxy-url: 'socks5://u:p@p:1', disable-compression: true, extensions: [\
                   {name: other, extension: 1}, \
                   {name: client.authentication.k8s.io/exec, extension: {z: 1, audience: AAA, nested: {b: 2, a: 1}}}]";
    let file = here.write("config", kubeconfig(cluster, EXEC));
    let found = LoadingRules::list(vec![file]).load(&here.env()).unwrap();
    let exec = found.resolve(&Overrides::default(), &here.env()).unwrap().identity.exec.unwrap().value;
    // Whether it is passed on is another question, and known here too.
    assert!(!exec.config.provide_cluster_info);
    let told = exec.cluster;
    assert_eq!((&*told.server, &*told.tls_server_name), ("https://h/prefix", "x"));
    assert_eq!(told.certificate_authority_data, ca.pem().as_bytes());
    assert_eq!(told.proxy_url.expose(), "socks5://u:p@p:1");
    assert!(told.disable_compression && !told.insecure_skip_tls_verify);
    assert_eq!(told.config.unwrap().as_json(), r#"{"audience":"AAA","nested":{"a":1,"b":2},"z":1}"#);
}

#[test]
fn two_clusters_with_one_user_never_share_their_config() {
    let text = "contexts: [{name: a, context: {cluster: a, user: u}}, {name: b, context: {cluster: b, user: u}}]\n\
         clusters:\n\
         - {name: a, cluster: {server: 'https://a', extensions: [{name: client.authentication.k8s.io/exec, extension: A}]}}\n\
         - {name: b, cluster: {server: 'https://b', extensions: [{name: client.authentication.k8s.io/exec, extension: B}]}}\n\
         users: [{name: u, user: {exec: {command: x, apiVersion: client.authentication.k8s.io/v1beta1}}}]\n";
    let of = |context: &str| {
        let overrides = overrides(|o| o.context = Some(context.to_owned()));
        resolve_with(text, &overrides).unwrap().identity.exec.unwrap().value.cluster
    };
    let (a, b) = (of("a"), of("b"));
    assert_eq!((a.config.unwrap().as_json(), b.config.unwrap().as_json()), (r#""A""#, r#""B""#));
    assert_eq!((&*a.server, &*b.server), ("https://a", "https://b"));
}

#[test]
fn an_install_hint_cannot_play_with_the_terminal() {
    let exec = EXEC.replace("command: aws", r#"command: aws, installHint: "\e[1mbold""#);
    let exec = resolve(&kubeconfig(SERVER, &exec)).identity.exec.unwrap().value.config;
    assert_eq!(exec.install_hint, "U+001B[1mbold");
}

#[test]
fn a_server_without_a_scheme_is_a_mistake_that_says_so() {
    for server in ["example.com:6443", "example.com", "//example.com", "localhost:8080"] {
        let error = refuse(&kubeconfig(&format!("server: '{server}', insecure-skip-tls-verify: true"), EXEC));
        assert_eq!(error, "kubeconfig, line 5: cluster \"k\": `server` has no scheme: put https:// in front of it");
    }
}

#[test]
fn over_plain_http_no_credential_is_used_and_one_warning_says_why() {
    let user = format!("token: hunter2, as: eve, {EXEC}");
    let resolved = resolve(&kubeconfig("server: 'http://h'", &user));
    assert!(resolved.identity.is_anonymous());
    assert_eq!(resolved.warnings, [Warning::PlainHttp { origin: Origin::Text { line: 5 } }]);
    let said = resolved.warnings[0].to_string();
    assert_eq!(said, "kubeconfig, line 5: `server` is an http address, so no credential is sent: use https");
    // Impersonation is no credential.
    assert_eq!(resolved.impersonation.unwrap().user.value, "eve");
    // Who has nothing to lose is not warned.
    assert!(resolve(&kubeconfig("server: 'http://h'", "")).warnings.is_empty());
    // A mistake stays one.
    assert!(refuse(&kubeconfig("server: 'http://h'", "exec: {}")).contains("`command` is empty"));
}

#[test]
fn a_context_with_an_unknown_user_is_anonymous_and_says_so() {
    let text = kubeconfig(SERVER, "token: t").replace("user: u}}]", "user: nobody}}]");
    let resolved = resolve(&text);
    assert!(resolved.identity.is_anonymous());
    let expected = Warning::UserNotFound { name: "nobody".to_owned(), origin: Origin::Text { line: 2 } };
    assert_eq!(resolved.warnings, [expected]);
}

#[test]
fn a_context_that_leads_nowhere_is_a_mistake() {
    let text = kubeconfig(SERVER, "token: t");
    assert_eq!(
        refuse(&text.replace("cluster: k,", "cluster: gone,")),
        "kubeconfig, line 2: context \"c\": `cluster` names \"gone\", which is in none of the files"
    );
    assert_eq!(refuse(&text.replace("cluster: k,", "")), "kubeconfig, line 2: context \"c\": `cluster` is empty");
    assert_eq!(
        refuse(&text.replace("current-context: c", "current-context: gone")),
        "there is no context \"gone\" (kubeconfig, line 1)"
    );
    assert_eq!(
        refuse(&text.replace("current-context: c", "")),
        "no context is chosen: set `current-context` or name one"
    );
    assert_eq!(refuse(""), "there is no kubeconfig, and this is not a pod with a service account");
}

#[test]
fn a_namespace_is_taken_from_the_context_or_is_the_default() {
    let text = kubeconfig(SERVER, "");
    assert_eq!(resolve(&text).namespace.value, "default");
    let named = resolve(&text.replace("user: u}", "user: u, namespace: kube-system}"));
    assert_eq!((&*named.namespace.value, &named.namespace.origin), ("kube-system", &Origin::Text { line: 2 }));
}
