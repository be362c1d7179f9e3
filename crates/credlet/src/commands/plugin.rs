use std::ffi::OsString;
use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;
use credlet_api::Secret;
use credlet_api::exec::EXEC_INFO_ENV;
use credlet_api::plugin;
use credlet_core::{Env as _, SystemEnv, World};
use credlet_plugins::aws::Person;
use credlet_plugins::image::{acr, docker_helper, ecr, gar};
use credlet_plugins::{eks, oidc};

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
    /// An OpenID Connect issuer, in place of kubelogin (`kubectl oidc-login`)
    Oidc,
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
  credlet plugin oidc get-token --oidc-issuer-url https://id.example --oidc-client-id kubernetes
  credlet plugin oidc status

In a kubeconfig made by `aws eks update-kubeconfig` one word changes, with a link credlet-eks in the PATH:
  command: aws    →    command: credlet-eks";

/// Whether there is a plugin of this name.
pub(crate) fn exists(name: &str) -> bool {
    Name::from_str(name, false).is_ok()
}

/// The plugin that stands in for a published one of this name, so that a kubelet's configuration need not change.
pub(crate) fn in_place_of(published: &str) -> Option<&'static str> {
    match published {
        "ecr-credential-provider" => Some("ecr"),
        "auth-provider-gcp" => Some("gar"),
        "acr-credential-provider" => Some("acr"),
        _ => None,
    }
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
        match self {
            Self::Eks => {
                let args = [OsString::from("credlet-eks")].into_iter().chain(args.iter().cloned()).collect();
                eks::run(args, &world, Arc::new(AtTerminal), io)
            }
            Self::Oidc => {
                let args = [OsString::from("credlet-oidc")].into_iter().chain(args.iter().cloned()).collect();
                oidc::run(args, &world, &(Arc::new(OnStderr) as _), io)
            }
            Self::DockerHelper => {
                let args = [OsString::from("credlet-docker-helper")].into_iter().chain(args.iter().cloned()).collect();
                docker_helper::run(args, &world, plugin::World { stdin: &mut io::stdin(), ..io })
            }
            Self::Ecr => {
                let args = [OsString::from("credlet-ecr")].into_iter().chain(args.iter().cloned()).collect();
                ecr::run(args, &world, plugin::World { stdin: &mut io::stdin(), ..io })
            }
            Self::Gar => {
                let args = [OsString::from("credlet-gar")].into_iter().chain(args.iter().cloned()).collect();
                gar::run(args, &world, plugin::World { stdin: &mut io::stdin(), ..io })
            }
            Self::Acr => {
                let args = [OsString::from("credlet-acr")].into_iter().chain(args.iter().cloned()).collect();
                acr::run(args, &world, plugin::World { stdin: &mut io::stdin(), ..io })
            }
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
