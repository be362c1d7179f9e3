use std::path::PathBuf;

use clap::{ArgAction, Parser};

/// Print a credential for an Amazon EKS cluster, signed locally.
///
/// Accepts the flags of `aws eks get-token` and of `aws-iam-authenticator token`, so that only the command of a kubeconfig has to
/// change.
#[derive(Debug, Parser)]
#[command(
    name = "credlet-eks",
    disable_version_flag = true,
    override_usage = "credlet-eks --cluster-name NAME [OPTIONS]"
)]
pub(super) struct EksArgs {
    /// `eks get-token` or `token`, accepted for compatibility with awscli and aws-iam-authenticator.
    #[arg(value_name = "COMMAND", hide = true)]
    pub(super) command: Vec<String>,
    /// Name of the cluster.
    #[arg(long, value_name = "NAME", conflicts_with = "cluster_id")]
    cluster_name: Option<String>,
    /// Name of the cluster, or id of a cluster on an Outpost [env: KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID].
    #[arg(short = 'i', long, value_name = "ID")]
    cluster_id: Option<String>,
    /// Role to assume before signing [env: DEFAULT_ROLE].
    #[arg(short = 'r', long = "role-arn", visible_alias = "role", value_name = "ARN")]
    pub(super) role: Option<String>,
    /// External id that the role's trust policy requires.
    #[arg(short = 'e', long, value_name = "ID")]
    pub(super) external_id: Option<String>,
    /// Session name of the assumed role, shown in CloudTrail.
    #[arg(short = 's', long, value_name = "NAME")]
    pub(super) session_name: Option<String>,
    /// Use the caller's session name for the assumed role.
    #[arg(long)]
    pub(super) forward_session_name: bool,
    /// Region of the cluster.
    #[arg(long, value_name = "REGION")]
    pub(super) region: Option<String>,
    /// AWS profile to use; takes precedence over keys in the environment.
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
    /// PEM file of trusted certificate authorities.
    #[arg(long, value_name = "FILE")]
    pub(super) ca_bundle: Option<PathBuf>,
    /// Print only the token.
    #[arg(long)]
    pub(super) token_only: bool,
    /// Cache the credentials of assumed roles and SSO until they expire; disable with `--cache=false`.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(super) cache: bool,

    /// Ignored: clients accept only JSON.
    #[arg(long, hide = true)]
    output: Option<String>,
    /// Ignored: no request goes to the EKS service, and awscli does not use it for STS.
    #[arg(long, hide = true)]
    endpoint_url: Option<String>,
    #[arg(long, hide = true, action = ArgAction::SetTrue)]
    debug: bool,
    #[arg(long, hide = true)]
    color: Option<String>,
    #[arg(long, hide = true)]
    cli_read_timeout: Option<u32>,
    #[arg(long, hide = true)]
    cli_connect_timeout: Option<u32>,
    #[arg(long, hide = true)]
    cli_binary_format: Option<String>,
    #[arg(long, hide = true)]
    no_cli_pager: bool,
    #[arg(long, hide = true)]
    no_paginate: bool,
    #[arg(long, hide = true)]
    no_cli_auto_prompt: bool,
    #[arg(short = 'l', long, hide = true)]
    log_format: Option<String>,
    #[arg(short = 'v', long, hide = true)]
    log_verbosity: Option<String>,
}

impl EksArgs {
    /// The cluster's name or id unless it is empty.
    pub(super) fn cluster(&self) -> Option<&str> {
        self.cluster_name.as_deref().or(self.cluster_id.as_deref()).filter(|name| !name.is_empty())
    }

    /// The first positional argument if it is not a command of awscli or aws-iam-authenticator for tokens.
    pub(super) fn unexpected_command(&self) -> Option<&str> {
        let command: Vec<_> = self.command.iter().map(String::as_str).collect();
        match *command {
            [] | ["eks", "get-token"] | ["get-token"] | ["token"] => None,
            [first, ..] => Some(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn clap_definition_is_valid() {
        EksArgs::command().debug_assert();
    }

    fn read(line: &str) -> EksArgs {
        EksArgs::try_parse_from(["credlet-eks"].into_iter().chain(line.split(' '))).unwrap()
    }

    #[test]
    fn accepts_awscli_flags_in_any_position() {
        let args = read(
            "--region eu-west-3 eks get-token --cluster-name demo --output json --role-arn arn:x --profile=p --no-cli-pager",
        );
        assert_eq!(
            (args.cluster(), args.region.as_deref(), args.unexpected_command()),
            (Some("demo"), Some("eu-west-3"), None)
        );
        assert_eq!((args.role.as_deref(), args.profile.as_deref()), (Some("arn:x"), Some("p")));
        assert_eq!(read("eks get-token --cluster-id 0123").cluster(), Some("0123"));
        assert!(EksArgs::try_parse_from(["x", "--cluster-name", "a", "--cluster-id", "b"]).is_err());
    }

    #[test]
    fn accepts_aws_iam_authenticator_flags() {
        let args = read(
            "token -i demo -r arn:x -e ext -s me --region r --token-only --cache --forward-session-name -l json -v 5",
        );
        assert_eq!(
            (args.cluster(), args.role.as_deref(), args.unexpected_command()),
            (Some("demo"), Some("arn:x"), None)
        );
        assert_eq!((args.external_id.as_deref(), args.session_name.as_deref()), (Some("ext"), Some("me")));
        assert!(args.token_only && args.forward_session_name && args.cache);
        let args = read("token -i=demo --role=arn:x --external-id=ext --session-name=me --cache=false");
        assert_eq!((args.cluster(), args.role.as_deref(), args.cache), (Some("demo"), Some("arn:x"), false));
        assert_eq!(read("token -idemo").cluster(), Some("demo"));
    }

    #[test]
    fn detects_other_commands() {
        assert_eq!(read("eks list-clusters").unexpected_command(), Some("eks"));
        assert_eq!(read("server -i demo").unexpected_command(), Some("server"));
    }
}
