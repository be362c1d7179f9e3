use std::ffi::OsString;
use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;
use credlet_api::Secret;
use credlet_api::exec::EXEC_INFO_ENV;
use credlet_api::plugin;
use credlet_core::{Env as _, StderrSink, SystemEnv, SystemRunner, World};
use credlet_plugins::aws::Person;
use credlet_plugins::image::{acr, docker_helper, ecr, gar};
use credlet_plugins::{aks, ci_token, eks, gke, oidc, oke};

/// Be one of the credential plugins that come with credlet
///
/// This is what a kubeconfig names as its command. A link to this program that is called `credlet-NAME` does the same.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, override_usage = "credlet plugin <NAME> [ARGS]...")]
pub(crate) struct Args {
    /// Which of them
    #[arg(value_enum)]
    name: Name,
    /// Its own arguments; `credlet plugin NAME --help` shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
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
    /// An image credential provider that asks docker credential helpers
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

In a kubeconfig made by `aws eks update-kubeconfig` one word changes, with a link credlet-eks in the PATH:
  command: aws    →    command: credlet-eks";

/// Whether there is a plugin of this name.
pub(crate) fn exists(name: &str) -> bool {
    Name::from_str(name, false).is_ok()
}

/// Runs the plugin that the words name: `credlet plugin NAME …`. `None`: there is none of that name.
pub(crate) fn early(words: &[OsString]) -> Option<ExitCode> {
    let (name, args) = words.get(2..)?.split_first()?;
    Name::from_str(name.to_str()?, false).ok().map(|name| name.run(args))
}

/// The usual way, for those who put a common flag before the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    args.name.run(&args.args)
}

impl Name {
    fn run(self, args: &[OsString]) -> ExitCode {
        let world = World::system();
        let io = plugin::World {
            exec_info: SystemEnv.var(EXEC_INFO_ENV),
            // Left to the person, who may be asked something.
            stdin: &mut io::empty(),
            stdout: &mut io::stdout(),
            stderr: &mut io::stderr(),
        };
        let name = self.to_possible_value().map(|value| format!("credlet-{}", value.get_name())).unwrap_or_default();
        let args = [OsString::from(name)].into_iter().chain(args.iter().cloned()).collect();
        match self {
            Self::Eks => eks::run(args, &world, Arc::new(AtTerminal), io),
            Self::Gke => gke::run(args, &world, io),
            Self::Aks => aks::run(args, &world, &(Arc::new(OnStderr) as _), io),
            Self::Oke => oke::run(args, &world, io),
            Self::Oidc => oidc::run(args, &world, &(Arc::new(OnStderr) as _), io),
            Self::CiToken => ci_token::run(args, &world, io),
            Self::DockerHelper => {
                // Helpers' words may hold secrets: what is told of them, is told with the error.
                let world = World { runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)), ..world };
                docker_helper::run(args, &world, plugin::World { stdin: &mut io::stdin(), ..io })
            }
            Self::Ecr => ecr::run(args, &world, plugin::World { stdin: &mut io::stdin(), ..io }),
            Self::Gar => gar::run(args, &world, plugin::World { stdin: &mut io::stdin(), ..io }),
            Self::Acr => acr::run(args, &world, plugin::World { stdin: &mut io::stdin(), ..io }),
        }
    }
}

/// Whoever reads our standard error.
struct OnStderr;

impl oidc::Talk for OnStderr {
    fn say(&self, line: &str) {
        // Nobody there to read it is no reason to fail.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Whoever sits at the terminal that is our standard input.
#[derive(Debug)]
struct AtTerminal;

impl Person for AtTerminal {
    fn ask(&self, question: &str) -> io::Result<Secret> {
        let mut stderr = io::stderr().lock();
        write!(stderr, "{question}")?;
        stderr.flush()?;
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(Secret::new(line)),
        }
    }
}
