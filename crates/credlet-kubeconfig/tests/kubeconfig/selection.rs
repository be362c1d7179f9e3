//! Selection of the context, and origin of its values.

use credlet_api::exec::{ApiVersion, InteractiveMode};
use credlet_kubeconfig::{ConfigOverrides, ConfigWarning, LoadingRules, ValueOrigin};
use credlet_testkit::ca::TestCa;

use super::{EXEC, Files, SERVER, kubeconfig, overrides, refuse, resolve, resolve_with};

#[test]
fn values_have_file_and_line() {
    let here = Files::new();
    here.write("ca.pem", TestCa::new().pem());
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
    let resolved = found.resolve(&ConfigOverrides::default(), &here.env()).unwrap();
    let at = |file: &std::path::Path, line| ValueOrigin::File { path: file.into(), line };

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
    assert_eq!(resolved.namespace.origin, ValueOrigin::Default);
    assert_eq!((&*resolved.cluster, &*resolved.user), ("k", "u"));
    assert_eq!(resolved.server.origin.to_string(), format!("{}, line 5", second.display()));
}

#[test]
fn interactive_mode_defaults_before_v1() {
    for (version, name) in [(ApiVersion::V1alpha1, "v1alpha1"), (ApiVersion::V1beta1, "v1beta1")] {
        let exec =
            format!("exec: {{command: aws, apiVersion: client.authentication.k8s.io/{name}, interactiveMode: ''}}");
        let exec = resolve(&kubeconfig(SERVER, &exec)).identity.exec.unwrap().value.config;
        // v1alpha1 is supported here, unlike in client-go.
        assert_eq!((exec.api_version, exec.interactive_mode), (version, InteractiveMode::IfAvailable));
        let never =
            format!("exec: {{command: aws, apiVersion: client.authentication.k8s.io/{name}, interactiveMode: Never}}");
        let exec = resolve(&kubeconfig(SERVER, &never)).identity.exec.unwrap().value.config;
        assert_eq!(exec.interactive_mode, InteractiveMode::Never);
    }
}

#[test]
fn plugin_gets_cluster_info() {
    let here = Files::new();
    let ca = TestCa::new();
    here.write("ca.pem", ca.pem());
    let cluster = "server: 'https://h/prefix?x=1#y', certificate-authority: ca.pem, tls-server-name: x, \
                   proxy-url: 'socks5://u:p@p:1', disable-compression: true, extensions: [\
                   {name: other, extension: 1}, \
                   {name: client.authentication.k8s.io/exec, extension: {z: 1, audience: AAA, nested: {b: 2, a: 1}}}]";
    let file = here.write("config", kubeconfig(cluster, EXEC));
    let found = LoadingRules::list(vec![file]).load(&here.env()).unwrap();
    let exec = found.resolve(&ConfigOverrides::default(), &here.env()).unwrap().identity.exec.unwrap().value;
    // `provide_cluster_info` decides whether it is passed to the plugin.
    assert!(!exec.config.provide_cluster_info);
    let told = exec.cluster;
    assert_eq!((&*told.server, &*told.tls_server_name), ("https://h/prefix", "x"));
    assert_eq!(told.certificate_authority_data, ca.pem().as_bytes());
    assert_eq!(told.proxy_url.expose(), "socks5://u:p@p:1");
    assert!(told.disable_compression && !told.insecure_skip_tls_verify);
    assert_eq!(told.config.unwrap().as_json(), r#"{"audience":"AAA","nested":{"a":1,"b":2},"z":1}"#);
}

#[test]
fn clusters_of_one_user_keep_their_config() {
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
fn install_hint_is_escaped() {
    let exec = EXEC.replace("command: aws", r#"command: aws, installHint: "\e[1mbold""#);
    let exec = resolve(&kubeconfig(SERVER, &exec)).identity.exec.unwrap().value.config;
    assert_eq!(exec.install_hint, "U+001B[1mbold");
}

#[test]
fn rejects_server_without_scheme() {
    for server in ["example.com:6443", "example.com", "//example.com", "localhost:8080"] {
        let error = refuse(&kubeconfig(&format!("server: '{server}', insecure-skip-tls-verify: true"), EXEC));
        assert_eq!(error, "kubeconfig, line 5: cluster \"k\": missing scheme in `server`: must be https or http");
    }
}

#[test]
fn plain_http_drops_credentials_with_warning() {
    let user = format!("token: hunter2, as: eve, {EXEC}");
    let resolved = resolve(&kubeconfig("server: 'http://h'", &user));
    assert!(resolved.identity.is_anonymous());
    assert_eq!(resolved.warnings, [ConfigWarning::PlainHttp { origin: ValueOrigin::Text { line: 5 } }]);
    let said = resolved.warnings[0].to_string();
    assert_eq!(said, "kubeconfig, line 5: `server` is an http address, no credentials are sent: use https");
    // Impersonation is not a credential.
    assert_eq!(resolved.impersonation.unwrap().user.value, "eve");
    // No warning without credentials.
    assert!(resolve(&kubeconfig("server: 'http://h'", "")).warnings.is_empty());
    // Invalid values are still errors.
    assert!(refuse(&kubeconfig("server: 'http://h'", "exec: {}")).contains("`command` is empty"));
}

#[test]
fn unknown_user_is_anonymous_with_warning() {
    let text = kubeconfig(SERVER, "token: t").replace("user: u}}]", "user: nobody}}]");
    let resolved = resolve(&text);
    assert!(resolved.identity.is_anonymous());
    let expected = ConfigWarning::UserNotFound { name: "nobody".to_owned(), origin: ValueOrigin::Text { line: 2 } };
    assert_eq!(resolved.warnings, [expected]);
}

#[test]
fn rejects_context_without_valid_cluster() {
    let text = kubeconfig(SERVER, "token: t");
    assert_eq!(
        refuse(&text.replace("cluster: k,", "cluster: gone,")),
        "kubeconfig, line 2: context \"c\": `cluster` refers to unknown cluster \"gone\""
    );
    assert_eq!(refuse(&text.replace("cluster: k,", "")), "kubeconfig, line 2: context \"c\": `cluster` is empty");
    assert_eq!(
        refuse(&text.replace("current-context: c", "current-context: gone")),
        "context \"gone\" not found (kubeconfig, line 1)"
    );
    assert_eq!(
        refuse(&text.replace("current-context: c", "")),
        "no context is selected: set `current-context` or specify a context"
    );
    assert_eq!(refuse(""), "no kubeconfig found, and not running in a pod with a service account");
}

#[test]
fn namespace_comes_from_context_or_default() {
    let text = kubeconfig(SERVER, "");
    assert_eq!(resolve(&text).namespace.value, "default");
    let named = resolve(&text.replace("user: u}", "user: u, namespace: kube-system}"));
    assert_eq!((&*named.namespace.value, &named.namespace.origin), ("kube-system", &ValueOrigin::Text { line: 2 }));
}
