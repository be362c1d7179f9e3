use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::{DemoSandbox, assert_no_secret};

/// A running `credlet demo --serve`.
struct ServedDemo {
    sandbox: DemoSandbox,
    child: Child,
    explained: String,
}

impl ServedDemo {
    fn start() -> Self {
        let sandbox = DemoSandbox::new();
        let mut child =
            sandbox.credlet(&["demo", "--serve"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap());
        let mut explained = String::new();
        while !explained.contains("Press Ctrl-C to stop it") {
            assert_ne!(lines.read_line(&mut explained).unwrap(), 0, "{explained}");
        }
        Self { sandbox, child, explained }
    }

    fn kubeconfig(&self) -> &str {
        self.explained.split_once("export KUBECONFIG=").unwrap().1.lines().next().unwrap()
    }

    /// Runs credlet. Returns its exit code, standard output and standard error.
    fn credlet(&self, args: &[&str]) -> (i32, String) {
        let (output, stdout, stderr) = self.sandbox.run(&[args, &["--kubeconfig", self.kubeconfig()]].concat());
        (output.status.code().unwrap(), stdout + &stderr)
    }

    /// Stops the demo. Returns its request log.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        assert_eq!(self.child.wait().unwrap().signal(), Some(2));
        assert!(self.sandbox.leftovers().is_empty(), "{:?}", self.sandbox.leftovers());
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        log
    }
}

impl Drop for ServedDemo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn serves_both_users_until_ctrl_c() {
    let served = ServedDemo::start();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let kubeconfig = Path::new(served.kubeconfig());
    assert_eq!((mode(kubeconfig), mode(kubeconfig.parent().unwrap())), (0o600, 0o700));

    assert_eq!(served.credlet(&["get", "/readyz"]), (0, "ok".into()));
    assert_eq!(served.credlet(&["get", "/readyz", "--context", "demo-certificate"]), (0, "ok".into()));
    for (context, name) in [("demo-token", "ada"), ("demo-certificate", "grace")] {
        let (code, text) = served.credlet(&["whoami", "--context", context]);
        assert!(code == 0 && text.contains(name) && text.contains("credential-id"), "{text}");
    }
    let (_, text) = served.credlet(&["get", "/readyz", "--token", "forged"]);
    assert!(text.contains("Unauthorized"), "{text}");

    assert_no_secret(&served.explained);
    let log = served.stop();
    for line in
        ["200 GET /readyz  ada (JTI=1)\n", "200 GET /readyz  grace (X509SHA256=", "401 GET /readyz  invalid token\n"]
    {
        assert!(log.contains(line), "{line} in {log}");
    }
    assert_no_secret(&log);
}

#[test]
fn behaves_like_an_api_server() {
    let served = ServedDemo::start();
    let answers = |args: &[&str], wanted: &str| {
        let (_, text) = served.credlet(args);
        assert!(text.contains(wanted), "{args:?}: {text}");
    };
    answers(&["get", "/version"], "gitVersion");
    answers(&["get", "/api"], "APIVersions");
    answers(&["get", "/api/v1"], "APIResourceList");
    answers(&["get", "/apis"], "APIGroupList");
    answers(&["get", "/openapi/v3"], "paths");
    answers(&["get", "/api/v1/namespaces"], "NamespaceList");
    answers(&["get", "/api/v1/namespaces/demo"], r#""kind":"Namespace""#);
    answers(&["get", "/api/v1/namespaces?watch=true&timeoutSeconds=1"], r#""type":"ADDED""#);
    answers(
        &["get", "/api/v1/namespaces?watch=true&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true"],
        "BOOKMARK",
    );
    answers(
        &["request", "-H", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io", "/api/v1/namespaces"],
        r#""Table""#,
    );

    answers(&["get", "/nope"], "404");
    answers(&["get", "/api/v1/namespaces/nope"], r#"namespaces "nope" not found"#);
    answers(&["get", "/api/v1/namespaces?labelSelector=a"], "400");
    answers(&["get", "/api/v1/namespaces?watch=true&resourceVersion=x"], "400");
    answers(&["request", "-X", "DELETE", "/version"], "405");
    answers(&["request", "-H", "Accept: text/html", "/version"], "406");
    answers(&["get", "/version", "--as", "root"], "403");
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    answers(&["request", "-X", "POST", "-H", "Content-Type: application/json", "-d", "{}", reviews], "ada");
    answers(&["request", "-X", "POST", "-H", "Content-Type: application/json", "-d", "{", reviews], "400");
    answers(&["request", "-X", "POST", "-H", "Content-Type: text/plain", "-d", "{}", reviews], "415");
    answers(
        &["request", "-X", "POST", "-H", "Content-Type: application/json", "-d", r#"{"kind":"Pod"}"#, reviews],
        "400",
    );
    served.stop();
}
