//! Rules 42 to 45: which credential wins, and what is left of the old ways to log in.

use credlet_client::kubeconfig::{HeaderCredential, LoadingRules, Origin, Overrides, Warning};
use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;

use super::{EXEC, Files, SERVER, kubeconfig, refuse, resolve};

/// YAML members for a certificate and its key.
fn certificate() -> String {
    let ada = Ca::new().client("ada").issue();
    format!("client-certificate-data: {}, client-key-data: {}", base64(ada.cert_pem()), base64(ada.key_pem()))
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[test]
fn a_static_credential_makes_the_plugin_inert() {
    for other in ["token: t", "username: ada", "username: ada, password: p", &certificate()] {
        let identity = resolve(&kubeconfig(SERVER, &format!("{other}, {EXEC}"))).identity;
        assert!(identity.exec.is_some() && identity.exec_in_use().is_none(), "{other}");
    }
}

#[test]
fn half_a_credential_does_not_make_the_plugin_inert() {
    for other in ["token: ''", "password: p", "client-key-data: a2V5", "tokenFile: ''", "as: eve"] {
        let identity = resolve(&kubeconfig(SERVER, &format!("{other}, {EXEC}"))).identity;
        assert!(identity.exec_in_use().is_some(), "{other}");
    }
}

#[test]
fn a_token_and_a_certificate_are_used_together() {
    let identity = resolve(&kubeconfig(SERVER, &format!("token: t, {}", certificate()))).identity;
    assert!(identity.header.is_some() && identity.certificate.is_some());
}

#[test]
fn a_token_file_goes_before_the_token_beside_it_and_need_not_exist_yet() {
    let identity = resolve(&kubeconfig(SERVER, "token: inline, tokenFile: /not/there")).identity;
    let Some(HeaderCredential::TokenFile { file, inline }) = identity.header.map(|header| header.value) else {
        panic!("no token file");
    };
    assert_eq!(inline.unwrap().expose(), "inline");
    assert_eq!(file.read().unwrap_err().to_string(), "the file in `tokenFile` does not exist");
}

#[test]
fn a_token_file_alone_must_hold_a_token() {
    let here = Files::new();
    for (text, expected) in [
        (" \n", "the file in `tokenFile` holds no token"),
        ("a\nb", "`tokenFile` holds a line break or another control character"),
    ] {
        here.write("token", text);
        let file = here.write("config", kubeconfig(SERVER, "tokenFile: token"));
        let found = LoadingRules::list(vec![file.clone()]).load(&here.env()).unwrap();
        let error = found.resolve(&Overrides::default(), &here.env()).unwrap_err().to_string();
        assert_eq!(error, format!("{}, line 8: user \"u\": {expected}", file.display()));
    }
    let error = refuse(&kubeconfig(SERVER, "tokenFile: /not/there"));
    assert_eq!(error, "kubeconfig, line 8: user \"u\": the file in `tokenFile` does not exist");
}

#[test]
fn oidc_is_kept_for_later_and_works_beside_a_certificate() {
    let oidc = "auth-provider: {name: oidc, config: {idp-issuer-url: 'https://i', id-token: x}}";
    let identity = resolve(&kubeconfig(SERVER, oidc)).identity;
    let provider = identity.auth_provider_in_use().unwrap();
    assert_eq!((&*provider.name, provider.config["id-token"].expose()), ("oidc", "x"));
    assert_eq!(identity.auth_provider.unwrap().origin, Origin::Text { line: 8 });

    let beside = |other: &str| resolve(&kubeconfig(SERVER, &format!("{other}, {oidc}"))).identity;
    assert!(beside(&certificate()).auth_provider_in_use().is_some());
    assert!(beside("token: t").auth_provider_in_use().is_none());
}

#[test]
fn logins_that_are_gone_name_their_replacement() {
    let gcp = refuse(&kubeconfig(SERVER, "auth-provider: {name: gcp}"));
    assert!(gcp.contains("gke-gcloud-auth-plugin") && gcp.contains("`credlet plugin gke`"), "{gcp}");
    let azure = refuse(&kubeconfig(SERVER, "auth-provider: {name: azure}"));
    assert!(azure.contains("kubelogin") && azure.contains("`credlet plugin aks`"), "{azure}");
    assert!(refuse(&kubeconfig(SERVER, "auth-provider: {name: openstack}")).contains("use `exec`"));
    assert!(refuse(&kubeconfig(SERVER, "auth-provider: {}")).contains("use `exec`"));

    let resolved = resolve(&kubeconfig(SERVER, "token: t, auth-provider: {name: gcp}"));
    assert!(resolved.identity.auth_provider.is_none());
    assert!(matches!(&*resolved.warnings, [Warning::AuthProviderUnused { .. }]));
}

#[test]
fn no_secret_is_shown_by_what_is_resolved_or_by_what_is_wrong() {
    let watch = Watch::new();
    let [token, password, argument, variable, proxy, id, extension] =
        ["token", "password", "argument", "variable", "proxy", "id", "extension"].map(|label| watch.secret(label));
    let ada = Ca::new().client("ada").issue();
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
    // A token and a password: refused.
    let broken = text(SERVER);
    let error = super::resolve_with(&broken, &Overrides::default()).unwrap_err();
    watch.error(&error);
    watch.text(format!("{:?}", super::load(&broken)));
    watch.text(format!("{:?}", super::load(&broken).check()));
    // Secrets in wrong places: refused.
    for server in [format!("'https://u:{}@h'", proxy.expose()), format!("'{}'", token.expose())] {
        let error = super::resolve_with(&text(&format!("server: {server}")), &Overrides::default()).unwrap_err();
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
        &super::resolve_with(&kubeconfig(SERVER, &format!("{oidc}, {EXEC}")), &Overrides::default()).unwrap_err(),
    );
}
