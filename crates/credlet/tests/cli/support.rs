//! A person at a shell, a plugin, and a cluster.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use credlet_api::Secret;
use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;
use credlet_testkit::server::Server;
use tempfile::TempDir;

/// The command under test.
pub(crate) const CREDLET: &str = env!("CARGO_BIN_EXE_credlet");

/// A person's home, with a kubeconfig for a running API server.
pub(crate) struct Home {
    pub(crate) dir: TempDir,
    pub(crate) ca: Ca,
    pub(crate) server: Server,
    pub(crate) watch: Watch,
}

impl Home {
    /// With this user, as a kubeconfig writes it.
    pub(crate) fn of(user: &str) -> Self {
        let home = Self::empty();
        home.write_config(user);
        home
    }

    /// With a plugin that answers with a token; the server accepts no other.
    pub(crate) fn with_token_plugin() -> (Self, Plugin, Secret) {
        let home = Self::empty();
        let token = home.watch.secret("token");
        home.server.accept_token_as(token.expose(), "ada");
        let plugin = Plugin::answering(token.expose());
        home.write_config(&exec(&plugin, "Never"));
        (home, plugin, token)
    }

    pub(crate) fn empty() -> Self {
        let ca = Ca::new();
        let server = Server::setup(&ca).start_in_thread();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".kube")).unwrap();
        fs::write(dir.path().join("ca.pem"), ca.pem()).unwrap();
        Self { dir, ca, server, watch: Watch::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write_config(&self, user: &str) {
        fs::write(self.path(".kube/config"), self.config(user)).unwrap();
    }

    /// A kubeconfig; `server` stands on line 7.
    pub(crate) fn config(&self, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: blue\nclusters:\n- name: blue\n  cluster:\n    server: {}\n    \
             certificate-authority: {}\ncontexts:\n- name: blue\n  context: {{cluster: blue, user: ada, namespace: \
             shop}}\nusers:\n- name: ada\n  user: {user}\n",
            self.server.url(),
            self.path("ca.pem").display(),
        )
    }

    /// The command in this home, with nothing else around it.
    #[expect(clippy::disallowed_methods, reason = "a test plays the person at the shell")]
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(CREDLET);
        command.args(args).env_clear().env("HOME", self.dir.path()).env("PATH", self.dir.path()).stdin(Stdio::null());
        // Where its lock files go.
        command.env("XDG_RUNTIME_DIR", self.dir.path());
        command
    }

    /// Runs it to its end. Secrets are looked for in what it says on standard error, and in its data unless it was
    /// told to reveal them.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.finish(self.command(args))
    }

    pub(crate) fn finish(&self, mut command: Command) -> Ran {
        let output = command.output().unwrap();
        let ran = Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        self.watch.text(&ran.stderr);
        ran
    }

    /// Runs it with something on standard input.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        let ran = Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        self.watch.text(&ran.stderr);
        ran
    }

    /// Starts it.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// What a terminal needs to be this home.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let home = self.dir.path().to_str().unwrap().to_owned();
        let config = self.path(".kube/config").to_str().unwrap().to_owned();
        let pairs = [("HOME", home), ("KUBECONFIG", config), ("TERM", "xterm".to_owned()), ("NO_COLOR", String::new())];
        pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}

/// A user with this plugin.
pub(crate) fn exec(plugin: &Plugin, mode: &str) -> String {
    exec_command(&plugin.command(), mode)
}

pub(crate) fn exec_command(command: &Path, mode: &str) -> String {
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: {mode}, command: {}}}}}",
        command.display()
    )
}

/// A conversation.
#[derive(Debug)]
pub(crate) struct Ran {
    /// `None`: a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// It went well and had nothing to say about it.
    #[track_caller]
    pub(crate) fn data(&self) -> &str {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        &self.stdout
    }

    /// It failed with this code, and there is no data.
    #[track_caller]
    pub(crate) fn failure(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:?}");
        &self.stderr
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}
