use super::Outcome;
use super::request;
use super::response::ResponseArgs;
use crate::args::GlobalArgs;

/// Send a GET request with the kubeconfig's credential
///
/// Streams the response body to standard output; a watch is printed event by event. A status other than 2xx is an error: credlet prints
/// the server's message and exits with 1.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct GetArgs {
    /// Path and query to request; {namespace} is replaced by the namespace in use
    path: String,
    #[command(flatten)]
    show: ResponseArgs,
}

const EXAMPLES: &str = "\
Examples:
  credlet get /readyz?verbose
  credlet get '/api/v1/namespaces/{namespace}/pods?limit=5' -n kube-system | jq -r '.items[].metadata.name'
  credlet get '/api/v1/namespaces?watch=true'
  credlet get -i /version --context blue";

pub(crate) fn run(args: GetArgs, global: &GlobalArgs) -> Outcome {
    request::send(http::Method::GET, &args.path, &[], None, args.show, global)
}
