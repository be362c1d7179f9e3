//! `credlet plugin oidc` as a process: full disks, killed processes, private certificate authorities, logout.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use credlet_api::Secret;
use credlet_testkit::ca::TestCa;
use credlet_testkit::issuer::{FakeIssuer, IssuerRequest};
use credlet_testkit::sandbox::Sandbox;
use serde_json::Value;

const CREDLET: &str = env!("CARGO_BIN_EXE_credlet");
const V1: &str =
    r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;

/// A TLS issuer for client credentials, and a home directory.
struct OidcSandbox {
    sandbox: Sandbox,
    token: Secret,
    ca: TestCa,
    issuer: FakeIssuer,
}

impl std::ops::Deref for OidcSandbox {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl OidcSandbox {
    fn new() -> Self {
        let (sandbox, ca) = (Sandbox::new(), TestCa::new());
        let token = sandbox.watch.secret("token");
        let issuer = FakeIssuer::start_with_tls(&ca);
        issuer.state().access_token = Some(token.expose().to_owned());
        sandbox.file("ca.pem", ca.pem());
        Self { sandbox, token, ca, issuer }
    }

    fn tokens(&self) -> PathBuf {
        self.path(".cache/credlet/oidc")
    }

    fn flags(&self) -> Vec<String> {
        let flags = ["--grant-type=client-credentials", "--oidc-client-id=robot"].map(str::to_owned);
        let issuer = format!("--oidc-issuer-url={}", self.issuer.url());
        let ca = format!("--certificate-authority={}", self.path("ca.pem").display());
        flags.into_iter().chain([issuer, ca]).collect()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.sandbox.command(program, &[]);
        command.env("KUBERNETES_EXEC_INFO", V1).env("CREDLET_OIDC_CLIENT_SECRET", "s3cr3t-of-a-robot");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn plugin(&self, verb: &str, flags: &[String]) -> Command {
        let mut command = self.command(CREDLET);
        command.args(["plugin", "oidc", verb]).args(flags);
        command
    }

    /// Returns the credential and standard error.
    fn ran(&self, output: &Output) -> (Option<Value>, String) {
        let stderr = String::from_utf8(output.stderr.clone()).unwrap();
        self.watch.text(&stderr);
        assert!(!stderr.contains("s3cr3t-of-a-robot"), "{stderr}");
        (serde_json::from_slice(&output.stdout).ok(), stderr)
    }

    fn token(&self, output: &Output) -> String {
        let (answer, stderr) = self.ran(output);
        assert_eq!(answer.unwrap_or_default()["status"]["token"], self.token.expose(), "{stderr}");
        stderr
    }

    /// Waits for this number of token requests.
    fn wait_for_requests(&self, times: usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let is_token = |request: &IssuerRequest| request.path == "/token";
        runtime.block_on(self.issuer.until(|requests| requests.iter().filter(|it| is_token(it)).count() >= times));
    }
}

#[test]
fn private_ca_of_issuer_must_be_configured() {
    let sandbox = OidcSandbox::new();
    let without: Vec<_> = sandbox.flags().into_iter().filter(|flag| !flag.contains("authority")).collect();
    let output = sandbox.plugin("get-token", &without).output().unwrap();
    let (answer, stderr) = sandbox.ran(&output);
    assert!(answer.is_none() && stderr.contains("invalid certificate of"), "{stderr}");

    sandbox.token(&sandbox.plugin("get-token", &sandbox.flags()).output().unwrap());
    let data = base64(sandbox.ca.pem());
    let by_data = [without.as_slice(), &[format!("--certificate-authority-data={data}")]].concat();
    sandbox.token(&sandbox.plugin("get-token", &by_data).output().unwrap());
    let unchecked = [without.as_slice(), &["--insecure-skip-tls-verify".to_owned()]].concat();
    sandbox.token(&sandbox.plugin("get-token", &unchecked).output().unwrap());
    // The trusted authority is part of the login's key, independent of the flag that states it.
    assert_eq!(sandbox.issuer.seen("/token"), 2);
}

fn base64(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let letter = if at <= chunk.len() { LETTERS[(word >> (18 - 6 * at)) as usize & 63] } else { b'=' };
            write!(out, "{}", char::from(letter)).unwrap();
        }
    }
    out
}

#[test]
fn full_disk_warns_once_and_returns_a_token() {
    let sandbox = OidcSandbox::new();
    for _ in 0..2 {
        let mut shell = sandbox.command("/bin/sh");
        // A file size limit of 0 has the effect of a full disk.
        shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh", CREDLET, "plugin", "oidc", "get-token"]);
        let stderr = sandbox.token(&shell.args(sandbox.flags()).output().unwrap());
        assert_eq!(stderr.matches("warning: failed to store the login").count(), 1, "{stderr}");
    }
    assert_eq!(sandbox.issuer.seen("/token"), 2);
    let left: Vec<_> = fs::read_dir(sandbox.tokens()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_str().unwrap().ends_with(".lock")), "{left:?}");
}

#[test]
fn read_only_directory_returns_a_token() {
    let sandbox = OidcSandbox::new();
    // A private directory of this user in which not even root can create files.
    let flags = [sandbox.flags().as_slice(), &["--token-cache-dir=/proc/self/fd".to_owned()]].concat();
    let stderr = sandbox.token(&sandbox.plugin("get-token", &flags).output().unwrap());
    assert_eq!(stderr.matches("warning: ").count(), 1, "{stderr}");
}

#[test]
fn killed_login_releases_the_lock() {
    let sandbox = OidcSandbox::new();
    sandbox.issuer.pause(true);
    let flags = sandbox.flags();
    let start = || sandbox.plugin("get-token", &flags).spawn().unwrap();
    let mut first: Child = start();
    sandbox.wait_for_requests(1);
    let second = start();
    first.kill().unwrap();
    first.wait().unwrap();
    // The second process has the lock now and sends its request.
    sandbox.wait_for_requests(2);
    sandbox.issuer.pause(false);
    sandbox.token(&second.wait_with_output().unwrap());
    sandbox.token(&start().wait_with_output().unwrap());
    assert_eq!(sandbox.issuer.seen("/token"), 2, "the token was stored");
}

#[test]
fn headers_are_sent_with_every_request() {
    let sandbox = OidcSandbox::new();
    let flags = [sandbox.flags().as_slice(), &["--oidc-request-header=X-Tenant=blue,X-More=a=b".to_owned()]].concat();
    sandbox.token(&sandbox.plugin("get-token", &flags).output().unwrap());
    let requests = sandbox.issuer.requests();
    assert!(requests.len() >= 2);
    assert!(requests.iter().all(|request| request.headers["x-tenant"] == "blue" && request.headers["x-more"] == "a=b"));
}

#[test]
fn flags_are_taken_from_the_context() {
    let sandbox = OidcSandbox::new();
    let kubeconfig = sandbox.path("kubeconfig");
    let quote = |args: &[String]| args.iter().map(|arg| format!("{arg:?}, ")).collect::<String>();
    // One with a cache, one without, and another plugin.
    let text = format!(
        "current-context: wrapped\nclusters: []\ncontexts:\n- {{name: wrapped, context: {{user: wrapped}}}}\n\
         - {{name: plain, context: {{user: plain}}}}\n- {{name: other, context: {{user: other}}}}\nusers:\n\
         - {{name: wrapped, user: {{exec: {{command: credlet, args: [cache, --, credlet-oidc, get-token, {flags}], \
         env: [{{name: CREDLET_OIDC_CLIENT_SECRET, value: s3cr3t-of-a-robot}}]}}}}}}\n\
         - {{name: plain, user: {{exec: {{command: credlet-oidc, args: [get-token, {flags}]}}}}}}\n\
         - {{name: other, user: {{exec: {{command: aws, args: [eks]}}}}}}\n",
        flags = quote(&sandbox.flags())
    );
    fs::write(&kubeconfig, text).unwrap();
    let run = |verb: &str, args: &[&str]| {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut command = sandbox.plugin(verb, &args);
        let output = command.env("KUBECONFIG", &kubeconfig).env_remove("CREDLET_OIDC_CLIENT_SECRET").output().unwrap();
        let (_, stderr) = sandbox.ran(&output);
        (String::from_utf8(output.stdout).unwrap(), stderr)
    };
    let file = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let url = sandbox.issuer.url();
    assert_eq!(run("login", &file).0, format!("Logged in at {url} as robot.\n"));
    assert_eq!(fs::read_dir(sandbox.tokens()).unwrap().count(), 2, "a login and its lock");
    assert_eq!(run("logout", &["--context", "wrapped"]).0, format!("Logged out robot at {url}.\n"));
    assert!(run("login", &["--context", "plain"]).1.contains("`--oidc-client-secret` is missing"));
    let other_place = ["--context", "wrapped", "--token-cache-dir", "/proc/self/fd"];
    assert!(run("login", &other_place).1.contains("warning: "), "flags override the kubeconfig");
    assert!(run("logout", &["--context", "other"]).1.contains("is `aws`"));
    assert!(run("logout", &["--context", "none"]).1.contains("context \"none\" not found"));

    run("login", &["--context", "wrapped"]);
    run("login", &["--context", "wrapped", "--oidc-extra-scope=more"]);
    let (stdout, _) = run("logout", &["--all"]);
    assert_eq!(stdout, format!("Logged out robot at {url}.\n").repeat(2));
    assert_eq!(run("logout", &["--all"]).0, "No logins are stored.\n");
    assert_eq!(run("status", &[]).0, "No logins are stored.\n");
}

/// The policy also applies to the browser command of a kubeconfig.
#[test]
fn browser_command_requires_permission() {
    let sandbox = OidcSandbox::new();
    let trace = sandbox.path("trace");
    let script = sandbox.path("evil");
    fs::write(&script, format!("#!/bin/sh\necho run >{}\n", trace.display())).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let kuberc = format!(
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: Allowlist\n\
         credentialPluginAllowlist: [{{command: {CREDLET}}}, {{command: credlet-oidc}}]\n"
    );
    fs::create_dir(sandbox.path(".kube")).unwrap();
    fs::write(sandbox.path(".kube/kuberc"), kuberc).unwrap();
    let script = script.to_str().unwrap();
    let usual = ["--grant-type=authcode", "--listen-address=127.0.0.1:0", "--authentication-timeout-sec=1"];
    for (flag, browser) in [(Some(format!("--browser-command={script}")), ""), (None, script)] {
        let flags = sandbox.flags().into_iter().skip(1).chain(usual.map(str::to_owned)).chain(flag);
        let mut command = sandbox.plugin("get-token", &flags.collect::<Vec<_>>());
        command.env("BROWSER", browser).env("KUBERC", "off").env("XDG_CONFIG_HOME", "/nonexistent");
        let output = command.output().unwrap();
        let (answer, stderr) = sandbox.ran(&output);
        assert!(answer.is_none(), "{stderr}");
        assert!(!stderr.contains("A browser window opens"), "{stderr}");
        assert!(!trace.exists(), "{stderr}");
    }
}

/// A cached token is served by every form of the cache, and by none after a logout.
#[test]
fn logout_invalidates_the_plugin_cache() {
    use std::os::unix::fs::symlink;
    let sandbox = OidcSandbox::new();
    let bin = sandbox.path("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["credlet", "credlet-oidc", "credlet-cache-credlet-oidc", "kubelogin"] {
        symlink(CREDLET, bin.join(name)).unwrap();
    }
    let forms: [&[&str]; 4] = [
        &["credlet", "cache", "--", "credlet-oidc"],
        &["credlet", "cache", "--cache-dir", "chosen", "--", "kubelogin"],
        &["credlet-cache-credlet-oidc"],
        &["credlet", "cache", "--", "credlet", "plugin", "oidc"],
    ];
    let requests = || sandbox.issuer.seen("/token");
    let serve = |form: &[&str]| {
        let mut command = sandbox.command(bin.join(form[0]).to_str().unwrap());
        command.env("PATH", &bin).current_dir(sandbox.dir()).args(&form[1..]).arg("get-token").args(sandbox.flags());
        sandbox.token(&command.output().unwrap());
    };
    let logouts: [&[&str]; 2] = [&["logout"], &["logout", "--all"]];
    for logout in logouts {
        for form in forms {
            serve(form);
            // Without a stored login the plugin would have to send a request.
            fs::remove_dir_all(sandbox.tokens()).unwrap();
            let before = requests();
            serve(form);
            assert_eq!(requests(), before, "{form:?} is not cached");
            // Creates a login to log out of.
            sandbox.token(&sandbox.plugin("get-token", &sandbox.flags()).output().unwrap());
            let before = requests();
            let flags = if logout.len() == 1 { sandbox.flags() } else { Vec::new() };
            let mut command = sandbox.command(CREDLET);
            // From another environment.
            command.args(["plugin", "oidc"]).args(logout).args(flags).env("OS_USERNAME", "ada").env("TERM", "xterm");
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            serve(form);
            assert_eq!(requests(), before + 1, "{form:?} was served after {logout:?}");
        }
    }
}
