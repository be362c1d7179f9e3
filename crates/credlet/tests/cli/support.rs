//! The sandbox of the tests: home directory, kubeconfig, plugin and API server.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use credlet_api::Secret;
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::FakeApiServer;
use tempfile::TempDir;

/// The command under test.
pub(crate) const CREDLET: &str = env!("CARGO_BIN_EXE_credlet");

/// A home directory with a kubeconfig for a running API server.
pub(crate) struct Sandbox {
    pub(crate) dir: TempDir,
    pub(crate) ca: TestCa,
    pub(crate) server: FakeApiServer,
    pub(crate) watch: LeakCheck,
}

impl Sandbox {
    /// Creates a sandbox with this user, in the syntax of a kubeconfig.
    pub(crate) fn with_user(user: &str) -> Self {
        let home = Self::empty();
        home.write_config(user);
        home
    }

    /// Creates a sandbox with a plugin that prints a token, the only one that the server accepts.
    pub(crate) fn with_token_plugin() -> (Self, TestPlugin, Secret) {
        let home = Self::empty();
        let token = home.watch.secret("token");
        home.server.accept_token_as(token.expose(), "ada");
        let plugin = TestPlugin::answering(token.expose());
        home.write_config(&exec(&plugin, "Never"));
        (home, plugin, token)
    }

    pub(crate) fn empty() -> Self {
        let ca = TestCa::new();
        let server = FakeApiServer::setup(&ca).start_in_thread();
        // It is also the runtime directory, which must not be writable by other users.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let dir = tempfile::Builder::new().permissions(private).tempdir().unwrap();
        fs::create_dir(dir.path().join(".kube")).unwrap();
        fs::write(dir.path().join("ca.pem"), ca.pem()).unwrap();
        Self { dir, ca, server, watch: LeakCheck::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write_config(&self, user: &str) {
        fs::write(self.path(".kube/config"), self.config(user)).unwrap();
    }

    /// A kubeconfig with `server` on line 7.
    pub(crate) fn config(&self, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: blue\nclusters:\n- name: blue\n  cluster:\n    server: {}\n    \
             certificate-authority: {}\ncontexts:\n- name: blue\n  context: {{cluster: blue, user: ada, namespace: \
             shop}}\nusers:\n- name: ada\n  user: {user}\n",
            self.server.url(),
            self.path("ca.pem").display(),
        )
    }

    /// The command with an environment of only this sandbox.
    #[expect(clippy::disallowed_methods, reason = "a test plays the person at the shell")]
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(CREDLET);
        command.args(args).env_clear().env("HOME", self.dir.path()).env("PATH", self.dir.path()).stdin(Stdio::null());
        command.env("CREDLET_TEST_ACCOUNT_HOME", self.dir.path());
        // Directory of its lock files.
        command.env("XDG_RUNTIME_DIR", self.dir.path());
        command
    }

    /// Runs the command. Fails if standard error contains a secret, or if standard output does and `--reveal` was not given.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        self.finish(self.command(args))
    }

    pub(crate) fn finish(&self, mut command: Command) -> CommandOutput {
        let output = command.output().unwrap();
        let output = CommandOutput {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        self.watch.text(&output.stderr);
        output
    }

    /// Runs the command with this standard input.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> CommandOutput {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        let output = CommandOutput {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        self.watch.text(&output.stderr);
        output
    }

    /// Starts the command.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The environment for a command in a terminal.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let home = self.dir.path().to_str().unwrap().to_owned();
        let config = self.path(".kube/config").to_str().unwrap().to_owned();
        let pairs = [
            ("CREDLET_TEST_ACCOUNT_HOME", home.clone()),
            ("HOME", home),
            ("KUBECONFIG", config),
            ("TERM", "xterm".to_owned()),
            ("NO_COLOR", String::new()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}

/// Returns a user with this plugin, in the syntax of a kubeconfig.
pub(crate) fn exec(plugin: &TestPlugin, mode: &str) -> String {
    exec_command(&plugin.command(), mode)
}

pub(crate) fn exec_command(command: &Path, mode: &str) -> String {
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: {mode}, command: {}}}}}",
        command.display()
    )
}

/// Result of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// `None`: killed by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    /// Returns standard output. Panics unless the command succeeded without output on standard error.
    #[track_caller]
    pub(crate) fn data(&self) -> &str {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        &self.stdout
    }

    /// Returns standard error. Panics unless the command failed with this code and without output on standard output.
    #[track_caller]
    pub(crate) fn failure(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:?}");
        &self.stderr
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}
