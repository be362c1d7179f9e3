//! Creates signers from arguments.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::exec::{ApiVersion, Cluster, ExecConfig, InteractiveMode};
use credlet_client::AuthenticatorRegistry;
use credlet_client::authenticator::ExecSettings;
use credlet_cloud::aws::{self, CredentialChain};
use credlet_exec::{ExecOptions, Platform, PluginPolicy, find_program};
use credlet_http::CryptoBackend;
use credlet_kubeconfig::ResolvedExec as KubeconfigExec;
use credlet_proxy::client::ExecProxies;
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::sign::pkcs11::{self, PinSource, Pkcs11Error, Pkcs11Signer, Pkcs11Uri, Pkcs11UriError, module};
use credlet_proxy::sign::sigv4::{self, Sigv4Signer};
use credlet_proxy::sign::{ExecSigner, FileSigner, HeaderSigner, Signer};

use super::read;
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::ExitStatus;

/// Arguments by signer.
#[derive(Debug)]
pub(crate) enum SignerArgs {
    Pkcs11(Pkcs11Args),
    Sigv4(Sigv4Args),
    Headers(HeadersArgs),
    Exec(ExecArgs),
    File(FileArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pkcs11Args {
    /// PKCS#11 URI of the key (RFC 7512): `pkcs11:token=me;object=kube`
    #[arg(value_name = "URI", value_parser = uri)]
    uri: Box<Result<Pkcs11Uri, Pkcs11UriError>>,
    /// PKCS#11 module, if the URI has neither `module-path` nor `module-name`
    #[arg(long, value_name = "FILE", value_parser = absolute_path)]
    module: Option<PathBuf>,
    /// Certificate chain, if it is not on the token
    #[arg(long, value_name = "FILE", value_parser = absolute_path)]
    certificate: Option<PathBuf>,
    /// Private file with the PIN, instead of a prompt or the `pin-source` of the URI
    #[arg(long, value_name = "FILE", value_parser = absolute_path)]
    pin_file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Sigv4Args {
    /// AWS region to sign for [default: that of the profile]
    #[arg(long)]
    region: Option<String>,
    /// AWS service to sign for
    #[arg(long, default_value = "eks")]
    service: String,
    /// AWS profile to take the credentials from
    #[arg(long)]
    profile: Option<String>,
    /// Forward bodies larger than 8 MiB unsigned instead of rejecting them
    #[arg(long)]
    unsigned_large_bodies: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HeadersArgs {
    /// Private file with one `Name: value` header per line
    #[arg(long, value_name = "FILE", value_parser = absolute_path, required_unless_present = "command", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Time to cache the headers that a command printed without an `Expires:` line
    #[arg(long, value_name = "TIME", value_parser = crate::duration::parse_duration, default_value = "5m")]
    keep: Duration,
    /// Command that prints headers, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExecArgs {
    /// API version of the plugin
    #[arg(long, value_name = "VERSION", value_parser = version, default_value = "client.authentication.k8s.io/v1")]
    api_version: ApiVersion,
    /// Pass the cluster to the plugin
    #[arg(long)]
    provide_cluster_info: bool,
    /// Plugin command and its arguments
    #[arg(last = true, required = true, value_name = "PLUGIN")]
    plugin: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// PEM file with the certificate chain, the client certificate first
    #[arg(long, value_name = "FILE", value_parser = absolute_path)]
    certificate: PathBuf,
    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE", value_parser = absolute_path)]
    key: PathBuf,
}

/// The plugin runs in any directory, and the daemon in `/`.
pub(super) fn absolute_path(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("must be an absolute path") }
}

/// An error is reported later, because clap would print the whole value, which may contain a PIN.
fn uri(text: &str) -> Result<Box<Result<Pkcs11Uri, Pkcs11UriError>>, std::convert::Infallible> {
    Ok(Box::new(Pkcs11Uri::parse(text)))
}

impl SignerArgs {
    /// Validates what clap did not.
    pub(super) fn check(&self) -> Result<(), CliError> {
        match self {
            Self::Pkcs11(Pkcs11Args { uri, .. }) => {
                uri.as_ref().as_ref().map(drop).map_err(|e| pkcs11_error(e.clone().into()))
            }
            _ => Ok(()),
        }
    }
}

impl SignerArgs {
    /// Whether the signer runs other programs, which need the full environment. The AWS chain may run one if a profile
    /// says so.
    pub(super) fn runs_programs(&self) -> bool {
        match self {
            Self::Exec(_) | Self::Sigv4(_) => true,
            Self::Headers(HeadersArgs { command, .. }) => !command.is_empty(),
            Self::Pkcs11(_) | Self::File(_) => false,
        }
    }

    /// Whether the signer loads a library that reads the environment of this process.
    pub(crate) fn loads_library(&self) -> bool {
        matches!(self, Self::Pkcs11(_))
    }
}

fn pkcs11_error(error: Pkcs11Error) -> CliError {
    let exit = if matches!(error, Pkcs11Error::InvalidUri(_)) { ExitStatus::Usage } else { ExitStatus::NoCredential };
    let hints = error.hints();
    hints.into_iter().fold(CliError::new(exit, error.to_string()), CliError::hint)
}

fn version(text: &str) -> Result<ApiVersion, String> {
    text.parse().map_err(|error: credlet_api::exec::UnsupportedApiVersion| error.to_string())
}

/// Creates the signer. It may block, so call it at the start of a process.
pub(crate) fn signer(
    args: SignerArgs,
    cluster: &Cluster,
    platform: &Platform,
    global: &GlobalArgs,
) -> Result<Arc<dyn Signer>, CliError> {
    let crypto = CryptoBackend::aws_lc_rs();
    Ok(match args {
        SignerArgs::Pkcs11(args) => Arc::new(pkcs11_signer(args, platform)?),
        SignerArgs::Sigv4(args) => Arc::new(sigv4_signer(args, platform)?),
        SignerArgs::File(args) => Arc::new(FileSigner::new(args.certificate, args.key, crypto, platform.clock.clone())),
        SignerArgs::Exec(args) => Arc::new(exec_signer(args, cluster, platform, global)?),
        SignerArgs::Headers(args) => Arc::new(header_signer(args, platform, global)?),
    })
}

fn pkcs11_signer(args: Pkcs11Args, platform: &Platform) -> Result<Pkcs11Signer, CliError> {
    let uri = args.uri.map_err(|error| pkcs11_error(error.into()))?;
    let module = module::find(args.module.as_deref(), &uri, &*platform.env).map_err(pkcs11_error)?;
    let pin = args.pin_file.map(PinSource::File).or_else(|| uri.pin_source.clone());
    let mut options = pkcs11::Pkcs11Options::new(uri, module);
    options.pin = pin.map(|source| source.read()).transpose().map_err(pkcs11_error)?;
    options.chain = args.certificate.map(|path| read(&path)).transpose()?.map(|chain| chain.to_vec());
    options.lock_dir = ProxyDir::open_all(&*platform.env).ok().map(|dir| dir.path().to_owned());
    Pkcs11Signer::open(options).map_err(pkcs11_error)
}

fn sigv4_signer(args: Sigv4Args, platform: &Platform) -> Result<Sigv4Signer, CliError> {
    let aws_error = |error: aws::AwsError| {
        let hints = error.hints();
        hints.into_iter().fold(CliError::new(ExitStatus::NoCredential, error.to_string()), CliError::hint)
    };
    let mut options = aws::AwsOptions::default();
    (options.profile, options.region) = (args.profile, args.region);
    // Report invalid settings at once.
    let chain = CredentialChain::load(options.clone(), platform.clone()).map_err(aws_error)?;
    let region = chain
        .region()
        .ok_or_else(|| CliError::usage("missing AWS region").hint("pass --region, or set it in the profile"))?;
    let mut signing = sigv4::Sigv4Options::new(region, args.service);
    signing.unsigned_large_bodies = args.unsigned_large_bodies;
    Ok(Sigv4Signer::new(signing, options, platform))
}

fn header_signer(args: HeadersArgs, platform: &Platform, global: &GlobalArgs) -> Result<HeaderSigner, CliError> {
    let Some(path) = args.file else {
        let mut command_line = args.command.into_iter();
        let command = command_line.next().unwrap_or_default();
        let policy = checked_policy(&command, platform, global)?;
        return Ok(HeaderSigner::command(command, command_line.collect(), args.keep, policy, platform.clone()));
    };
    let text = Secret::new(String::from_utf8_lossy(&read(&path)?));
    let lines = text.expose().lines().filter(|line| !line.trim().is_empty());
    let pairs = lines.enumerate().map(|(at, line)| {
        let wrong = || CliError::usage(format!("{}: header {} is not `Name: value`", path.display(), at + 1));
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        Ok((name.trim().to_owned(), Secret::new(value.trim())))
    });
    let pairs = pairs.collect::<Result<Vec<_>, CliError>>()?;
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value));
    HeaderSigner::fixed(pairs).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
}

/// The plugin policy, which must allow `command`: the arguments of a signer come from a kubeconfig. The policy
/// is checked at each run, and here so that a proxy that could never sign fails at start.
fn checked_policy(command: &str, platform: &Platform, global: &GlobalArgs) -> Result<PluginPolicy, CliError> {
    let policy = global.policy_in(&*platform.env)?;
    policy.check(command, &find_program(command, &*platform.env), &*platform.env)?;
    Ok(policy)
}

/// The proxy has no terminal, so its plugin is not interactive.
fn exec_signer(
    args: ExecArgs,
    cluster: &Cluster,
    platform: &Platform,
    global: &GlobalArgs,
) -> Result<ExecSigner, CliError> {
    let mut plugin = args.plugin.into_iter();
    let mut config = ExecConfig::new(plugin.next().unwrap_or_default(), args.api_version).args(plugin);
    let policy = checked_policy(&config.command, platform, global)?;
    config.interactive_mode = InteractiveMode::Never;
    config.provide_cluster_info = args.provide_cluster_info;
    let mut settings = ExecSettings::new(CryptoBackend::aws_lc_rs());
    let proxies = ExecProxies::from_env(&*platform.env);
    settings.options = ExecOptions { policy, ..ExecOptions::default() };
    settings.options.lock_file = proxies.clone().map(|proxies| proxies as _);
    let authenticators = AuthenticatorRegistry::new(platform.clone());
    let authenticator = authenticators.exec(&KubeconfigExec::new(config, cluster.clone()), &settings)?;
    Ok(ExecSigner::new(authenticator, platform.clock.clone(), proxies.map(|proxies| proxies as _)))
}
