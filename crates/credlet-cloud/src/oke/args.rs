use std::path::PathBuf;

use clap::Parser;

/// Print a credential for an Oracle Kubernetes Engine cluster, signed locally.
///
/// Accepts the flags of `oci ce cluster generate-token`, so that only the command of a kubeconfig has to change.
#[derive(Debug, Parser)]
#[command(
    name = "credlet-oke",
    version,
    args_override_self = true,
    override_usage = "credlet-oke --cluster-id OCID [OPTIONS]"
)]
pub(super) struct OkeArgs {
    /// `ce cluster generate-token`, accepted for compatibility with oci-cli.
    #[arg(value_name = "COMMAND", hide = true)]
    command: Vec<String>,
    /// OCID of the cluster.
    #[arg(long, value_name = "OCID")]
    pub(super) cluster_id: Option<String>,
    /// Region of the cluster [env: OCI_CLI_REGION].
    #[arg(long, value_name = "REGION")]
    pub(super) region: Option<String>,
    /// Profile of the configuration file [env: OCI_CLI_PROFILE].
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
    /// Configuration file [env: OCI_CLI_CONFIG_FILE] [default: ~/.oci/config].
    #[arg(long, value_name = "FILE")]
    pub(super) config_file: Option<PathBuf>,
    /// `api_key`, or `security_token` for a session [env: OCI_CLI_AUTH].
    #[arg(long, value_name = "KIND")]
    pub(super) auth: Option<String>,
    /// URL that the token is signed for, instead of that of the region.
    #[arg(long, value_name = "URL")]
    pub(super) endpoint: Option<String>,
    #[arg(long, hide = true)]
    output: Option<String>,
    #[arg(short = 'd', long, hide = true)]
    debug: bool,
}

impl OkeArgs {
    /// The first positional argument if it belongs to another command.
    pub(super) fn unexpected_command(&self) -> Option<&str> {
        let command: Vec<_> = self.command.iter().map(String::as_str).collect();
        match *command {
            [] | ["ce", "cluster", "generate-token"] | ["generate-token"] => None,
            [first, ..] => Some(first),
        }
    }
}
