//! A pod without a kubeconfig uses its service account.

use credlet_kubeconfig::{
    ConfigOverrides, ConfigWarning, HeaderCredential, KubeconfigError, LoadingRules, ResolvedConfig, ValueOrigin,
};
use credlet_platform::FixedEnv;
use credlet_testkit::ca::TestCa;

use super::{Files, SERVER, kubeconfig, overrides};

struct Pod {
    files: Files,
    env: FixedEnv,
}

impl Pod {
    fn new() -> Self {
        let files = Files::new();
        files.write("account/token", "hunter2");
        files.write("account/ca.crt", TestCa::new().pem());
        files.write("account/namespace", "mine\n");
        Self {
            files,
            env: FixedEnv::new([("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("KUBERNETES_SERVICE_PORT", "443")]),
        }
    }

    fn resolve_with(&self, file: Option<&str>, overrides: &ConfigOverrides) -> Result<ResolvedConfig, KubeconfigError> {
        let list = file.map(|text| self.files.write("config", text)).into_iter().collect();
        let rules = LoadingRules::list(list).service_account_dir(self.files.path("account"));
        rules.load(&self.env)?.resolve(overrides, &self.env)
    }

    fn resolve(&self, file: Option<&str>) -> ResolvedConfig {
        self.resolve_with(file, &ConfigOverrides::default()).unwrap()
    }
}

#[test]
fn uses_service_account_without_kubeconfig() {
    let pod = Pod::new();
    for file in [None, Some(""), Some("clusters: [{name: unused}]")] {
        let resolved = pod.resolve(file);
        assert_eq!(
            (&*resolved.server.value, &resolved.server.origin),
            ("https://10.0.0.1:443", &ValueOrigin::InCluster)
        );
        assert_eq!(resolved.namespace.value, "mine");
        assert!(resolved.tls.certificate_authority.is_some() && resolved.warnings.is_empty());
        let header = resolved.identity.header.unwrap().value;
        assert!(
            matches!(header, HeaderCredential::TokenFile { file, inline: None } if file.path() == pod.files.path("account/token"))
        );
    }
}

#[test]
fn ipv6_host_gets_brackets() {
    let pod = Pod {
        env: FixedEnv::new([("KUBERNETES_SERVICE_HOST", "fd00::1"), ("KUBERNETES_SERVICE_PORT", "443")]),
        ..Pod::new()
    };
    assert_eq!(pod.resolve(None).server.value, "https://[fd00::1]:443");
}

#[test]
fn kubeconfig_wins_but_pod_sets_namespace() {
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
fn invalid_kubeconfig_has_no_in_cluster_fallback() {
    let pod = Pod::new();
    let text = kubeconfig(SERVER, "token: t").replace("cluster: k,", "cluster: gone,");
    let error = pod.resolve_with(Some(&text), &ConfigOverrides::default()).unwrap_err().to_string();
    assert!(error.ends_with("`cluster` refers to unknown cluster \"gone\""), "{error}");
    let text = text.replace("current-context: c", "");
    let error = pod.resolve_with(Some(&text), &overrides(|o| o.user = Some("u".into()))).unwrap_err().to_string();
    assert!(error.ends_with("cluster: `server` is missing"), "{error}");
}

#[test]
fn overrides_apply_to_service_account() {
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
        let error = pod.resolve_with(None, &ConfigOverrides::default()).unwrap_err();
        assert!(matches!(error, KubeconfigError::NotConfigured { .. }), "{error}");
    }
    let pod = Pod::new();
    std::fs::remove_file(pod.files.path("account/ca.crt")).unwrap();
    assert_eq!(pod.resolve(None).warnings, [ConfigWarning::NoServiceAccountAuthority]);
}
