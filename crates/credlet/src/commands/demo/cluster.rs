//! The cluster of the demo: issuer, API server and a kubeconfig for the two users.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use credlet_apiserver::StartError;
use credlet_apiserver::ca::CertificateError;
use credlet_apiserver::token::KeyError;
use credlet_client::{AuthenticatorRegistry, Client, ClientOptions};
use credlet_exec::{Clock, Platform, StderrSink, SystemClock, SystemEnv, SystemRunner};
use credlet_http::CryptoBackend;
use credlet_kubeconfig::{ConfigOverrides, Kubeconfig};
use credlet_platform::fs::{PrivateTempDir, create_private_file, temp_dir};
use serde_json::json;

use super::issuer::{CredentialKind, DemoIssuer, IssuerConfig, IssuerListener};
use super::plugin::{CREDENTIAL_KIND, ISSUER};
use super::server::{DemoApiServer, ResponseLog};
use super::state::DemoState;
use crate::args::GlobalArgs;
use crate::error::CliError;

/// Failure to set up the demo.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    #[error("failed to create a directory, socket or port")]
    System(#[from] io::Error),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Server(#[from] StartError),
}

impl From<SetupError> for CliError {
    fn from(error: SetupError) -> Self {
        Self::internal(format!("failed to set up the demo: {}", crate::error::chain(&error)))
    }
}

/// The running cluster. Dropping it stops the server and the issuer and removes their files.
pub(super) struct DemoCluster {
    pub(super) server: DemoApiServer,
    pub(super) issuer: Arc<DemoIssuer>,
    _listening: IssuerListener,
    dir: PrivateTempDir,
}

impl DemoCluster {
    /// Starts the cluster. One namespace changes every `changes_every`, so that a watch receives events.
    pub(super) async fn build(
        terms: IssuerConfig,
        state: Arc<DemoState>,
        changes_every: Duration,
        log: Box<ResponseLog>,
    ) -> Result<Self, SetupError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        // Private: every process that can connect to the issuer's socket receives credentials.
        let parent = temp_dir(&SystemEnv).map_err(io::Error::other)?;
        let dir = PrivateTempDir::create_in(&parent, "credlet-demo-")?;
        let issuer = Arc::new(DemoIssuer::new(Arc::clone(&clock), terms, state)?);
        let socket = dir.path().join("issuer");
        let listening = issuer.listen(&socket)?;
        let server = DemoApiServer::start(issuer.authority(), issuer.signer().verifier(), clock, changes_every, log)?;
        let cluster = Self { server, issuer, _listening: listening, dir };
        write(&cluster.ca_file(), issuer_pem(&cluster))?;
        write(&cluster.kubeconfig(), &cluster.kubeconfig_text(&socket)?)?;
        Ok(cluster)
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// The CA certificate file, for tools that do not read a kubeconfig.
    pub(super) fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    /// The context of a user.
    pub(super) fn context(kind: CredentialKind) -> String {
        format!("demo-{kind}")
    }

    /// A client for one of the users, built like that of `credlet get`. Standard error of the plugin is discarded, so that it does
    /// not disturb the live output.
    pub(super) fn client(&self, kind: CredentialKind) -> Result<Client, CliError> {
        let global = GlobalArgs {
            kubeconfig: Some(self.kubeconfig()),
            context: Some(Self::context(kind)),
            ..GlobalArgs::default()
        };
        Ok(Client::new(&global.resolve()?, options())?)
    }

    /// A client with a static credential, given as the user of a kubeconfig.
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
        Ok(Client::new(&kubeconfig.resolve(&ConfigOverrides::default(), &SystemEnv)?, options())?)
    }

    /// The kubeconfig as YAML, with paths quoted as JSON strings.
    fn kubeconfig_text(&self, socket: &Path) -> io::Result<String> {
        let quoted = |path: &Path| json!(path.to_string_lossy()).to_string();
        let (this_binary, socket) = (quoted(&std::env::current_exe()?), quoted(socket));
        let (server, authority) = (self.server.url(), BASE64.encode(issuer_pem(self)));
        let mut text = format!(
            "# Written by `credlet demo`, removed when it exits.
apiVersion: v1
kind: Config
current-context: {current}
clusters:
- name: demo
  cluster:
    server: {server}
    certificate-authority-data: {authority}
",
            current = Self::context(CredentialKind::Token),
        );
        text.push_str("contexts:\n");
        for kind in CredentialKind::BOTH {
            let (context, user) = (Self::context(kind), kind.user());
            text.push_str(&format!("- name: {context}\n  context: {{cluster: demo, user: {user}}}\n"));
        }
        text.push_str("users:\n");
        for kind in CredentialKind::BOTH {
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
      - {{name: {CREDENTIAL_KIND}, value: {kind}}}
",
                user = kind.user(),
            ));
        }
        Ok(text)
    }
}

fn issuer_pem(cluster: &DemoCluster) -> &str {
    cluster.issuer.authority().pem()
}

fn options() -> ClientOptions {
    let runner = Arc::new(SystemRunner::with_stderr(StderrSink::Discard));
    let mut options = ClientOptions::new(CryptoBackend::aws_lc_rs());
    options.authenticators = Arc::new(AuthenticatorRegistry::new(Platform { runner, ..Platform::system() }));
    options
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    create_private_file(path)?.write_all(text.as_bytes())
}
