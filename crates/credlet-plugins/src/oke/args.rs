use std::path::PathBuf;

use clap::Parser;

/// A credential for an Oracle Kubernetes Engine cluster, signed on this machine.
///
/// Takes the flags of `oci ce cluster generate-token`, so that a kubeconfig changes one word: its command.
#[derive(Debug, Parser)]
#[command(
    name = "credlet-oke",
    version,
    args_override_self = true,
    override_usage = "credlet-oke --cluster-id OCID [OPTIONS]"
)]
pub(super) struct Args {
    /// `ce cluster generate-token`, as in the kubeconfig that was: it makes no difference.
    #[arg(value_name = "WORDS", hide = true)]
    words: Vec<String>,
    /// The cluster's OCID.
    #[arg(long, value_name = "OCID")]
    pub(super) cluster_id: Option<String>,
    /// The cluster's region [env: OCI_CLI_REGION].
    #[arg(long, value_name = "REGION")]
    pub(super) region: Option<String>,
    /// The profile of the configuration [env: OCI_CLI_PROFILE].
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
    /// The configuration [env: OCI_CLI_CONFIG_FILE] [default: ~/.oci/config].
    #[arg(long, value_name = "FILE")]
    pub(super) config_file: Option<PathBuf>,
    /// `api_key`, or `security_token` for a session [env: OCI_CLI_AUTH].
    #[arg(long, value_name = "KIND")]
    pub(super) auth: Option<String>,
    /// The address that the token is signed for, if it is not that of the region.
    #[arg(long, value_name = "URL")]
    pub(super) endpoint: Option<String>,
    #[arg(long, hide = true)]
    output: Option<String>,
    #[arg(short = 'd', long, hide = true)]
    debug: bool,
}

impl Args {
    /// A word that belongs to another command.
    pub(super) fn stray(&self) -> Option<&str> {
        let words: Vec<_> = self.words.iter().map(String::as_str).collect();
        match *words {
            [] | ["ce", "cluster", "generate-token"] | ["generate-token"] => None,
            [first, ..] => Some(first),
        }
    }
}
