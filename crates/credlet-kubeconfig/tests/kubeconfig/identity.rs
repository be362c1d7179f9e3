//! Precedence of credentials, and legacy auth-providers.

use credlet_kubeconfig::{ConfigOverrides, ConfigWarning, HeaderCredential, LoadingRules, ValueOrigin};
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;

use super::{EXEC, Files, SERVER, kubeconfig, refuse, resolve};

/// YAML members for a certificate and its key.
fn certificate() -> String {
    let ada = TestCa::new().client("ada").issue();
    format!("client-certificate-data: {}, client-key-data: {}", base64(ada.cert_pem()), base64(ada.key_pem()))
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[test]
fn static_credential_disables_plugin() {
    for other in ["token: t", "username: ada", "username: ada, password: p", &certificate()] {
        let identity = resolve(&kubeconfig(SERVER, &format!("{other}, {EXEC}"))).identity;
        assert!(identity.exec.is_some() && identity.exec_in_use().is_none(), "{other}");
    }
}

#[test]
fn incomplete_credential_keeps_plugin() {
    for other in ["token: ''", "password: p", "client-key-data: a2V5", "tokenFile: ''", "as: eve"] {
        let identity = resolve(&kubeconfig(SERVER, &format!("{other}, {EXEC}"))).identity;
        assert!(identity.exec_in_use().is_some(), "{other}");
    }
}

#[test]
fn token_and_certificate_are_combined() {
    let identity = resolve(&kubeconfig(SERVER, &format!("token: t, {}", certificate()))).identity;
    assert!(identity.header.is_some() && identity.certificate.is_some());
}

#[test]
fn token_file_precedes_inline_token() {
    let identity = resolve(&kubeconfig(SERVER, "token: inline, tokenFile: /not/there")).identity;
    let Some(HeaderCredential::TokenFile { file, inline }) = identity.header.map(|header| header.value) else {
        panic!("no token file");
    };
    assert_eq!(inline.unwrap().expose(), "inline");
    assert_eq!(file.read().unwrap_err().to_string(), "invalid `tokenFile`: the file does not exist");
}

#[test]
fn token_file_must_contain_a_token() {
    let here = Files::new();
    for (text, expected) in [
        (" \n", "missing token in the file of `tokenFile`"),
        ("a\nb", "invalid `tokenFile`: contains a line break or another control character"),
    ] {
        here.write("token", text);
        let file = here.write("config", kubeconfig(SERVER, "tokenFile: token"));
        let found = LoadingRules::list(vec![file.clone()]).load(&here.env()).unwrap();
        let error = found.resolve(&ConfigOverrides::default(), &here.env()).unwrap_err().to_string();
        assert_eq!(error, format!("{}, line 8: user \"u\": {expected}", file.display()));
    }
    let error = refuse(&kubeconfig(SERVER, "tokenFile: /not/there"));
    assert_eq!(error, "kubeconfig, line 8: user \"u\": invalid `tokenFile`: the file does not exist");
}

#[test]
fn oidc_works_beside_certificate() {
    let oidc = "auth-provider: {name: oidc, config: {idp-issuer-url: 'https://i', id-token: x}}";
    let identity = resolve(&kubeconfig(SERVER, oidc)).identity;
    let provider = identity.auth_provider_in_use().unwrap();
    assert_eq!((&*provider.name, provider.config["id-token"].expose()), ("oidc", "x"));
    assert_eq!(identity.auth_provider.unwrap().origin, ValueOrigin::Text { line: 8 });

    let beside = |other: &str| resolve(&kubeconfig(SERVER, &format!("{other}, {oidc}"))).identity;
    assert!(beside(&certificate()).auth_provider_in_use().is_some());
    assert!(beside("token: t").auth_provider_in_use().is_none());
}

#[test]
fn removed_auth_provider_names_replacement() {
    let gcp = refuse(&kubeconfig(SERVER, "auth-provider: {name: gcp}"));
    assert!(gcp.contains("gke-gcloud-auth-plugin") && gcp.contains("`credlet plugin gke`"), "{gcp}");
    let azure = refuse(&kubeconfig(SERVER, "auth-provider: {name: azure}"));
    assert!(azure.contains("kubelogin") && azure.contains("`credlet plugin aks`"), "{azure}");
    assert!(refuse(&kubeconfig(SERVER, "auth-provider: {name: openstack}")).contains("use `exec`"));
    assert!(refuse(&kubeconfig(SERVER, "auth-provider: {}")).contains("use `exec`"));

    let resolved = resolve(&kubeconfig(SERVER, "token: t, auth-provider: {name: gcp}"));
    assert!(resolved.identity.auth_provider.is_none());
    assert!(matches!(&*resolved.warnings, [ConfigWarning::AuthProviderUnused { .. }]));
}

#[test]
fn no_secret_in_debug_or_errors() {
    let watch = LeakCheck::new();
    let [token, password, argument, variable, proxy, id, extension] =
        ["token", "password", "argument", "variable", "proxy", "id", "extension"].map(|label| watch.secret(label));
    let ada = TestCa::new().client("ada").issue();
    watch.adopt("key", ada.key_pem());
    let key = base64(ada.key_pem());
    let text = |extra: &str| {
        let cluster = format!(
            "proxy-url: 'http://u:{}@p', extensions: [{{name: client.authentication.k8s.io/exec, extension: '{}'}}], {extra}",
            proxy.expose().replace('+', "%2B"),
            extension.expose(),
        );
        let user = format!(
            "token: '{}', password: '{}', client-certificate-data: {}, client-key-data: {key}, \
             exec: {{command: x, args: ['{}'], env: [{{name: A, value: '{}'}}], apiVersion: \
             client.authentication.k8s.io/v1beta1}}",
            token.expose(),
            password.expose(),
            base64(ada.cert_pem()),
            argument.expose(),
            variable.expose(),
        );
        kubeconfig(&cluster, &user)
    };
    // Token and password: rejected.
    let broken = text(SERVER);
    let error = super::resolve_with(&broken, &ConfigOverrides::default()).unwrap_err();
    watch.error(&error);
    watch.text(format!("{:?}", super::load(&broken)));
    watch.text(format!("{:?}", super::load(&broken).check()));
    // Secrets in other fields: rejected.
    for server in [format!("'https://u:{}@h'", proxy.expose()), format!("'{}'", token.expose())] {
        let error = super::resolve_with(&text(&format!("server: {server}")), &ConfigOverrides::default()).unwrap_err();
        watch.error(&error);
    }
    // Without the password: resolved.
    let good = text(SERVER).replace("password:", "unknown:");
    let resolved = resolve(&good);
    assert!(resolved.identity.header.is_some() && resolved.identity.certificate.is_some());
    watch.text(format!("{resolved:?} {resolved:#?}"));

    let oidc = format!("auth-provider: {{name: oidc, config: {{id-token: '{}'}}}}", id.expose());
    watch.text(format!("{:?}", resolve(&kubeconfig(SERVER, &oidc))));
    watch.error(
        &super::resolve_with(&kubeconfig(SERVER, &format!("{oidc}, {EXEC}")), &ConfigOverrides::default()).unwrap_err(),
    );
}
