use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;
use credlet_api::exec::EXEC_INFO_ENV;
use credlet_api::{Secret, escape_control_chars, escape_line};
use credlet_cloud::aws::MfaPrompt;
use credlet_cloud::image::{acr, docker_helper, ecr, gar};
use credlet_cloud::{aks, ci_token, eks, gke, oke};
use credlet_exec::{Env as _, Platform, StderrSink, SystemEnv, SystemRunner};
use credlet_platform::terminal::{PromptError, read_secret_line};
use credlet_plugin as plugin;

use crate::plugins;
use crate::printer::{plugin_stderr, plugin_stdout};

/// Run a built-in credential plugin
///
/// A kubeconfig uses this as its exec command. A link to credlet with the name `credlet-NAME` runs the same plugin.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, override_usage = "credlet plugin <NAME> [ARGS]...")]
pub(crate) struct PluginArgs {
    /// Plugin to run
    #[arg(value_enum)]
    name: PluginName,
    /// Arguments of the plugin; see `credlet plugin NAME --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PluginName {
    /// Amazon EKS, in place of `aws eks get-token` and of aws-iam-authenticator
    Eks,
    /// Google Kubernetes Engine, in place of gke-gcloud-auth-plugin
    Gke,
    /// Azure Kubernetes Service and Entra ID, in place of Azure's kubelogin
    Aks,
    /// Oracle Kubernetes Engine, in place of `oci ce cluster generate-token`
    Oke,
    /// An OpenID Connect issuer, in place of kubelogin (`kubectl oidc-login`)
    Oidc,
    /// The token of a CI job: a file, a variable or GitHub's endpoint
    CiToken,
    /// Image credential provider that runs docker credential helpers
    DockerHelper,
    /// Images in Amazon's registries, in place of ecr-credential-provider
    Ecr,
    /// Images in Google's registries, in place of auth-provider-gcp
    Gar,
    /// Images in Azure's registries, in place of acr-credential-provider
    Acr,
}

const EXAMPLES: &str = "\
Examples:
  credlet plugin eks --region eu-west-3 --cluster-name blue
  credlet plugin eks --help
  credlet plugin gke --use_application_default_credentials
  credlet plugin aks get-token --login msi --server-id 6dae42f8-4368-4678-94ff-3960e28e3630
  credlet plugin oidc get-token --oidc-issuer-url https://id.example --oidc-client-id kubernetes
  credlet plugin oidc status

With a link credlet-eks in the PATH, change the command in a kubeconfig of `aws eks update-kubeconfig`:
  command: aws    →    command: credlet-eks";

/// Whether a built-in plugin has this name.
pub(crate) fn exists(name: &str) -> bool {
    PluginName::from_str(name, false).is_ok()
}

/// Runs the plugin of the command line `credlet plugin NAME …`. Returns `None` if there is no plugin of that name.
pub(crate) fn early(argv: &[OsString]) -> Option<ExitCode> {
    let (name, args) = argv.get(2..)?.split_first()?;
    PluginName::from_str(name.to_str()?, false).ok().map(|name| name.run(args))
}

/// Runs the plugin if clap parsed the command line, for example because a global flag precedes `plugin`.
pub(crate) fn run(args: &PluginArgs) -> ExitCode {
    args.name.run(&args.args)
}

impl PluginName {
    fn run(self, args: &[OsString]) -> ExitCode {
        let platform = Platform::system();
        let io = plugin::PluginIo {
            exec_info: SystemEnv.var(EXEC_INFO_ENV),
            // Left to prompts on the terminal.
            stdin: &mut io::empty(),
            stdout: &mut plugin_stdout(),
            stderr: &mut plugin_stderr(),
        };
        let name = self.to_possible_value().map(|value| format!("credlet-{}", value.get_name())).unwrap_or_default();
        let args = [OsString::from(name)].into_iter().chain(args.iter().cloned()).collect();
        match self {
            Self::Eks => eks::run(args, &platform, Arc::new(TerminalPrompt), io),
            Self::Gke => gke::run(args, &platform, io),
            Self::Aks => aks::run(args, &platform, &(Arc::new(StderrOutput) as _), io),
            Self::Oke => oke::run(args, &platform, io),
            Self::Oidc => plugins::oidc::run(args, &platform, &(Arc::new(StderrOutput) as _), io),
            Self::CiToken => ci_token::run(args, &platform, io),
            Self::DockerHelper => {
                // Standard error of a helper may contain secrets, so it is not passed on.
                let platform =
                    Platform { runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)), ..platform };
                docker_helper::run(args, &platform, plugin::PluginIo { stdin: &mut io::stdin(), ..io })
            }
            Self::Ecr => ecr::run(args, &platform, plugin::PluginIo { stdin: &mut io::stdin(), ..io }),
            Self::Gar => gar::run(args, &platform, plugin::PluginIo { stdin: &mut io::stdin(), ..io }),
            Self::Acr => acr::run(args, &platform, plugin::PluginIo { stdin: &mut io::stdin(), ..io }),
        }
    }
}

/// Prints messages of a login on standard error.
struct StderrOutput;

impl credlet_oidc::UserOutput for StderrOutput {
    fn print_line(&self, line: &str) {
        // A closed standard error is not an error.
        let _ = writeln!(io::stderr(), "{}", escape_control_chars(line));
    }
}

/// Prompts on the controlling terminal without echo, because the input may be a password.
#[derive(Debug)]
struct TerminalPrompt;

/// Maximum input length of a prompt, in bytes.
const MAX_INPUT: usize = 255;

impl MfaPrompt for TerminalPrompt {
    fn read_code(&self, prompt: &str) -> io::Result<Secret> {
        match read_secret_line(&escape_line(prompt), MAX_INPUT) {
            Ok(mut line) => Ok(Secret::new(std::mem::take(&mut *line))),
            Err(PromptError::Terminal(error)) => Err(error),
            Err(PromptError::Interrupted(_)) => Err(io::ErrorKind::Interrupted.into()),
            Err(PromptError::Cancelled | PromptError::Empty) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
