use super::Outcome;
use super::answer::Show;
use super::request;
use crate::args::Global;

/// Ask the API server something: a GET with the kubeconfig's credential
///
/// The answer goes to standard output as it comes; a watch is printed line by line. What the server refuses is an
/// error, and its message is printed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The path on the server, with its query; {namespace} stands for the namespace in use
    path: String,
    #[command(flatten)]
    show: Show,
}

const EXAMPLES: &str = "\
Examples:
  credlet get /readyz?verbose
  credlet get '/api/v1/namespaces/{namespace}/pods?limit=5' -n kube-system | jq -r '.items[].metadata.name'
  credlet get '/api/v1/namespaces?watch=true'
  credlet get -i /version --context blue";

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    request::send(http::Method::GET, &args.path, &[], None, args.show, global)
}
