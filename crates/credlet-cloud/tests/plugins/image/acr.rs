use std::sync::{Arc, Mutex};

use crate::support::{FakeEndpoint, FakeReply, ProviderRun, ProviderSandbox};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::image::ProviderApiVersion;
use credlet_cloud::image::acr;
use credlet_http::fetch::percent_encode;
use serde_json::{Value, json};

pub(crate) const HOST: &str = "foo.azurecr.io";
const ANYBODY: &str = "*.azurecr.* :";
const CLIENT_ID: &str = "kubernetes.azure.com/acr-client-id";
const TENANT_ID: &str = "kubernetes.azure.com/acr-tenant-id";

/// A node with a managed identity, and the endpoints of Azure that it uses.
pub(crate) struct AcrNode {
    pub(crate) sandbox: ProviderSandbox,
    pub(crate) azure: FakeEndpoint,
    /// Access token of Entra ID for the registry.
    pub(crate) token: String,
    pub(crate) password: String,
    pub(crate) config: Value,
    /// Reply of the registry to the first request.
    pub(crate) challenge: Arc<Mutex<FakeReply>>,
}

pub(crate) fn usual_challenge() -> FakeReply {
    let challenge = format!(r#"Bearer realm="https://{HOST}/oauth2/token",service="{HOST}""#);
    FakeReply::WithHeader(401, "Www-Authenticate", challenge, String::new())
}

/// A JWT with this expiry that the leak check knows.
fn ending(sandbox: &ProviderSandbox, at: &Value) -> String {
    let payload = URL_SAFE_NO_PAD.encode(json!({"exp": at}).to_string());
    format!("e30.{payload}.{}", sandbox.secret("registry's signature").replace(['+', '/', '='], "x"))
}

impl AcrNode {
    /// Creates a node with a password that expires three hours after the test's time.
    pub(crate) fn new() -> Self {
        Self::with_end(&json!(1_794_781_069))
    }

    pub(crate) fn with_end(at: &Value) -> Self {
        let mut sandbox = ProviderSandbox::new(acr::run);
        let (token, password) = (sandbox.secret("access token"), ending(&sandbox, at));
        let challenge = Arc::new(Mutex::new(usual_challenge()));
        let (granted, given, said) = (token.clone(), password.clone(), Arc::clone(&challenge));
        let azure = FakeEndpoint::start(move |request| match &*request.path {
            path if path.starts_with("/metadata/identity/") || path.ends_with("/oauth2/v2.0/token") => {
                FakeReply::Status(200, json!({"access_token": granted, "expires_in": 3600}).to_string())
            }
            "/v2/" => said.lock().unwrap().clone(),
            // Requires the access token.
            "/oauth2/exchange" if request.field("access_token") == &**percent_encode(&granted) => {
                FakeReply::Status(200, json!({"refresh_token": given}).to_string())
            }
            _ => FakeReply::Status(404, String::new()),
        });
        sandbox.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", &azure.url);
        sandbox.set("AZURE_AUTHORITY_HOST", &azure.url);
        let config = json!({"cloud": "AzurePublicCloud", "tenantId": "home", "useManagedIdentityExtension": true});
        Self { sandbox, azure, token, password, config, challenge }
    }

    pub(crate) fn run(&self, image: &str) -> ProviderRun {
        self.run_with("", image)
    }

    pub(crate) fn run_with(&self, line: &str, image: &str) -> ProviderRun {
        let config = self.sandbox.file("azure.json", self.config.to_string());
        let host = image.split('/').next().unwrap();
        let line = format!("{} --endpoint {host}={}/ {line}", config.display(), self.azure.url);
        self.sandbox.run_for(&line, image)
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        let path = |path: &str| path.split('?').next().unwrap().to_owned();
        self.azure.seen().iter().map(|request| path(&request.path)).collect()
    }
}

#[test]
fn managed_identity_gets_password() {
    let node = AcrNode::new();
    let run = node.run(&format!("{HOST}/team/app"));
    assert_eq!(
        run.stdout,
        format!(
            "{{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
             \"cacheKeyType\":\"Registry\",\"cacheDuration\":\"1h30m0s\",\"auth\":{{\
             \"*.azurecr.*\":{{\"username\":\"\",\"password\":\"\"}},\
             \"{HOST}\":{{\"username\":\"00000000-0000-0000-0000-000000000000\",\"password\":\"{}\"}}}}}}\n",
            node.password
        )
    );
    assert_eq!(node.paths(), ["/metadata/identity/oauth2/token", "/v2/", "/oauth2/exchange"]);
    let seen = node.azure.seen();
    assert!(
        seen[0].path.contains("resource=https%3A%2F%2Fcontainerregistry.azure.net&")
            || seen[0].path.ends_with("resource=https%3A%2F%2Fcontainerregistry.azure.net"),
        "{}",
        seen[0].path
    );
    assert_eq!((&*seen[1].method, seen[1].header("authorization")), ("GET", ""));
    assert_eq!(seen[2].field("grant_type"), "access_token_refresh_token");
    assert_eq!((seen[2].field("service"), seen[2].field("tenant")), (HOST, "home"));
    assert_eq!(seen[2].field("refresh_token"), seen[2].field("access_token"));
}

#[test]
fn selects_user_assigned_identity() {
    for (id, expected) in [
        ("1234", "client_id=1234"),
        ("/subscriptions/1/resourceGroups/x", "msi_res_id=%2Fsubscriptions%2F1%2FresourceGroups%2Fx"),
    ] {
        let mut node = AcrNode::new();
        node.config["userAssignedIdentityID"] = id.into();
        node.run(HOST).response();
        assert!(node.azure.seen()[0].path.contains(expected), "{}", node.azure.seen()[0].path);
    }
}

#[test]
fn service_account_uses_its_identity() {
    let mut node = AcrNode::new();
    // A service principal of the node is not used.
    node.config = json!({"tenantId": "home", "aadClientId": "sp", "aadClientSecret": "s"});
    let token = node.sandbox.set_account([(CLIENT_ID, "pod-client"), (TENANT_ID, "pod-tenant")]);
    let run = node.run(HOST);
    assert_eq!(run.auth(), [ANYBODY, &format!("{HOST} 00000000-0000-0000-0000-000000000000:{}", node.password)]);
    assert_eq!(node.paths(), ["/pod-tenant/oauth2/v2.0/token", "/v2/", "/oauth2/exchange"]);
    let seen = node.azure.seen();
    assert_eq!((seen[0].field("client_id"), seen[0].field("grant_type")), ("pod-client", "client_credentials"));
    assert_eq!(seen[0].field("scope"), "https%3A%2F%2Fcontainerregistry.azure.net%2F.default");
    assert_eq!(seen[0].field("client_assertion"), &**percent_encode(token.expose()));
    assert_eq!(seen[2].field("tenant"), "pod-tenant");
    // Nothing is stored on disk.
    assert_eq!(std::fs::read_dir(node.sandbox.home.path()).unwrap().count(), 1);
}

#[test]
fn service_account_token_must_be_jwt() {
    let mut node = AcrNode::new();
    node.sandbox.set_account([(CLIENT_ID, "pod-client"), (TENANT_ID, "pod-tenant")]);
    node.sandbox.token = Some("hunter2".into());
    let run = node.run(HOST);
    assert!(run.error().contains("invalid service account token: not a JSON web token"), "{run:?}");
    assert!(node.paths().is_empty() && !run.stderr.contains("hunter2"));
}

#[test]
fn missing_annotations_are_an_error() {
    for (annotations, missing) in [
        ([(CLIENT_ID, ""), (TENANT_ID, "t")], CLIENT_ID),
        ([(CLIENT_ID, "c"), (TENANT_ID, "")], TENANT_ID),
        ([("a", "c"), (TENANT_ID, "t")], CLIENT_ID),
        ([(CLIENT_ID, "c"), ("a", "t")], TENANT_ID),
    ] {
        let mut node = AcrNode::new();
        node.sandbox.set_account(annotations);
        let run = node.run(HOST);
        assert!(run.error().contains(&format!("missing annotation {missing} of the service account")), "{run:?}");
        assert!(node.paths().is_empty());
    }
    let mut node = AcrNode::new();
    node.sandbox.set_account([(CLIENT_ID, "c"), (TENANT_ID, "../evil")]);
    assert!(node.run(HOST).error().contains("invalid tenant: neither an id nor a domain"));
    assert!(node.paths().is_empty());
}

#[test]
fn service_principal_secret_is_the_password() {
    let mut node = AcrNode::new();
    let secret = node.sandbox.secret("client secret");
    node.config = json!({"tenantId": "home", "aadClientId": "sp", "aadClientSecret": secret});
    let run = node.run(&format!("{HOST}/x"));
    assert_eq!(
        (run.auth(), &*run.cache_duration()),
        (vec![ANYBODY.to_owned(), format!("{HOST} sp:{secret}")], "1h0m0s")
    );
    assert!(node.paths().is_empty());
    node.config["aadClientSecret"] = "".into();
    assert!(node.run(HOST).error().contains("missing identity of this node in the Azure configuration"));
}

#[test]
fn service_principal_certificate_signs() {
    let mut node = AcrNode::new();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
    let path = node.sandbox.file("sp.pem", format!("{}{}", certificate.pem(), key.serialize_pem()));
    node.config = json!({"tenantId": "home", "aadClientId": "sp", "aadClientCertPath": path});
    let run = node.run(HOST);
    assert_eq!(run.auth(), [ANYBODY, &format!("{HOST} 00000000-0000-0000-0000-000000000000:{}", node.password)]);
    assert_eq!(node.paths(), ["/home/oauth2/v2.0/token", "/v2/", "/oauth2/exchange"]);
    let seen = node.azure.seen();
    assert_eq!((seen[0].field("client_id"), seen[0].field("client_secret")), ("sp", ""));
    let assertion: Vec<_> = seen[0].field("client_assertion").split('.').collect();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(assertion[1]).unwrap()).unwrap();
    assert_eq!(
        (&claims["iss"], &claims["aud"]),
        (&json!("sp"), &json!(format!("{}/home/oauth2/v2.0/token", node.azure.url)))
    );
    // A secret takes precedence and is the password.
    node.config["aadClientSecret"] = "s".into();
    assert_eq!(node.run(HOST).auth(), [ANYBODY, &format!("{HOST} sp:s")]);
    node.config["aadClientSecret"] = "".into();
    for (member, value, reason) in [
        ("aadClientCertPath", "/nowhere/sp.pem", "failed to read client certificate: /nowhere/sp.pem does not exist"),
        ("aadClientCertPath", node.sandbox.file("bad.pem", "hunter2").to_str().unwrap(), "no certificate found"),
        ("tenantId", "", "invalid tenant: neither an id nor a domain"),
        ("aadClientId", "", "missing identity of this node in the Azure configuration"),
    ] {
        let requests = node.azure.seen().len();
        let usual = std::mem::replace(&mut node.config[member], value.into());
        let run = node.run(HOST);
        assert!(run.error().contains(reason) && !run.stderr.contains("hunter2"), "{run:?}");
        assert_eq!(node.azure.seen().len(), requests);
        node.config[member] = usual;
    }
}

#[test]
fn configured_mirror_gets_password_of_node() {
    let mut node = AcrNode::new();
    let line = format!(
        "--registry-mirror=mcr.microsoft.com:{HOST},a.example:b.azurecr.io --endpoint {HOST}={}",
        node.azure.url
    );
    let expected = format!("00000000-0000-0000-0000-000000000000:{}", node.password);
    let auth = [ANYBODY.to_owned(), format!("{HOST} {expected}"), format!("mcr.microsoft.com {expected}")];
    assert_eq!(node.run_with(&line, "mcr.microsoft.com/x").auth(), auth);
    // The pod's identity is not used for mirrors.
    node.sandbox.set_account([]);
    assert_eq!(node.run_with(&line, "mcr.microsoft.com/x").auth(), auth);
    for other in ["mcr.microsoft.com.evil.io/x", "docker.io/mcr.microsoft.com/x"] {
        assert_eq!(node.run_with(&line, other).auth(), [""; 0], "{other}");
    }
}

#[test]
fn responds_in_requested_version() {
    let mut node = AcrNode::new();
    for version in [ProviderApiVersion::V1, ProviderApiVersion::V1beta1, ProviderApiVersion::V1alpha1] {
        node.sandbox.api_version = version;
        assert_eq!(node.run_with("--v=3", HOST).response()["apiVersion"], version.as_str());
    }
}

#[test]
fn registry_host_vectors() {
    let vectors: Value = serde_json::from_str(include_str!("hosts.json")).unwrap();
    let mut node = AcrNode::new();
    node.config = json!({"aadClientId": "sp", "aadClientSecret": "s"});
    let cloud =
        r#"{"name":"mine","containerRegistryDNSSuffix":".azurecr.my.cloud","activeDirectoryEndpoint":"https://x"}"#;
    let cloud = node.sandbox.file("cloud.json", cloud);
    node.sandbox.set("AZURE_ENVIRONMENT_FILEPATH", cloud.to_str().unwrap());
    for vector in vectors["acrLoginServer"].as_array().unwrap() {
        let (image, expected) = (vector["image"].as_str().unwrap(), vector["loginServer"].as_str().unwrap());
        let image = image.trim_end_matches(":version");
        let expected = if expected.is_empty() { vec![] } else { vec![ANYBODY.to_owned(), format!("{expected} sp:s")] };
        assert_eq!(node.run(image).auth(), expected, "{image}");
    }
}

#[test]
fn nothing_for_lookalike_hosts() {
    let mut node = AcrNode::new();
    node.config = json!({"aadClientId": "sp", "aadClientSecret": "s"});
    for host in [
        "foo.azurecr.io",
        "foo.azurecr.cn",
        "foo.azurecr.de",
        "foo.azurecr.us",
        "foo-abc123.azurecr.io",
        "foo.eastus.geo.azurecr.io",
        "foo-abc123.eastus.geo.azurecr.us",
    ] {
        assert_eq!(node.run(&format!("{host}/x")).auth(), [ANYBODY, &format!("{host} sp:s")], "{host}");
    }
    for host in [
        "evilazurecr.io",
        "azurecr.io",
        ".azurecr.io",
        "foo.evilazurecr.io",
        "foo.azurecr.io.evil.io",
        "foo.azurecr.io.example",
        "foo.azurecr.io.",
        "foo.azurecr.io:443",
        "foo.azurecr.io:5000",
        "foo.azurecr.io@evil.io",
        "evil.io@foo.azurecr.io",
        "foo.azurecr.com",
        "foo.azurecr.my.cloud",
        "Foo.azurecr.io",
        "foo.AZURECR.io",
        "foo_bar.azurecr.io",
        "foo-.azurecr.io",
        "foo-a-b.azurecr.io",
        "foo.bar.azurecr.io",
        "foo.eastus.data.azurecr.io",
        "foo.geo.azurecr.io",
        "foo.a.b.geo.azurecr.io",
        "xn--fo-fka.azurecr.io",
        "fоo.azurecr.io",
        "[::1]",
        "[fe80::1]:5000",
        "169.254.169.254",
        "mcr.microsoft.com",
        "https:",
    ] {
        let run = node.run(&format!("{host}/foo.azurecr.io/x"));
        assert_eq!((run.auth(), run.cache_duration()), (vec![], "0s".to_owned()), "{host}");
    }
}
