//! Arguments that select providers and pod.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credlet_exec::{Env as _, Platform, StderrSink, SystemEnv, SystemRunner};
use credlet_image::{
    ConfigError, DockerKeyring, ImageCredentials, LookupRequest, LookupResult, PodRef, ProviderOptions,
    node_docker_config,
};

use super::api_server::ApiServer;
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::ExitStatus;

const PROVIDERS: &str = "Providers";

/// Provider flags, with the kubelet's long names as aliases.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ProviderArgs {
    /// Configuration of the providers: a file or a directory [env: CREDLET_IMAGE_CONFIG]
    #[arg(long, alias = "image-credential-provider-config", value_name = "PATH", help_heading = PROVIDERS)]
    pub(crate) config: Option<PathBuf>,
    /// Directory of the provider binaries [env: CREDLET_IMAGE_BIN_DIR]
    #[arg(long, alias = "image-credential-provider-bin-dir", value_name = "DIR", help_heading = PROVIDERS)]
    pub(crate) bin_dir: Option<PathBuf>,
    /// Timeout of a provider run
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse_timeout, default_value = "60s", help_heading = PROVIDERS)]
    provider_timeout: OptionalDuration,
    /// Try the node's docker configuration before the providers, like the kubelet; DIR (the kubelet's --root-dir) is searched first
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = PROVIDERS)]
    docker_config: Option<PathBuf>,
}

/// Alias that keeps clap from treating the `Option` as an optional argument.
type OptionalDuration = Option<Duration>;

/// Arguments that select the pod or service account.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct PodArgs {
    /// Service account of the kubeconfig's cluster to request credentials for
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_namespaced)]
    service_account: Option<(String, String)>,
    /// Pod of the kubeconfig's cluster to request credentials for, with its service account unless --service-account is set
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_namespaced)]
    pod: Option<(String, String)>,
}

fn parse_namespaced(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("must be NAMESPACE/NAME"),
    }
}

/// Loaded providers with pod and docker configuration.
pub(super) struct ProviderSession {
    pub(super) credentials: ImageCredentials,
    pod: Option<PodRef>,
    node: Option<DockerKeyring>,
}

impl ProviderArgs {
    pub(super) fn config(&self) -> Result<PathBuf, CliError> {
        let named = self.config.clone().or_else(|| SystemEnv.var("CREDLET_IMAGE_CONFIG").map(PathBuf::from));
        named.ok_or_else(|| {
            CliError::usage("missing configuration of providers")
                .hint("set --config; the kubelet's is in its flag --image-credential-provider-config")
        })
    }

    pub(super) fn bin_dir(&self) -> Result<PathBuf, CliError> {
        let named = self.bin_dir.clone().or_else(|| SystemEnv.var("CREDLET_IMAGE_BIN_DIR").map(PathBuf::from));
        named.ok_or_else(|| {
            CliError::usage("missing directory of provider binaries")
                .hint("set --bin-dir; the kubelet's is in its flag --image-credential-provider-bin-dir")
        })
    }

    /// Loads the configuration, and fetches the pod from the API server if one is selected.
    pub(super) async fn load(&self, pod_args: &PodArgs, global: &GlobalArgs) -> Result<ProviderSession, CliError> {
        let mut options = ProviderOptions::default();
        options.policy = global.program_policy()?;
        options.timeout = self.provider_timeout.unwrap_or(Duration::MAX);
        let mut pod = None;
        if pod_args.service_account.is_some() || pod_args.pod.is_some() {
            let server = Arc::new(ApiServer::new(global)?);
            pod = Some(pod_args.pod(&server).await?);
            options.accounts = Some(server);
        }
        let credentials = ImageCredentials::load(self.config()?, self.bin_dir()?, options, platform())?;
        let node = self.docker_config.as_ref().and_then(|root| {
            let root = Some(root.as_path()).filter(|root| !root.as_os_str().is_empty());
            node_docker_config(root, &SystemEnv).map(|(_, keyring)| keyring)
        });
        Ok(ProviderSession { credentials, pod, node })
    }
}

/// Discards the standard error of providers, because errors include it.
pub(super) fn platform() -> Platform {
    Platform { runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)), ..Platform::system() }
}

impl PodArgs {
    async fn pod(&self, server: &ApiServer) -> Result<PodRef, CliError> {
        let mut pod = match &self.pod {
            Some((namespace, name)) => server.pod(namespace, name).await?,
            None => PodRef::default(),
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

impl ProviderSession {
    /// Adds the pod and the docker configuration to a request.
    pub(super) fn request<'a>(&'a self, request: LookupRequest<'a>) -> LookupRequest<'a> {
        LookupRequest { pod: self.pod.as_ref(), node: self.node.as_ref(), ..request }
    }

    pub(super) async fn look_up(&self, image: &str) -> Result<LookupResult, CliError> {
        let request = self.request(LookupRequest { near_misses: true, ..LookupRequest::default() });
        self.credentials.look_up(image, &request).await.map_err(|error| CliError::usage(error.to_string()))
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        let lines = error.problems.iter().map(|problem| format!("\n  {problem}")).collect::<String>();
        Self::new(
            ExitStatus::Usage,
            if error.problems.len() == 1 { error.to_string() } else { format!("{error}:{lines}") },
        )
    }
}
