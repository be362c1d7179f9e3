//! `credlet plugin oidc` as a process: what a full disk, a kill and a private certificate authority do to it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use credlet_api::Secret;
use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;
use credlet_testkit::server::{Answering, Server};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

const CREDLET: &str = env!("CARGO_BIN_EXE_credlet");
const V1: &str =
    r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;

/// An issuer behind TLS at which clients log in by themselves, and a home for the one who does.
struct Stand {
    dir: TempDir,
    watch: Watch,
    token: Secret,
    ca: Ca,
    server: Server,
    issuer: Arc<Issuer>,
}

/// What the issuer knows.
#[derive(Default)]
struct Issuer {
    token: String,
    url: Mutex<String>,
    /// How often tokens were asked for.
    asked: watch::Sender<usize>,
    /// Whether nobody is answered who asks for tokens.
    silent: watch::Sender<bool>,
    headers: Mutex<Vec<http::HeaderMap>>,
}

impl Issuer {
    fn answer(self: &Arc<Self>, request: Request<Incoming>) -> ControlFlow<Answering, Request<Incoming>> {
        let issuer = Arc::clone(self);
        self.headers.lock().unwrap().push(request.headers().clone());
        let path = request.uri().path().to_owned();
        ControlFlow::Break(Box::pin(async move {
            let url = issuer.url.lock().unwrap().clone();
            let answer = if path == "/token" {
                issuer.asked.send_modify(|asked| *asked += 1);
                issuer.silent.subscribe().wait_for(|silent| !silent).await.unwrap();
                json!({"access_token": issuer.token, "expires_in": 3600})
            } else {
                json!({"issuer": url, "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/keys")})
            };
            http::Response::new(Full::new(Bytes::from(answer.to_string())).boxed_unsync())
        }))
    }
}

impl Stand {
    fn new() -> Self {
        let (dir, watch, ca) = (tempfile::tempdir().unwrap(), Watch::new(), Ca::new());
        let token = watch.secret("token");
        let issuer = Arc::new(Issuer { token: token.expose().to_owned(), ..Issuer::default() });
        let answering = Arc::clone(&issuer);
        let server = Server::setup(&ca).answering(move |request| answering.answer(request)).start_in_thread();
        *issuer.url.lock().unwrap() = server.url();
        fs::write(dir.path().join("ca.pem"), ca.pem()).unwrap();
        Self { dir, watch, token, ca, server, issuer }
    }

    fn tokens(&self) -> PathBuf {
        self.dir.path().join(".cache/credlet/oidc")
    }

    fn flags(&self) -> Vec<String> {
        let flags = ["--grant-type=client-credentials", "--oidc-client-id=robot"].map(str::to_owned);
        let issuer = format!("--oidc-issuer-url={}", self.server.url());
        let ca = format!("--certificate-authority={}", self.dir.path().join("ca.pem").display());
        flags.into_iter().chain([issuer, ca]).collect()
    }

    #[expect(clippy::disallowed_methods, reason = "a test plays the client")]
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.dir.path()).env("PATH", "/usr/bin:/bin");
        command.env("KUBERNETES_EXEC_INFO", V1).env("CREDLET_OIDC_CLIENT_SECRET", "s3cr3t-of-a-robot");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn plugin(&self, verb: &str, flags: &[String]) -> Command {
        let mut command = self.command(CREDLET);
        command.args(["plugin", "oidc", verb]).args(flags);
        command
    }

    /// Its answer, and what it said besides.
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

    /// Waits until tokens were asked for so often.
    fn until_asked(&self, times: usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut asked = self.issuer.asked.subscribe();
        runtime.block_on(asked.wait_for(|asked| *asked >= times)).unwrap();
    }
}

#[test]
fn an_issuer_with_a_private_authority_is_believed_with_it_and_not_without() {
    let stand = Stand::new();
    let without: Vec<_> = stand.flags().into_iter().filter(|flag| !flag.contains("authority")).collect();
    let output = stand.plugin("get-token", &without).output().unwrap();
    let (answer, stderr) = stand.ran(&output);
    assert!(answer.is_none() && stderr.contains("is not accepted"), "{stderr}");

    stand.token(&stand.plugin("get-token", &stand.flags()).output().unwrap());
    let data = base64(stand.ca.pem());
    let by_data = [without.as_slice(), &[format!("--certificate-authority-data={data}")]].concat();
    stand.token(&stand.plugin("get-token", &by_data).output().unwrap());
    let unchecked = [without.as_slice(), &["--insecure-skip-tls-verify".to_owned()]].concat();
    stand.token(&stand.plugin("get-token", &unchecked).output().unwrap());
    // Whom one believes is part of what a login is kept by, and not how that is said.
    assert_eq!(*stand.issuer.asked.borrow(), 2);
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
fn on_a_full_disk_there_is_a_token_and_one_warning_and_nothing_is_left() {
    let stand = Stand::new();
    for _ in 0..2 {
        let mut shell = stand.command("/bin/sh");
        // No file may grow beyond nothing, which is how a full disk looks to the one who writes.
        shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh", CREDLET, "plugin", "oidc", "get-token"]);
        let stderr = stand.token(&shell.args(stand.flags()).output().unwrap());
        assert_eq!(stderr.matches("warning: the login cannot be kept").count(), 1, "{stderr}");
    }
    assert_eq!(*stand.issuer.asked.borrow(), 2);
    let left: Vec<_> = fs::read_dir(stand.tokens()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_str().unwrap().ends_with(".lock")), "{left:?}");
}

#[test]
fn on_a_disk_that_takes_nothing_there_is_a_token_all_the_same() {
    let stand = Stand::new();
    // Ours, private, and nobody can make a file there, not even root.
    let flags = [stand.flags().as_slice(), &["--token-cache-dir=/proc/self/fd".to_owned()]].concat();
    let stderr = stand.token(&stand.plugin("get-token", &flags).output().unwrap());
    assert_eq!(stderr.matches("warning: ").count(), 1, "{stderr}");
}

#[test]
fn whoever_is_killed_while_logging_in_holds_nobody_up() {
    let stand = Stand::new();
    stand.issuer.silent.send_replace(true);
    let flags = stand.flags();
    let start = || stand.plugin("get-token", &flags).spawn().unwrap();
    let mut first: Child = start();
    stand.until_asked(1);
    let second = start();
    first.kill().unwrap();
    first.wait().unwrap();
    // The second one has the lock now, and asks in its turn.
    stand.until_asked(2);
    stand.issuer.silent.send_replace(false);
    stand.token(&second.wait_with_output().unwrap());
    stand.token(&start().wait_with_output().unwrap());
    assert_eq!(*stand.issuer.asked.borrow(), 2, "it was kept");
}

#[test]
fn headers_are_sent_with_every_request() {
    let stand = Stand::new();
    let flags = [stand.flags().as_slice(), &["--oidc-request-header=X-Tenant=blue,X-More=a=b".to_owned()]].concat();
    stand.token(&stand.plugin("get-token", &flags).output().unwrap());
    let headers = stand.issuer.headers.lock().unwrap();
    assert!(headers.len() >= 2);
    assert!(headers.iter().all(|headers| headers["x-tenant"] == "blue" && headers["x-more"] == "a=b"));
}

#[test]
fn a_context_says_which_login_is_meant() {
    let stand = Stand::new();
    let kubeconfig = stand.dir.path().join("kubeconfig");
    let words = |words: &[String]| words.iter().map(|word| format!("{word:?}, ")).collect::<String>();
    // One behind a cache, one without, and one that is another plugin.
    let text = format!(
        "current-context: wrapped\nclusters: []\ncontexts:\n- {{name: wrapped, context: {{user: wrapped}}}}\n\
         - {{name: plain, context: {{user: plain}}}}\n- {{name: other, context: {{user: other}}}}\nusers:\n\
         - {{name: wrapped, user: {{exec: {{command: credlet, args: [cache, --, credlet-oidc, get-token, {flags}], \
         env: [{{name: CREDLET_OIDC_CLIENT_SECRET, value: s3cr3t-of-a-robot}}]}}}}}}\n\
         - {{name: plain, user: {{exec: {{command: credlet-oidc, args: [get-token, {flags}]}}}}}}\n\
         - {{name: other, user: {{exec: {{command: aws, args: [eks]}}}}}}\n",
        flags = words(&stand.flags())
    );
    fs::write(&kubeconfig, text).unwrap();
    let run = |verb: &str, args: &[&str]| {
        let args: Vec<_> = args.iter().map(|word| (*word).to_owned()).collect();
        let mut command = stand.plugin(verb, &args);
        let output = command.env("KUBECONFIG", &kubeconfig).env_remove("CREDLET_OIDC_CLIENT_SECRET").output().unwrap();
        let (_, stderr) = stand.ran(&output);
        (String::from_utf8(output.stdout).unwrap(), stderr)
    };
    let file = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let url = stand.server.url();
    assert_eq!(run("login", &file).0, format!("Logged in at {url} as robot.\n"));
    assert_eq!(fs::read_dir(stand.tokens()).unwrap().count(), 2, "a login and its lock");
    assert_eq!(run("logout", &["--context", "wrapped"]).0, format!("Logged out robot at {url}.\n"));
    assert!(run("login", &["--context", "plain"]).1.contains("`--oidc-client-secret` is missing"));
    let other_place = ["--context", "wrapped", "--token-cache-dir", "/proc/self/fd"];
    assert!(run("login", &other_place).1.contains("warning: "), "what is given counts more");
    assert!(run("logout", &["--context", "other"]).1.contains("is `aws`"));
    assert!(run("logout", &["--context", "none"]).1.contains("there is no context \"none\""));

    run("login", &["--context", "wrapped"]);
    run("login", &["--context", "wrapped", "--oidc-extra-scope=more"]);
    let (stdout, _) = run("logout", &["--all"]);
    assert_eq!(stdout, format!("Logged out robot at {url}.\n").repeat(2));
    assert_eq!(run("logout", &["--all"]).0, "Nobody is logged in.\n");
    assert_eq!(run("status", &[]).0, "Nobody is logged in.\n");
}
