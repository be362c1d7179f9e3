//! Which providers, and for whose pod.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credlet_core::{Env as _, StderrSink, SystemEnv, SystemRunner, World};
use credlet_image::{Asking, ConfigError, ImageCredentials, Keyring, LookUp, Options, Pod, node_docker_config};

use super::accounts::ApiServer;
use crate::args::Global;
use crate::error::CliError;
use crate::exit::Exit;

const PROVIDERS: &str = "Which providers";

/// The kubelet's two flags, in short and as the kubelet spells them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Source {
    /// The providers' configuration, a file or a directory; or $CREDLET_IMAGE_CONFIG
    #[arg(long, alias = "image-credential-provider-config", value_name = "PATH", help_heading = PROVIDERS)]
    pub(crate) config: Option<PathBuf>,
    /// The directory of the providers' binaries; or $CREDLET_IMAGE_BIN_DIR
    #[arg(long, alias = "image-credential-provider-bin-dir", value_name = "DIR", help_heading = PROVIDERS)]
    pub(crate) bin_dir: Option<PathBuf>,
    /// How long a provider may take
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::timeout, default_value = "60s", help_heading = PROVIDERS)]
    provider_timeout: Limit,
    /// Try the node's docker configuration before the providers, as the kubelet does; its own directory is looked in first
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = PROVIDERS)]
    docker_config: Option<PathBuf>,
}

/// (An alias, because clap takes the word `Option` for something of its own.)
type Limit = Option<Duration>;

/// For whose pod.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Who {
    /// The service account to ask for, of the kubeconfig's cluster
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced)]
    service_account: Option<(String, String)>,
    /// The pod to ask for, of the kubeconfig's cluster; its service account unless another is named
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced)]
    pod: Option<(String, String)>,
}

fn namespaced(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("a namespace, `/` and a name are needed"),
    }
}

/// Providers, ready to be asked.
pub(super) struct Ready {
    pub(super) credentials: ImageCredentials,
    pod: Option<Pod>,
    node: Option<Keyring>,
}

impl Source {
    pub(super) fn config(&self) -> Result<PathBuf, CliError> {
        let named = self.config.clone().or_else(|| SystemEnv.var("CREDLET_IMAGE_CONFIG").map(PathBuf::from));
        named.ok_or_else(|| {
            CliError::usage("no configuration of providers was named")
                .hint("name it with --config; a kubelet's is in its flag --image-credential-provider-config")
        })
    }

    pub(super) fn bin_dir(&self) -> Result<PathBuf, CliError> {
        let named = self.bin_dir.clone().or_else(|| SystemEnv.var("CREDLET_IMAGE_BIN_DIR").map(PathBuf::from));
        named.ok_or_else(|| {
            CliError::usage("no directory of the providers' binaries was named")
                .hint("name it with --bin-dir; a kubelet's is in its flag --image-credential-provider-bin-dir")
        })
    }

    /// Reads everything, and asks the API server about the pod if there is one.
    pub(super) async fn ready(&self, who: &Who, global: &Global) -> Result<Ready, CliError> {
        let mut options = Options::default();
        options.timeout = self.provider_timeout.unwrap_or(Duration::MAX);
        let mut pod = None;
        if who.service_account.is_some() || who.pod.is_some() {
            let server = Arc::new(ApiServer::new(global)?);
            pod = Some(who.pod(&server).await?);
            options.accounts = Some(server);
        }
        let credentials = ImageCredentials::load(self.config()?, self.bin_dir()?, options, world())?;
        let node = self.docker_config.as_ref().and_then(|root| {
            let root = Some(root.as_path()).filter(|root| !root.as_os_str().is_empty());
            node_docker_config(root, &SystemEnv).map(|(_, keyring)| keyring)
        });
        Ok(Ready { credentials, pod, node })
    }
}

/// What providers complain about is told with the error, and not in between.
fn world() -> World {
    World { runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)), ..World::system() }
}

impl Who {
    async fn pod(&self, server: &ApiServer) -> Result<Pod, CliError> {
        let mut pod = match &self.pod {
            Some((namespace, name)) => server.pod(namespace, name).await?,
            None => Pod::default(),
        };
        if let Some((namespace, name)) = &self.service_account {
            if !pod.namespace.is_empty() && pod.namespace != *namespace {
                return Err(CliError::usage("the pod and the service account are in different namespaces"));
            }
            pod.namespace.clone_from(namespace);
            pod.service_account = Some(name.clone());
        }
        Ok(pod)
    }
}

impl Ready {
    /// With the pod and the node's own credentials.
    pub(super) fn asking<'a>(&'a self, asking: Asking<'a>) -> Asking<'a> {
        Asking { pod: self.pod.as_ref(), node: self.node.as_ref(), ..asking }
    }

    pub(super) async fn look_up(&self, image: &str) -> Result<LookUp, CliError> {
        let asking = self.asking(Asking { near_misses: true, ..Asking::default() });
        self.credentials.look_up(image, &asking).await.map_err(|error| CliError::usage(error.to_string()))
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        let lines = error.mistakes.iter().map(|mistake| format!("\n  {mistake}")).collect::<String>();
        Self::new(Exit::Usage, if error.mistakes.len() == 1 { error.to_string() } else { format!("{error}:{lines}") })
    }
}
