//! The sandbox of the tests: home directory, kubeconfig, plugin and API server.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use credlet_api::Secret;
use credlet_testkit::ca::TestCa;
use credlet_testkit::plugin::TestPlugin;
pub(crate) use credlet_testkit::sandbox::CommandOutput;
use credlet_testkit::sandbox::Sandbox;
use credlet_testkit::server::FakeApiServer;

/// The command under test.
pub(crate) const CREDLET: &str = env!("CARGO_BIN_EXE_credlet");

/// A home directory with a kubeconfig for a running API server.
pub(crate) struct CliSandbox {
    sandbox: Sandbox,
    pub(crate) ca: TestCa,
    pub(crate) server: FakeApiServer,
}

impl std::ops::Deref for CliSandbox {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl CliSandbox {
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
        let sandbox = Sandbox::private();
        fs::create_dir(sandbox.path(".kube")).unwrap();
        sandbox.file("ca.pem", ca.pem());
        Self { sandbox, ca, server }
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
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command(CREDLET, args);
        // `XDG_RUNTIME_DIR` is the directory of its lock files.
        command.env("PATH", self.dir()).env("XDG_RUNTIME_DIR", self.dir());
        command
    }

    /// Runs the command. Fails if standard error contains a secret.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        self.finish(self.command(args))
    }

    pub(crate) fn finish(&self, command: Command) -> CommandOutput {
        self.sandbox.run(command)
    }

    /// Runs the command with this standard input.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> CommandOutput {
        self.sandbox.run_with_input(self.command(args), input)
    }

    /// Starts the command.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The environment for a command in a terminal.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let home = self.dir().to_str().unwrap().to_owned();
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
