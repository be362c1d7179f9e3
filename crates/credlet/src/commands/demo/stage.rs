//! Everything that the demo takes place on: the issuer, the server, and a kubeconfig for the two users.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use credlet_client::conn::Crypto;
use credlet_client::kubeconfig::{Kubeconfig, Overrides};
use credlet_client::{Authenticators, Client, ClientOptions};
use credlet_core::{Clock, StderrSink, SystemClock, SystemEnv, SystemRunner, World};
use serde_json::json;

use super::board::Board;
use super::issuer::{Issuer, Kind, Listening, Terms};
use super::plugin::{ISSUER, WANTED};
use super::server::{Log, Server};
use crate::args::Global;
use crate::error::CliError;
use crate::exit::Exit;

/// Why there is no demo.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    #[error("no directory, socket or port for it")]
    System(#[from] io::Error),
    #[error("no key")]
    Key,
    #[error("no certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("no certificate that can be read back")]
    Pem(#[from] rustls_pki_types::pem::Error),
    #[error("no TLS")]
    Tls(#[from] rustls::Error),
    #[error("nobody to judge certificates")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

impl From<SetupError> for CliError {
    fn from(error: SetupError) -> Self {
        Self::new(Exit::Usage, format!("the demo cannot be set up: {}", crate::error::chain(&error)))
    }
}

/// Dropping it takes everything down and removes its files.
pub(super) struct Stage {
    pub(super) server: Server,
    pub(super) issuer: Arc<Issuer>,
    _listening: Listening,
    dir: tempfile::TempDir,
}

impl Stage {
    /// `changes_every`: how often there is something to see for a watch.
    pub(super) async fn build(
        terms: Terms,
        board: Arc<Board>,
        changes_every: Duration,
        log: Box<Log>,
    ) -> Result<Self, SetupError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        // For nobody but us: whoever reaches the issuer gets what it issues.
        let for_us = Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix("credlet-demo-").permissions(for_us).tempdir()?;
        let issuer = Arc::new(Issuer::new(Arc::clone(&clock), terms, board)?);
        let socket = dir.path().join("issuer");
        let listening = issuer.listen(&socket)?;
        let server = Server::start(issuer.authority(), issuer.signer().verifier(), clock, changes_every, log).await?;
        let stage = Self { server, issuer, _listening: listening, dir };
        write(&stage.authority_file(), issuer_pem(&stage))?;
        write(&stage.kubeconfig(), &stage.kubeconfig_text(&socket)?)?;
        Ok(stage)
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// For tools that want the authority in a file of its own.
    pub(super) fn authority_file(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    /// The context of each user.
    pub(super) fn context(kind: Kind) -> String {
        format!("demo-{kind}")
    }

    /// A client for one of the users, made as `credlet get` makes it. What the plugin says goes into errors only, so that
    /// it does not disturb the picture.
    pub(super) fn client(&self, kind: Kind) -> Result<Client, CliError> {
        let global =
            Global { kubeconfig: Some(self.kubeconfig()), context: Some(Self::context(kind)), ..Global::default() };
        Ok(Client::new(&global.resolve()?, options())?)
    }

    /// A client with a credential that stays as it is: a user as a kubeconfig has it.
    pub(super) fn client_with(&self, user: &serde_json::Value) -> Result<Client, CliError> {
        let kubeconfig = json!({
            "current-context": "demo",
            "contexts": [{ "name": "demo", "context": { "cluster": "demo", "user": "demo" } }],
            "clusters": [{ "name": "demo", "cluster": {
                "server": self.server.url(),
                "certificate-authority-data": BASE64.encode(issuer_pem(self)),
            } }],
            "users": [{ "name": "demo", "user": user }],
        });
        let kubeconfig = Kubeconfig::from_bytes(kubeconfig.to_string().as_bytes(), &SystemEnv)?;
        Ok(Client::new(&kubeconfig.resolve(&Overrides::default(), &SystemEnv)?, options())?)
    }

    /// YAML, with what comes from outside quoted as JSON.
    fn kubeconfig_text(&self, socket: &Path) -> io::Result<String> {
        let quoted = |path: &Path| json!(path.to_string_lossy()).to_string();
        let (this_binary, socket) = (quoted(&std::env::current_exe()?), quoted(socket));
        let (server, authority) = (self.server.url(), BASE64.encode(issuer_pem(self)));
        let mut text = format!(
            "# Made by `credlet demo`, and gone when it ends.
apiVersion: v1
kind: Config
current-context: {current}
clusters:
- name: demo
  cluster:
    server: {server}
    certificate-authority-data: {authority}
",
            current = Self::context(Kind::Token),
        );
        text.push_str("contexts:\n");
        for kind in Kind::BOTH {
            let (context, user) = (Self::context(kind), kind.user());
            text.push_str(&format!("- name: {context}\n  context: {{cluster: demo, user: {user}}}\n"));
        }
        text.push_str("users:\n");
        for kind in Kind::BOTH {
            text.push_str(&format!(
                "- name: {user}
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      interactiveMode: Never
      command: {this_binary}
      args: [demo-plugin]
      env:
      - {{name: {ISSUER}, value: {socket}}}
      - {{name: {WANTED}, value: {kind}}}
",
                user = kind.user(),
            ));
        }
        Ok(text)
    }
}

fn issuer_pem(stage: &Stage) -> &str {
    stage.issuer.authority().pem()
}

fn options() -> ClientOptions {
    let runner = Arc::new(SystemRunner::with_stderr(StderrSink::Discard));
    let mut options = ClientOptions::new(Crypto::aws_lc_rs());
    options.authenticators = Arc::new(Authenticators::new(World { runner, ..World::system() }));
    options
}

/// A file for nobody but us.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
