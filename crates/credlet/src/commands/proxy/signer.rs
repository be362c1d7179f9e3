//! From arguments to a signer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::exec::{ApiVersion, Cluster, ExecConfig, InteractiveMode};
use credlet_client::Authenticators;
use credlet_client::authenticator::ExecSettings;
use credlet_client::conn::Crypto;
use credlet_client::kubeconfig::Exec as KubeconfigExec;
use credlet_core::{ExecOptions, World};
use credlet_plugins::aws::{self, Chain};
use credlet_plugins::proxy::pkcs11::{self, PinSource, Pkcs11Error, Pkcs11Signer, Uri, UriError, module};
use credlet_plugins::proxy::sigv4::{self, Sigv4Signer};
use credlet_proxy::client::ExecProxies;
use credlet_proxy::sign::{Exec, File, Headers, Signer};

use crate::args::Global;
use crate::error::CliError;
use crate::exit::Exit;

/// How requests are to be signed.
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
    /// Which key of which token, by RFC 7512: `pkcs11:token=me;object=kube`
    #[arg(value_name = "URI", value_parser = uri)]
    uri: Box<Result<Uri, UriError>>,
    /// The library that talks to the token, if the URI does not name it (`module-path`, `module-name`)
    #[arg(long, value_name = "FILE", value_parser = full_path)]
    module: Option<PathBuf>,
    /// The certificate with its intermediates, if they are not on the token
    #[arg(long, value_name = "FILE", value_parser = full_path)]
    certificate: Option<PathBuf>,
    /// A file of your own with the PIN, if you are not to be asked for it and the URI has no `pin-source`
    #[arg(long, value_name = "FILE", value_parser = full_path)]
    pin_file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Sigv4Args {
    /// The region that requests are signed for [default: that of the profile]
    #[arg(long)]
    region: Option<String>,
    /// The service that requests are signed for
    #[arg(long, default_value = "eks")]
    service: String,
    /// The AWS profile
    #[arg(long)]
    profile: Option<String>,
    /// Pass on a body that is larger than 8 MiB without signing it, in place of refusing it
    #[arg(long)]
    unsigned_large_bodies: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HeadersArgs {
    /// A file of your own with a header on each line: `Name: value`
    #[arg(long, value_name = "FILE", value_parser = full_path, required_unless_present = "command", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// How long to keep what a command printed, unless it says so itself with a line `Expires:`
    #[arg(long, value_name = "TIME", value_parser = crate::duration::span, default_value = "5m")]
    keep: Duration,
    /// A command that prints such lines, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExecArgs {
    /// The version in which it is asked
    #[arg(long, value_name = "VERSION", value_parser = version, default_value = "client.authentication.k8s.io/v1")]
    api_version: ApiVersion,
    /// Tell it about the cluster
    #[arg(long)]
    provide_cluster_info: bool,
    /// The plugin and its arguments
    #[arg(last = true, required = true, value_name = "PLUGIN")]
    plugin: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// The certificate with its intermediates
    #[arg(long, value_name = "FILE", value_parser = full_path)]
    certificate: PathBuf,
    /// Its key
    #[arg(long, value_name = "FILE", value_parser = full_path)]
    key: PathBuf,
}

/// Whoever runs the plugin does it in any directory, and the daemon works in none of them.
pub(super) fn full_path(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("it must be named by its full path") }
}

/// A mistake in it is kept for later: the parser would repeat all of the text, with the PIN that it may hold.
fn uri(text: &str) -> Result<Box<Result<Uri, UriError>>, std::convert::Infallible> {
    Ok(Box::new(Uri::parse(text)))
}

impl SignerArgs {
    /// What the parser of the words did not look at.
    pub(super) fn check(&self) -> Result<(), CliError> {
        match self {
            Self::Pkcs11(Pkcs11Args { uri, .. }) => uri.as_ref().as_ref().map(drop).map_err(|e| told(e.clone().into())),
            _ => Ok(()),
        }
    }
}

impl SignerArgs {
    /// Whether others' programs are run to sign: they expect the environment that people gave them, whatever is in it.
    /// The AWS chain may run one, if a profile says so.
    pub(super) fn runs_programs(&self) -> bool {
        match self {
            Self::Exec(_) | Self::Sigv4(_) => true,
            Self::Headers(HeadersArgs { command, .. }) => !command.is_empty(),
            Self::Pkcs11(_) | Self::File(_) => false,
        }
    }

    /// Whether a library is loaded that looks at the variables of the process itself.
    pub(crate) fn loads_library(&self) -> bool {
        matches!(self, Self::Pkcs11(_))
    }
}

fn told(error: Pkcs11Error) -> CliError {
    let exit = if matches!(error, Pkcs11Error::Uri(_)) { Exit::Usage } else { Exit::NoCredential };
    let hints = error.hints();
    hints.into_iter().fold(CliError::new(exit, error.to_string()), CliError::hint)
}

fn version(text: &str) -> Result<ApiVersion, String> {
    text.parse().map_err(|error: credlet_api::exec::UnknownVersion| error.to_string())
}

/// The signer, ready to sign or to be told a PIN. It may block: it belongs at the start of a process of its own.
pub(crate) fn signer(
    args: SignerArgs,
    cluster: &Cluster,
    world: &World,
    global: &Global,
) -> Result<Arc<dyn Signer>, CliError> {
    let crypto = Crypto::aws_lc_rs();
    Ok(match args {
        SignerArgs::Pkcs11(args) => Arc::new(hardware(args, world)?),
        SignerArgs::Sigv4(args) => Arc::new(aws(args, world)?),
        SignerArgs::File(args) => Arc::new(File::new(args.certificate, args.key, crypto, world.clock.clone())),
        SignerArgs::Exec(args) => Arc::new(another(args, cluster, world, global)?),
        SignerArgs::Headers(args) => Arc::new(headers(args, world)?),
    })
}

fn hardware(args: Pkcs11Args, world: &World) -> Result<Pkcs11Signer, CliError> {
    let uri = args.uri.map_err(|error| told(error.into()))?;
    let module = module::find(args.module.as_deref(), &uri, &*world.env).map_err(told)?;
    let pin = args.pin_file.map(PinSource::File).or_else(|| uri.pin_source.clone());
    let mut options = pkcs11::Options::new(uri, module);
    options.pin = pin.map(|source| source.read()).transpose().map_err(told)?;
    options.chain = args.certificate.map(|path| read(&path)).transpose()?;
    Pkcs11Signer::open(options).map_err(told)
}

fn aws(args: Sigv4Args, world: &World) -> Result<Sigv4Signer, CliError> {
    let told = |error: aws::AwsError| {
        let hints = error.hints();
        hints.into_iter().fold(CliError::new(Exit::NoCredential, error.to_string()), CliError::hint)
    };
    let mut options = aws::Options::default();
    (options.profile, options.region) = (args.profile, args.region);
    // To say at once what is wrong with them.
    let chain = Chain::load(options.clone(), world.clone()).map_err(told)?;
    let region = chain.region().ok_or_else(|| {
        CliError::usage("for which region are requests to be signed?").hint("name it with --region, or in the profile")
    })?;
    let mut signing = sigv4::Options::new(region, args.service);
    signing.unsigned_large_bodies = args.unsigned_large_bodies;
    Ok(Sigv4Signer::new(signing, options, world))
}

fn headers(args: HeadersArgs, world: &World) -> Result<Headers, CliError> {
    let Some(path) = args.file else {
        let mut words = args.command.into_iter();
        let command = words.next().unwrap_or_default();
        return Ok(Headers::command(command, words.collect(), args.keep, world.clone()));
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
    Headers::fixed(pairs).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
}

/// A plugin behind a proxy has no terminal: the proxy has none.
fn another(args: ExecArgs, cluster: &Cluster, world: &World, global: &Global) -> Result<Exec, CliError> {
    let mut words = args.plugin.into_iter();
    let mut config = ExecConfig::new(words.next().unwrap_or_default(), args.api_version).args(words);
    config.interactive_mode = InteractiveMode::Never;
    config.provide_cluster_info = args.provide_cluster_info;
    let mut settings = ExecSettings::new(Crypto::aws_lc_rs());
    let proxies = ExecProxies::from_env(&*world.env);
    settings.options = ExecOptions { policy: global.policy()?, ..ExecOptions::default() };
    settings.options.lock_file = proxies.clone().map(|proxies| proxies as _);
    let authenticators = Authenticators::new(world.clone());
    let authenticator = authenticators.exec(&KubeconfigExec::new(config, cluster.clone()), &settings)?;
    Ok(Exec::new(authenticator, world.clock.clone(), proxies.map(|proxies| proxies as _)))
}

fn read(path: &std::path::Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(path).map_err(|error| CliError::usage(format!("{}: {}", path.display(), error.kind())))
}
