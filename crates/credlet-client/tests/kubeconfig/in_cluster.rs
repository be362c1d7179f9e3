//! A pod without a kubeconfig uses its service account.

use credlet_client::kubeconfig::{
    HeaderCredential, KubeconfigError, LoadingRules, Origin, Overrides, Resolved, Warning,
};
use credlet_core::FixedEnv;
use credlet_testkit::ca::Ca;

use super::{Files, SERVER, kubeconfig, overrides};

struct Pod {
    files: Files,
    env: FixedEnv,
}

impl Pod {
    fn new() -> Self {
        let files = Files::new();
        files.write("account/token", "hunter2");
        files.write("account/ca.crt", Ca::new().pem());
        files.write("account/namespace", "mine\n");
        Self {
            files,
            env: FixedEnv::new([("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("KUBERNETES_SERVICE_PORT", "443")]),
        }
    }

    fn resolve_with(&self, file: Option<&str>, overrides: &Overrides) -> Result<Resolved, KubeconfigError> {
        let list = file.map(|text| self.files.write("config", text)).into_iter().collect();
        let rules = LoadingRules::list(list).service_account_dir(self.files.path("account"));
        rules.load(&self.env)?.resolve(overrides, &self.env)
    }

    fn resolve(&self, file: Option<&str>) -> Resolved {
        self.resolve_with(file, &Overrides::default()).unwrap()
    }
}

#[test]
fn without_a_kubeconfig_the_service_account_is_used() {
    let pod = Pod::new();
    for file in [None, Some(""), Some("clusters: [{name: unused}]")] {
        let resolved = pod.resolve(file);
        assert_eq!((&*resolved.server.value, &resolved.server.origin), ("https://10.0.0.1:443", &Origin::InCluster));
        assert_eq!(resolved.namespace.value, "mine");
        assert!(resolved.tls.certificate_authority.is_some() && resolved.warnings.is_empty());
        let header = resolved.identity.header.unwrap().value;
        assert!(
            matches!(header, HeaderCredential::TokenFile { file, inline: None } if file.path() == pod.files.path("account/token"))
        );
    }
}

#[test]
fn an_ipv6_address_gets_its_brackets() {
    let pod = Pod {
        env: FixedEnv::new([("KUBERNETES_SERVICE_HOST", "fd00::1"), ("KUBERNETES_SERVICE_PORT", "443")]),
        ..Pod::new()
    };
    assert_eq!(pod.resolve(None).server.value, "https://[fd00::1]:443");
}

#[test]
fn a_kubeconfig_goes_first_but_the_pods_namespace_is_nearer_than_the_default() {
    let pod = Pod::new();
    let text = kubeconfig(SERVER, "token: t");
    let resolved = pod.resolve(Some(&text));
    assert_eq!((&*resolved.server.value, &*resolved.namespace.value), ("https://h", "mine"));
    let explicit = pod.resolve(Some(&text.replace("user: u}", "user: u, namespace: default}")));
    assert_eq!(explicit.namespace.value, "default");
    let env = FixedEnv::new([
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
        ("KUBERNETES_SERVICE_PORT", "443"),
        ("POD_NAMESPACE", "told"),
    ]);
    assert_eq!(Pod { env, ..pod }.resolve(None).namespace.value, "told");
}

#[test]
fn a_mistake_in_a_kubeconfig_is_not_answered_with_another_identity() {
    let pod = Pod::new();
    let text = kubeconfig(SERVER, "token: t").replace("cluster: k,", "cluster: gone,");
    let error = pod.resolve_with(Some(&text), &Overrides::default()).unwrap_err().to_string();
    assert!(error.ends_with("`cluster` names \"gone\", which is in none of the files"), "{error}");
    let text = text.replace("current-context: c", "");
    let error = pod.resolve_with(Some(&text), &overrides(|o| o.user = Some("u".into()))).unwrap_err().to_string();
    assert!(error.ends_with("cluster: `server` is missing"), "{error}");
}

#[test]
fn what_the_caller_knows_better_is_laid_over_the_service_account() {
    let pod = Pod::new();
    let resolved = pod.resolve_with(
        None,
        &overrides(|o| {
            (o.token, o.impersonate, o.namespace) = (Some("t".into()), Some("eve".into()), Some("n".into()));
        }),
    );
    let resolved = resolved.unwrap();
    assert!(matches!(resolved.identity.header.unwrap().value, HeaderCredential::Token(token) if token.expose() == "t"));
    assert_eq!((&*resolved.impersonation.unwrap().user.value, &*resolved.namespace.value), ("eve", "n"));
    let basic = pod.resolve_with(None, &overrides(|o| o.username = Some("ada".into()))).unwrap();
    assert!(matches!(basic.identity.header.unwrap().value, HeaderCredential::Basic { .. }));
}

#[test]
fn half_a_pod_is_none() {
    for (variable, file) in [("KUBERNETES_SERVICE_PORT", "x"), ("KUBERNETES_SERVICE_HOST", "x"), ("", "account/token")]
    {
        let pod = Pod::new();
        let _ = std::fs::remove_file(pod.files.path(file));
        let all = [("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("KUBERNETES_SERVICE_PORT", "443")];
        let pod = Pod { env: FixedEnv::new(all.into_iter().filter(|(name, _)| *name != variable)), ..pod };
        let error = pod.resolve_with(None, &Overrides::default()).unwrap_err();
        assert!(matches!(error, KubeconfigError::Nothing { .. }), "{error}");
    }
    let pod = Pod::new();
    std::fs::remove_file(pod.files.path("account/ca.crt")).unwrap();
    assert_eq!(pod.resolve(None).warnings, [Warning::NoServiceAccountAuthority]);
}
