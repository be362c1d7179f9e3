//! Overrides, which correspond to kubectl's flags.

use credlet_api::exec::{ApiVersion, ExecConfig};
use credlet_kubeconfig::{ConfigOverrides, HeaderCredential, ResolvedConfig, ValueOrigin};
use credlet_testkit::ca::TestCa;

use super::{EXEC, Files, SERVER, in_dir, kubeconfig, load, overrides, resolve_with};

fn resolve(text: &str, set: impl FnOnce(&mut ConfigOverrides)) -> ResolvedConfig {
    resolve_with(text, &overrides(set)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refuse(text: &str, set: impl FnOnce(&mut ConfigOverrides)) -> String {
    resolve_with(text, &overrides(set)).expect_err(text).to_string()
}

fn two() -> String {
    format!(
        "{}- {{name: v, user: {{token: v}}}}\n",
        kubeconfig(SERVER, "token: u")
            .replace("clusters:\n", "clusters:\n- {name: l, cluster: {server: 'https://l'}}\n")
            .replace("contexts: [", "contexts: [{name: d, context: {cluster: l, user: v, namespace: nd}}, ")
    )
}

fn token(resolved: &ResolvedConfig) -> &str {
    match resolved.identity.header.as_ref().map(|header| &header.value) {
        Some(HeaderCredential::Token(token)) => token.expose(),
        _ => "",
    }
}

#[test]
fn overrides_context_cluster_user_namespace() {
    let text = two();
    let d = resolve(&text, |o| o.context = Some("d".into()));
    assert_eq!((&*d.server.value, token(&d), &*d.namespace.value), ("https://l", "v", "nd"));
    assert_eq!(d.context.unwrap().origin, ValueOrigin::Override);
    let l = resolve(&text, |o| o.cluster = Some("l".into()));
    assert_eq!((&*l.server.value, token(&l), &*l.cluster), ("https://l", "u", "l"));
    let v = resolve(&text, |o| o.user = Some("v".into()));
    assert_eq!((&*v.server.value, token(&v), &*v.user), ("https://h", "v", "v"));
    let n = resolve(&text, |o| (o.context, o.namespace) = (Some("d".into()), Some("n".into())));
    assert_eq!((&*n.namespace.value, n.namespace.origin), ("n", ValueOrigin::Override));
    // An empty flag is ignored.
    let same = resolve(&text, |o| (o.context, o.user, o.server) = (Some("".into()), Some("".into()), Some("".into())));
    assert_eq!((&*same.server.value, token(&same)), ("https://h", "u"));
}

#[test]
fn named_overrides_must_exist() {
    let asked = "(from the command line or the calling program)";
    let text = two();
    assert_eq!(refuse(&text, |o| o.context = Some("x".into())), format!("context \"x\" not found {asked}"));
    assert_eq!(refuse(&text, |o| o.cluster = Some("x".into())), format!("cluster \"x\" not found {asked}"));
    assert_eq!(refuse(&text, |o| o.user = Some("x".into())), format!("user \"x\" not found {asked}"));
}

#[test]
fn server_override_drops_tls_server_name() {
    let text = kubeconfig("server: 'https://h', tls-server-name: old", "");
    let resolved = resolve(&text, |o| o.server = Some("https://other".into()));
    assert_eq!((&*resolved.server.value, &resolved.server.origin), ("https://other", &ValueOrigin::Override));
    assert!(resolved.tls.server_name.is_none());
    let resolved = resolve(&text, |o| (o.server, o.tls_server_name) = (Some("https://o".into()), Some("new".into())));
    assert_eq!(resolved.tls.server_name.unwrap().value, "new");
    let resolved = resolve(&text, |o| o.tls_server_name = Some("new".into()));
    assert_eq!((&*resolved.server.value, &*resolved.tls.server_name.unwrap().value), ("https://h", "new"));
    let error = refuse(&text, |o| o.server = Some("other:6443".into()));
    assert!(error.contains("missing scheme in `server`"), "{error}");
}

#[test]
fn a_server_alone_is_enough() {
    let resolved = resolve("", |o| o.server = Some("https://h".into()));
    assert_eq!((&*resolved.server.value, resolved.identity.is_anonymous()), ("https://h", true));
    let text = kubeconfig(SERVER, "token: t").replace("cluster: k,", "cluster: gone,");
    assert_eq!(token(&resolve(&text, |o| o.server = Some("https://h".into()))), "t");
}

#[test]
fn trust_override_replaces_all_trust_settings() {
    let here = Files::new();
    let ca = TestCa::new();
    here.write("ca.pem", ca.pem());
    let env = in_dir(&here.path("."));
    let text = kubeconfig("server: 'https://h', certificate-authority: /not/there", "");
    let insecure = resolve(&text, |o| o.insecure_skip_tls_verify = true);
    assert!(insecure.tls.insecure_skip_verify.value && insecure.tls.certificate_authority.is_none());

    let text = kubeconfig("server: 'https://h', insecure-skip-tls-verify: true", "");
    let overrides = overrides(|o| o.certificate_authority = Some("ca.pem".into()));
    let trusted = load(&text).resolve(&overrides, &env).unwrap();
    assert!(!trusted.tls.insecure_skip_verify.value);
    let authority = trusted.tls.certificate_authority.unwrap();
    assert_eq!((&*authority.pem, &authority.origin), (ca.pem().as_bytes(), &ValueOrigin::Override));
}

#[test]
fn overrides_proxy_and_compression() {
    let resolved = resolve(&kubeconfig("server: 'https://h', proxy-url: 'http://old'", ""), |o| {
        o.proxy_url = Some("socks5://new:1".into());
        o.disable_compression = true;
    });
    assert_eq!(resolved.proxy_url.unwrap().expose(), "socks5://new:1");
    assert!(resolved.disable_compression.value);
    assert!(refuse(&kubeconfig(SERVER, ""), |o| o.proxy_url = Some("ftp://x".into())).contains("`proxy-url`"));
}

#[test]
fn token_override_bypasses_plugin_and_token_file() {
    let text = kubeconfig(SERVER, &format!("tokenFile: /not/there, {EXEC}"));
    let resolved = resolve(&text, |o| o.token = Some("t".into()));
    assert_eq!(token(&resolved), "t");
    assert_eq!(resolved.identity.header.as_ref().unwrap().origin, ValueOrigin::Override);
    assert!(resolved.identity.exec.is_some() && resolved.identity.exec_in_use().is_none());
}

#[test]
fn basic_auth_override_bypasses_plugin() {
    let set = |o: &mut ConfigOverrides| (o.username, o.password) = (Some("ada".into()), Some("p".into()));
    let identity = resolve(&kubeconfig(SERVER, EXEC), set).identity;
    assert!(matches!(identity.header.unwrap().value, HeaderCredential::Basic { username, .. } if username == "ada"));
    assert!(refuse(&kubeconfig(SERVER, "token: t"), set).contains("conflicts with username"));
}

#[test]
fn certificate_override_bypasses_plugin() {
    let here = Files::new();
    let ada = TestCa::new().client("ada").issue();
    here.write("ada.pem", ada.cert_pem());
    here.write("ada.key", ada.key_pem());
    let text = kubeconfig(SERVER, &format!("client-certificate-data: YQ==, client-key-data: YQ==, {EXEC}"));
    let overrides = overrides(|o| {
        (o.client_certificate, o.client_key) = (Some("ada.pem".into()), Some("ada.key".into()));
    });
    let identity = load(&text).resolve(&overrides, &in_dir(&here.path("."))).unwrap().identity;
    assert!(identity.exec_in_use().is_none());
    assert_eq!(identity.certificate.unwrap().key.expose(), ada.key_pem());
}

#[test]
fn exec_override_replaces_section() {
    let text = kubeconfig(SERVER, "exec: {command: broken}");
    let exec = ExecConfig::new("aws", ApiVersion::V1);
    let resolved = resolve(&text, |o| o.exec = Some(exec.clone()));
    assert_eq!(resolved.identity.exec_in_use().unwrap().config, exec);
    let error = refuse(&text, |o| o.exec = Some(ExecConfig::new("", ApiVersion::V1)));
    assert!(error.contains("`command` is empty"), "{error}");
}

#[test]
fn impersonation_overrides_user() {
    let text = kubeconfig(SERVER, "as: eve, as-groups: [a], as-user-extra: {x: [old], y: [old]}");
    let resolved = resolve(&text, |o| {
        o.impersonate_uid = Some("7".into());
        o.impersonate_groups = vec!["b".into()];
        o.impersonate_user_extra = [("x".to_owned(), vec!["new".to_owned()])].into();
    });
    let acting = resolved.impersonation.unwrap();
    assert_eq!((&*acting.user.value, &*acting.uid.unwrap().value), ("eve", "7"));
    assert_eq!(acting.groups.unwrap().value, ["b"]);
    let extra = acting.extra.unwrap().value;
    assert_eq!((&*extra["x"], &*extra["y"]), (&["new".to_owned()][..], &["old".to_owned()][..]));
}
