//! `credlet image` with provider processes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contract;

use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use credlet_api::Secret;
use credlet_testkit::plugin::{OutputStream, TestPlugin};
use credlet_testkit::sandbox::{CommandOutput, Sandbox};
use credlet_testkit::server::ResponseFuture;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde_json::Value;

const CREDLET: &str = env!("CARGO_BIN_EXE_credlet");

/// Configuration with one provider for `*.io`, and an environment that selects it.
struct ImageSandbox {
    sandbox: Sandbox,
    password: Secret,
    plugin: TestPlugin,
}

impl std::ops::Deref for ImageSandbox {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl ImageSandbox {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let password = sandbox.watch.secret("password");
        let answer = serde_json::json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Registry",
            "auth": {"*.io": {"username": "ada", "password": password.expose()}},
        });
        Self::with(sandbox, password, TestPlugin::new().prints(answer.to_string()))
    }

    fn with(sandbox: Sandbox, password: Secret, plugin: TestPlugin) -> Self {
        fs::create_dir(sandbox.path("bin")).unwrap();
        plugin.install(&sandbox.path("bin"), "provider");
        let sandbox = Self { sandbox, password, plugin };
        sandbox.write(&["*.io", "docker.io:443"]);
        sandbox
    }

    fn write(&self, patterns: &[&str]) {
        let patterns: String = patterns.iter().map(|pattern| format!("  - \"{pattern}\"\n")).collect();
        let text = format!(
            "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\nproviders:\n- name: provider\n  \
             apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 1h\n  matchImages:\n{patterns}"
        );
        fs::write(self.config(), text).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.path("config.yaml")
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = self.sandbox.command(program, args);
        command.env_remove("PATH").env("CREDLET_IMAGE_CONFIG", self.config());
        command.env("CREDLET_IMAGE_BIN_DIR", self.path("bin"));
        command
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        self.run_as(CREDLET, &[&["image"], args].concat(), "")
    }

    fn run_as(&self, program: &str, args: &[&str], input: &str) -> CommandOutput {
        self.run_with_input(self.command(program, args), input.as_bytes())
    }
}

#[test]
fn get_masks_the_password() {
    let sandbox = ImageSandbox::new();
    let ran = sandbox.run(&["get", "a.io/team/app:v1", "example.com/x"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    sandbox.watch.text(&ran.stdout);
    assert!(ran.stdout.starts_with("a.io/team/app\n  1. *.io\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("from      provider\n") && ran.stdout.contains("username  ada\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("example.com/x\n  no credentials"), "{}", ran.stdout);
}

#[test]
fn get_prints_every_format() {
    let sandbox = ImageSandbox::new();
    let password = sandbox.password.expose();
    let out = |format: &str| sandbox.run(&["get", "-o", format, "busybox"]).stdout;
    assert_eq!(out("raw"), format!("{password}\n"));
    assert_eq!(out("crictl"), format!("ada:{password}\n"));
    assert_eq!(out("env"), format!("REGISTRY_USERNAME='ada'\nREGISTRY_PASSWORD='{password}'\n"));
    for format in ["docker-config", "podman"] {
        let config: Value = serde_json::from_str(&out(format)).unwrap();
        assert!(config["auths"]["https://index.docker.io/v1/"]["auth"].is_string(), "{config}");
    }
    let masked = out("json");
    sandbox.watch.text(&masked);
    let masked: Value = serde_json::from_str(&masked).unwrap();
    assert_eq!(masked[0]["image"], "docker.io/library/busybox");
    assert_eq!(masked[0]["credentials"][0]["provider"], "provider");
    let shown = sandbox.run(&["get", "-o", "json", "--reveal", "busybox"]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()[0]["credentials"][0]["password"], password);
}

#[test]
fn exit_code_reports_missing_credential() {
    let sandbox = ImageSandbox::new();
    let ran = sandbox.run(&["get", "-o", "crictl", "example.com/x"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""));
    assert!(ran.stderr.contains("no credential found for example.com/x"), "{}", ran.stderr);
    assert_eq!(sandbox.run(&["get", "UPPER"]).code, Some(2));
    assert_eq!(sandbox.plugin.runs(), 0);
}

#[test]
fn accepts_kubelet_flags() {
    let sandbox = ImageSandbox::new();
    let (config, bin_dir) = (sandbox.config(), sandbox.path("bin"));
    for (config_flag, bin_flag) in
        [("--config", "--bin-dir"), ("--image-credential-provider-config", "--image-credential-provider-bin-dir")]
    {
        let args =
            ["image", "get", "a.io/x", config_flag, config.to_str().unwrap(), bin_flag, bin_dir.to_str().unwrap()];
        let output = sandbox.command(CREDLET, &args).env_remove("CREDLET_IMAGE_CONFIG").output().unwrap();
        assert!(output.status.success());
    }
    let ran = sandbox.run(&["get", "a.io/x", "--config", "/no/such/file"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("/no/such/file"), "{}", ran.stderr);
}

#[test]
fn match_reports_result_and_reason() {
    let sandbox = ImageSandbox::new();
    let yes = sandbox.run(&["match", "*.io", "a.io/x"]);
    assert_eq!((yes.code, yes.stdout.as_str()), (Some(0), "✓ `*.io` matches a.io/x\n"));
    let no = sandbox.run(&["match", "a.io/*", "a.io/x"]);
    assert_eq!(no.code, Some(1));
    assert!(no.stdout.contains("a `*` in a path never matches"), "{}", no.stdout);
    let many = sandbox.run_as(CREDLET, &["image", "match", "--stdin", "-o", "json"], "*.io\ta.io/x\na.io\tb.io/x\n");
    let lines: Vec<Value> = many.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((many.code, lines.len()), (Some(1), 2));
    assert_eq!((&lines[0]["match"], &lines[1]["match"]), (&Value::Bool(true), &Value::Bool(false)));
}

#[test]
fn explain_reports_near_misses() {
    let sandbox = ImageSandbox::new();
    let ran = sandbox.run(&["explain", "a.io/x"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for part in
        ["✓ the pattern `*.io` matches", "✓ the credential for `*.io` is tried", "One credential would be tried."]
    {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
    sandbox.write(&["a.io:443", "a.io/*"]);
    let ran = sandbox.run(&["explain", "a.io/x"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stdout.contains("hint: `a.io:443` nearly matches"), "{}", ran.stdout);
    let object: Value = serde_json::from_str(&sandbox.run(&["explain", "a.io/x", "-o", "json"]).stdout).unwrap();
    assert_eq!(object["providers"][0]["misses"][1]["near"], true);
    assert_eq!(object["providers"][0]["outcome"], "not asked");
}

#[test]
fn lint_exit_code_separates_errors_and_warnings() {
    let sandbox = ImageSandbox::new();
    let ran = sandbox.run(&["lint"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    assert!(ran.stdout.contains("warning: ") && ran.stdout.contains("1 providers, sha256:"), "{}", ran.stdout);
    assert_eq!(sandbox.run(&["lint", "--strict"]).code, Some(1));
    sandbox.write(&["r.io/*"]);
    let ran = sandbox.run(&["lint"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stdout.contains("config.yaml:4: providers[0] (provider): pattern `r.io/*` cannot match any image"),
        "{}",
        ran.stdout
    );
    sandbox.write(&["%zz", "r.io:*"]);
    let ran = sandbox.run(&["lint", "-o", "json"]);
    assert_eq!(ran.code, Some(2));
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(object["mistakes"].as_array().unwrap().len(), 2);
    assert_eq!(sandbox.plugin.runs(), 0);
}

#[test]
fn lint_runs_providers_only_with_run() {
    let sandbox = ImageSandbox::new();
    sandbox.write(&["*.io"]);
    let ran = sandbox.run(&["lint", "--run", "a.io/x", "--run", "b.io/y", "--run", "example.com/z"]);
    assert_eq!((ran.code, sandbox.plugin.runs()), (Some(0), 2), "{}", ran.stdout);
    assert!(!ran.stdout.contains("no pattern of the provider covers it"), "{}", ran.stdout);
    sandbox.write(&["a.io/team"]);
    let ran = sandbox.run(&["lint", "--run", "a.io/team/app"]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.stdout.contains("unexpected credential for `*.io` in the response: no pattern of the provider covers it"),
        "{}",
        ran.stdout
    );
    assert_eq!(sandbox.run(&["lint", "--strict", "--run", "a.io/team/app"]).code, Some(1));
    let single = sandbox.run(&["run-plugin", "provider", "a.io/team/app"]);
    assert!(single.stdout.contains("warning   unexpected credential for `*.io`"), "{}", single.stdout);

    let sandbox = Sandbox::new();
    let password = sandbox.watch.secret("password");
    let sandbox = ImageSandbox::with(sandbox, password, TestPlugin::failing(4, "the login has expired\n"));
    let ran = sandbox.run(&["lint", "--run", "a.io/x", "-o", "json"]);
    assert_eq!(ran.code, Some(1));
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    let told = object["errors"][0].as_str().unwrap();
    assert!(
        told.contains("failed to run the provider for `a.io/x`: `provider` exited with code 4: the login has expired"),
        "{told}"
    );
}

#[test]
fn run_plugin_reports_run_and_fault() {
    let sandbox = ImageSandbox::new();
    let ran = sandbox.run(&["run-plugin", "provider", "example.com/x:v1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    sandbox.watch.text(&ran.stdout);
    assert!(ran.stdout.contains("\"image\":\"example.com/x\"}"), "{}", ran.stdout);
    assert!(ran.stdout.contains("cacheKeyType Registry, cached for 1h0m0s"), "{}", ran.stdout);
    assert_eq!(sandbox.run(&["run-plugin", "other", "a.io/x"]).code, Some(2));

    let sandbox = Sandbox::new();
    let password = sandbox.watch.secret("password");
    let answer = format!("{{\"password\":\"{}\"}}", password.expose());
    let broken =
        TestPlugin::new().prints_to(OutputStream::Stderr, format!("giving {}\n", password.expose())).prints(answer);
    let sandbox = ImageSandbox::with(sandbox, password, broken);
    let ran = sandbox.run(&["run-plugin", "provider", "a.io/x"]);
    sandbox.watch.text(&ran.stdout);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("unexpected apiVersion ``"), "{}", ran.stderr);
    assert!(ran.stdout.contains("stderr    giving [redacted]"), "{}", ran.stdout);
}

#[test]
fn docker_credential_helper_returns_credentials() {
    let sandbox = ImageSandbox::new();
    let helper = sandbox.path("docker-credential-credlet");
    symlink(CREDLET, &helper).unwrap();
    let helper = helper.to_str().unwrap();
    for server in ["https://index.docker.io/v1/", "a.io", "https://a.io\n", "a.io/team/app"] {
        let ran = sandbox.run_as(helper, &["get"], server);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(answer["ServerURL"], server.trim());
        assert_eq!(answer["Username"], "ada");
        assert_eq!(answer["Secret"], sandbox.password.expose());
    }
    let none = sandbox.run_as(helper, &["get"], "example.com");
    assert_eq!((none.code, none.stdout.as_str()), (Some(1), "credentials not found in native keychain\n"));
    assert_eq!(sandbox.run_as(helper, &["list"], "").stdout, "{}\n");
    for verb in ["store", "erase"] {
        let ran = sandbox.run_as(helper, &[verb], "a.io");
        assert_eq!(ran.code, Some(1));
        assert!(ran.stdout.contains("and stores none"), "{}", ran.stdout);
    }
}

#[test]
fn docker_credential_helper_reports_failure() {
    let sandbox = Sandbox::new();
    let password = sandbox.watch.secret("password");
    let sandbox = ImageSandbox::with(sandbox, password, TestPlugin::failing(4, "the login has expired\n"));
    let ran = sandbox.run_as(CREDLET, &["image", "docker-credential", "get"], "a.io");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "`provider` exited with code 4: the login has expired\n"));
}

#[test]
fn cloud_providers_work_by_published_names() {
    let sandbox = ImageSandbox::new();
    let secret = sandbox.watch.secret("client secret");
    let config = sandbox.path("azure.json");
    let text = serde_json::json!({"aadClientId": "sp", "aadClientSecret": secret.expose()});
    fs::write(&config, text.to_string()).unwrap();
    let ask = |name: &str, args: &[&str], image: &str| {
        let provider = sandbox.path(name);
        if !provider.exists() {
            symlink(CREDLET, &provider).unwrap();
        }
        let request = format!(
            "{{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"image\":\"{image}\"}}"
        );
        sandbox.run_as(provider.to_str().unwrap(), args, &request)
    };
    // A service principal needs nobody else.
    let ran = ask("acr-credential-provider", &[config.to_str().unwrap(), "--v=3"], "foo.azurecr.io/x");
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["auth"]["foo.azurecr.io"]["password"], secret.expose());
    let elsewhere = "evil.example/x";
    for (name, args) in [
        ("ecr-credential-provider", &["get-credentials"][..]),
        ("auth-provider-gcp", &["get-credentials", "--v=3"]),
        ("acr-credential-provider", &[config.to_str().unwrap()]),
        ("credlet-ecr", &[]),
        ("credlet-gar", &[]),
        ("credlet-acr", &[config.to_str().unwrap()]),
    ] {
        let ran = ask(name, args, elsewhere);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{name}");
        let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((&answer["auth"], &answer["cacheDuration"]), (&serde_json::json!({}), &"0s".into()), "{name}");
    }
}

#[test]
fn provider_calls_docker_credential_helpers() {
    // The helper is credlet itself, so one goes round in a circle: provider → docker helper → provider.
    let sandbox = ImageSandbox::new();
    let helpers = sandbox.path("helpers");
    fs::create_dir(&helpers).unwrap();
    symlink(CREDLET, helpers.join("docker-credential-credlet")).unwrap();
    let provider = sandbox.path("credlet-docker-helper");
    symlink(CREDLET, &provider).unwrap();
    let ask = |args: &[&str], image: &str| {
        let request = format!(
            "{{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"image\":\"{image}\"}}"
        );
        let mut command = sandbox.command(provider.to_str().unwrap(), args);
        command.env("PATH", &helpers);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        sandbox.watch.text(String::from_utf8_lossy(&output.stderr));
        output
    };
    let output = ask(&["--helper", "credlet", "--cache-duration", "5m"], "a.io/team/app");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["cacheKeyType"], "Registry");
    assert_eq!(answer["cacheDuration"], "5m0s");
    assert_eq!(answer["auth"]["a.io"]["password"], sandbox.password.expose());
    let nothing: Value = serde_json::from_slice(&ask(&["--helper", "credlet"], "example.com/x").stdout).unwrap();
    assert_eq!((&nothing["auth"], &nothing["cacheDuration"]), (&serde_json::json!({}), &Value::from("0s")));
    let other: Value = serde_json::from_slice(&ask(&["--helper", "b.io=credlet"], "a.io/x").stdout).unwrap();
    assert_eq!(other["auth"], serde_json::json!({}));
    let missing = ask(&["--helper", "none"], "a.io/x");
    assert!(!missing.status.success() && missing.stdout.is_empty());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("`docker-credential-none` is not installed"));
}

/// A pod, its service account, and a token for it; what was asked for is noted in `wished`.
fn api_server(
    granted: String,
    wished: Arc<Mutex<Vec<u8>>>,
) -> impl Fn(Request<Incoming>) -> ControlFlow<ResponseFuture, Request<Incoming>> + Send + Sync + 'static {
    let account = "/api/v1/namespaces/shop/serviceaccounts/robot";
    move |request| {
        let answer = match request.uri().path() {
            "/api/v1/namespaces/shop/pods/web" => {
                r#"{"metadata":{"uid":"pod-uid"},"spec":{"serviceAccountName":"robot"}}"#.to_owned()
            }
            path if path == account => r#"{"metadata":{"uid":"sa-uid","annotations":{"a.io/role":"r"}}}"#.to_owned(),
            path if path == format!("{account}/token") => granted.clone(),
            _ => return ControlFlow::Continue(request),
        };
        let wished = Arc::clone(&wished);
        ControlFlow::Break(Box::pin(async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            if !body.is_empty() {
                *wished.lock().unwrap() = body.to_vec();
            }
            http::Response::new(Full::new(Bytes::from(answer)).boxed_unsync())
        }))
    }
}

#[test]
fn requests_service_account_token_from_cluster() {
    use credlet_testkit::ca::TestCa;
    use credlet_testkit::server::FakeApiServer;

    let sandbox = Sandbox::new();
    let (token, mine) = (sandbox.watch.secret("token"), sandbox.watch.secret("mine"));
    let ca = TestCa::new();
    let granted = format!("{{\"kind\":\"TokenRequest\",\"status\":{{\"token\":\"{}\"}}}}", token.expose());
    let wished = Arc::new(Mutex::new(Vec::new()));
    let server = FakeApiServer::setup(&ca).answering(api_server(granted, Arc::clone(&wished))).start_in_thread();
    server.accept_token(mine.expose());
    let answer = "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
                  \"cacheKeyType\":\"Registry\",\"auth\":{\"a.io\":{\"username\":\"pod\",\"password\":\"secret-of-pod\"}}}";
    let sandbox = ImageSandbox::with(sandbox, token, TestPlugin::new().reports_with_stdin().prints(answer));
    let mut config = fs::read_to_string(sandbox.config()).unwrap();
    config += "  tokenAttributes:\n    serviceAccountTokenAudience: registry\n    cacheType: ServiceAccount\n    \
               requireServiceAccount: true\n    requiredServiceAccountAnnotationKeys: [a.io/role]\n";
    fs::write(sandbox.config(), config).unwrap();
    fs::write(sandbox.path("ca.pem"), ca.pem()).unwrap();
    let kubeconfig = sandbox.path("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {{server: \"{}\", \
         certificate-authority: ca.pem}}\ncontexts:\n- name: c\n  context: {{cluster: c, user: u}}\nusers:\n- name: u\n  \
         user: {{token: \"{}\"}}\n",
        server.url(),
        mine.expose()
    );
    fs::write(&kubeconfig, text).unwrap();

    let without = sandbox.run(&["explain", "a.io/x"]);
    assert!(without.stdout.contains("missing service account"), "{}", without.stdout);
    let args = ["get", "a.io/x", "-o", "json", "--pod", "shop/web", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let ran = sandbox.run(&args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    sandbox.watch.text(&ran.stdout);
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(object[0]["credentials"][0]["serviceAccount"]["uid"], "sa-uid", "{object}");
    let asked: Value = serde_json::from_slice(&sandbox.plugin.report().stdin.unwrap()).unwrap();
    assert_eq!(asked["serviceAccountToken"], sandbox.password.expose());
    assert_eq!(asked["serviceAccountAnnotations"]["a.io/role"], "r");
    let args = ["run-plugin", "provider", "a.io/x", "--pod", "shop/web", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let single = sandbox.run(&args);
    sandbox.watch.text(&single.stdout);
    let sent = "\"serviceAccountToken\":\"[redacted]\",\"serviceAccountAnnotations\":{\"a.io/role\":\"r\"}";
    assert!(single.stdout.contains(sent), "{}", single.stdout);
    let wish: Value = serde_json::from_slice(&wished.lock().unwrap()).unwrap();
    assert_eq!(wish["spec"]["audiences"][0], "registry");
    assert_eq!(wish["spec"]["boundObjectRef"]["uid"], "pod-uid");
    assert_eq!(wish["metadata"]["uid"], "sa-uid");
}
