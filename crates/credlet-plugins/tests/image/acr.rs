use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::image::ApiVersion;
use credlet_plugins::image::acr;
use credlet_plugins::web::escaped;
use serde_json::{Value, json};

use crate::peer::{Peer, Reply};
use crate::support::Stage;

pub(crate) const HOST: &str = "foo.azurecr.io";
const ANYBODY: &str = "*.azurecr.* :";
const CLIENT_ID: &str = "kubernetes.azure.com/acr-client-id";
const TENANT_ID: &str = "kubernetes.azure.com/acr-tenant-id";

/// A node with a managed identity, everything of Azure's that it meets, and the password that its registry gives out.
pub(crate) struct Node {
    pub(crate) stage: Stage,
    pub(crate) azure: Peer,
    /// What Entra ID gives, and the registry takes.
    pub(crate) token: String,
    pub(crate) password: String,
    pub(crate) config: Value,
    /// What the registry says in place of its usual challenge.
    pub(crate) challenge: Arc<Mutex<Reply>>,
}

pub(crate) fn usual_challenge() -> Reply {
    let challenge = format!(r#"Bearer realm="https://{HOST}/oauth2/token",service="{HOST}""#);
    Reply::With(401, "Www-Authenticate", challenge, String::new())
}

/// A JWT that ends then, watched.
fn ending(stage: &Stage, at: &Value) -> String {
    let payload = URL_SAFE_NO_PAD.encode(json!({"exp": at}).to_string());
    format!("e30.{payload}.{}", stage.secret("registry's signature").replace(['+', '/', '='], "x"))
}

impl Node {
    /// The password ends three hours after the test's time.
    pub(crate) fn new() -> Self {
        Self::with_end(&json!(1_794_781_069))
    }

    pub(crate) fn with_end(at: &Value) -> Self {
        let mut stage = Stage::new(acr::run);
        let (token, password) = (stage.secret("access token"), ending(&stage, at));
        let challenge = Arc::new(Mutex::new(usual_challenge()));
        let (granted, given, said) = (token.clone(), password.clone(), Arc::clone(&challenge));
        let azure = Peer::start(move |asked| match &*asked.path {
            path if path.starts_with("/metadata/identity/") || path.ends_with("/oauth2/v2.0/token") => {
                Reply::Answer(200, json!({"access_token": granted, "expires_in": 3600}).to_string())
            }
            "/v2/" => said.lock().unwrap().clone(),
            // Only for who has the token.
            "/oauth2/exchange" if asked.field("access_token") == &**escaped(&granted) => {
                Reply::Answer(200, json!({"refresh_token": given}).to_string())
            }
            _ => Reply::Answer(404, String::new()),
        });
        stage.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", &azure.url);
        stage.set("AZURE_AUTHORITY_HOST", &azure.url);
        let config = json!({"cloud": "AzurePublicCloud", "tenantId": "home", "useManagedIdentityExtension": true});
        Self { stage, azure, token, password, config, challenge }
    }

    pub(crate) fn ask(&self, image: &str) -> crate::support::Run {
        self.ask_with("", image)
    }

    pub(crate) fn ask_with(&self, line: &str, image: &str) -> crate::support::Run {
        let config = self.stage.file("azure.json", &self.config.to_string());
        let host = image.split('/').next().unwrap();
        let line = format!("{} --endpoint {host}={}/ {line}", config.display(), self.azure.url);
        self.stage.ask(&line, image)
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        let path = |path: &str| path.split('?').next().unwrap().to_owned();
        self.azure.seen().iter().map(|asked| path(&asked.path)).collect()
    }
}

#[test]
fn a_managed_identity_gets_the_registrys_password() {
    let node = Node::new();
    let run = node.ask(&format!("{HOST}/team/app"));
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
fn a_node_may_have_many_identities() {
    for (id, expected) in [
        ("1234", "client_id=1234"),
        ("/subscriptions/1/resourceGroups/x", "msi_res_id=%2Fsubscriptions%2F1%2FresourceGroups%2Fx"),
    ] {
        let mut node = Node::new();
        node.config["userAssignedIdentityID"] = id.into();
        node.ask(HOST).answer();
        assert!(node.azure.seen()[0].path.contains(expected), "{}", node.azure.seen()[0].path);
    }
}

#[test]
fn a_service_account_pulls_with_the_identity_that_it_names() {
    let mut node = Node::new();
    // A service principal of the node's changes nothing about that.
    node.config = json!({"tenantId": "home", "aadClientId": "sp", "aadClientSecret": "s"});
    let token = node.stage.account([(CLIENT_ID, "pod-client"), (TENANT_ID, "pod-tenant")]);
    let run = node.ask(HOST);
    assert_eq!(run.auth(), [ANYBODY, &format!("{HOST} 00000000-0000-0000-0000-000000000000:{}", node.password)]);
    assert_eq!(node.paths(), ["/pod-tenant/oauth2/v2.0/token", "/v2/", "/oauth2/exchange"]);
    let seen = node.azure.seen();
    assert_eq!((seen[0].field("client_id"), seen[0].field("grant_type")), ("pod-client", "client_credentials"));
    assert_eq!(seen[0].field("scope"), "https%3A%2F%2Fcontainerregistry.azure.net%2F.default");
    assert_eq!(seen[0].field("client_assertion"), &**escaped(token.expose()));
    assert_eq!(seen[2].field("tenant"), "pod-tenant");
    // Nothing of it stays on the node's disk.
    assert_eq!(std::fs::read_dir(node.stage.home.path()).unwrap().count(), 1);
}

#[test]
fn a_service_account_without_its_annotations_is_told_which_and_gets_nobody_elses() {
    for (annotations, missing) in [
        ([(CLIENT_ID, ""), (TENANT_ID, "t")], CLIENT_ID),
        ([(CLIENT_ID, "c"), (TENANT_ID, "")], TENANT_ID),
        ([("a", "c"), (TENANT_ID, "t")], CLIENT_ID),
        ([(CLIENT_ID, "c"), ("a", "t")], TENANT_ID),
    ] {
        let mut node = Node::new();
        node.stage.account(annotations);
        let run = node.ask(HOST);
        assert!(
            run.refusal().contains(&format!("the annotation {missing} of the service account is missing")),
            "{run:?}"
        );
        assert!(node.paths().is_empty());
    }
    let mut node = Node::new();
    node.stage.account([(CLIENT_ID, "c"), (TENANT_ID, "../evil")]);
    assert!(node.ask(HOST).refusal().contains("the tenant is neither an id nor a domain"));
    assert!(node.paths().is_empty());
}

#[test]
fn a_service_principal_is_a_user_of_the_registry_that_was_asked_for() {
    let mut node = Node::new();
    let secret = node.stage.secret("client secret");
    node.config = json!({"tenantId": "home", "aadClientId": "sp", "aadClientSecret": secret});
    let run = node.ask(&format!("{HOST}/x"));
    assert_eq!((run.auth(), &*run.remembered()), (vec![ANYBODY.to_owned(), format!("{HOST} sp:{secret}")], "1h0m0s"));
    assert!(node.paths().is_empty());
    node.config["aadClientSecret"] = "".into();
    assert!(node.ask(HOST).refusal().contains("an identity of this node in its configuration for Azure is missing"));
}

#[test]
fn a_service_principal_without_a_secret_signs_with_its_certificate() {
    let mut node = Node::new();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
    let path = node.stage.file("sp.pem", &format!("{}{}", certificate.pem(), key.serialize_pem()));
    node.config = json!({"tenantId": "home", "aadClientId": "sp", "aadClientCertPath": path});
    let run = node.ask(HOST);
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
    // A secret is a password at once.
    node.config["aadClientSecret"] = "s".into();
    assert_eq!(node.ask(HOST).auth(), [ANYBODY, &format!("{HOST} sp:s")]);
    node.config["aadClientSecret"] = "".into();
    for (member, value, reason) in [
        ("aadClientCertPath", "/nowhere/sp.pem", "the client certificate cannot be read from /nowhere/sp.pem"),
        ("aadClientCertPath", node.stage.file("bad.pem", "hunter2").to_str().unwrap(), "holds no certificate"),
        ("tenantId", "", "the tenant is neither an id nor a domain"),
        ("aadClientId", "", "an identity of this node in its configuration for Azure is missing"),
    ] {
        let asked = node.azure.seen().len();
        let usual = std::mem::replace(&mut node.config[member], value.into());
        let run = node.ask(HOST);
        assert!(run.refusal().contains(reason) && !run.stderr.contains("hunter2"), "{run:?}");
        assert_eq!(node.azure.seen().len(), asked);
        node.config[member] = usual;
    }
}

#[test]
fn a_mirror_gets_the_nodes_password_if_it_is_named() {
    let mut node = Node::new();
    let line = format!(
        "--registry-mirror=mcr.microsoft.com:{HOST},a.example:b.azurecr.io --endpoint {HOST}={}",
        node.azure.url
    );
    let expected = format!("00000000-0000-0000-0000-000000000000:{}", node.password);
    let auth = [ANYBODY.to_owned(), format!("{HOST} {expected}"), format!("mcr.microsoft.com {expected}")];
    assert_eq!(node.ask_with(&line, "mcr.microsoft.com/x").auth(), auth);
    // The pod's own identity has nothing to do with it.
    node.stage.account([]);
    assert_eq!(node.ask_with(&line, "mcr.microsoft.com/x").auth(), auth);
    for other in ["mcr.microsoft.com.evil.io/x", "docker.io/mcr.microsoft.com/x"] {
        assert_eq!(node.ask_with(&line, other).auth(), [""; 0], "{other}");
    }
}

#[test]
fn it_answers_in_the_version_that_was_asked_for() {
    let mut node = Node::new();
    for version in [ApiVersion::V1, ApiVersion::V1beta1, ApiVersion::V1alpha1] {
        node.stage.version = version;
        assert_eq!(node.ask_with("--v=3", HOST).answer()["apiVersion"], version.as_str());
    }
}

#[test]
fn registries_are_known_by_whole_labels_as_the_vectors_say() {
    let vectors: Value = serde_json::from_str(include_str!("hosts.json")).unwrap();
    let mut node = Node::new();
    node.config = json!({"aadClientId": "sp", "aadClientSecret": "s"});
    let cloud =
        r#"{"name":"mine","containerRegistryDNSSuffix":".azurecr.my.cloud","activeDirectoryEndpoint":"https://x"}"#;
    let cloud = node.stage.file("cloud.json", cloud);
    node.stage.set("AZURE_ENVIRONMENT_FILEPATH", cloud.to_str().unwrap());
    for vector in vectors["acrLoginServer"].as_array().unwrap() {
        let (image, expected) = (vector["image"].as_str().unwrap(), vector["loginServer"].as_str().unwrap());
        let image = image.trim_end_matches(":version");
        let expected = if expected.is_empty() { vec![] } else { vec![ANYBODY.to_owned(), format!("{expected} sp:s")] };
        assert_eq!(node.ask(image).auth(), expected, "{image}");
    }
}

#[test]
fn whatever_only_looks_like_a_registry_of_azures_gets_nothing() {
    let mut node = Node::new();
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
        assert_eq!(node.ask(&format!("{host}/x")).auth(), [ANYBODY, &format!("{host} sp:s")], "{host}");
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
        let run = node.ask(&format!("{host}/foo.azurecr.io/x"));
        assert_eq!((run.auth(), run.remembered()), (vec![], "0s".to_owned()), "{host}");
    }
}
