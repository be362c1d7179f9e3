use std::path::PathBuf;

use clap::{ArgAction, Parser};

/// A credential for an Amazon EKS cluster, made on this machine.
///
/// Takes the flags of `aws eks get-token` and of `aws-iam-authenticator token`, so that a kubeconfig changes one word:
/// its command.
#[derive(Debug, Parser)]
#[command(
    name = "credlet-eks",
    disable_version_flag = true,
    override_usage = "credlet-eks --cluster-name NAME [OPTIONS]"
)]
pub(super) struct Args {
    /// `eks get-token` or `token`, as in the kubeconfig that was: it makes no difference.
    #[arg(value_name = "WORDS", hide = true)]
    pub(super) words: Vec<String>,
    /// The name of the cluster.
    #[arg(long, value_name = "NAME", conflicts_with = "cluster_id")]
    cluster_name: Option<String>,
    /// The name of the cluster, or the id of one on an Outpost [env: KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID].
    #[arg(short = 'i', long, value_name = "ID")]
    cluster_id: Option<String>,
    /// The role to assume before signing [env: DEFAULT_ROLE].
    #[arg(short = 'r', long = "role-arn", visible_alias = "role", value_name = "ARN")]
    pub(super) role: Option<String>,
    /// The external id that the role asks for.
    #[arg(short = 'e', long, value_name = "ID")]
    pub(super) external_id: Option<String>,
    /// The name of the role's session in the account's log.
    #[arg(short = 's', long, value_name = "NAME")]
    pub(super) session_name: Option<String>,
    /// Give the role's session the name of the session that assumes it.
    #[arg(long)]
    pub(super) forward_session_name: bool,
    /// The region of the cluster.
    #[arg(long, value_name = "REGION")]
    pub(super) region: Option<String>,
    /// The profile with the credentials; it goes before keys in the environment.
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
    /// The certificate authorities to believe.
    #[arg(long, value_name = "FILE")]
    pub(super) ca_bundle: Option<PathBuf>,
    /// Print the token alone.
    #[arg(long)]
    pub(super) token_only: bool,
    /// Keep the credentials of assumed roles and of SSO until they end; `--cache=false` does not.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(super) cache: bool,

    /// Always json: a client takes nothing else.
    #[arg(long, hide = true)]
    output: Option<String>,
    /// Of no use: nothing is asked of the EKS service itself, and awscli does not use it for STS.
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

impl Args {
    /// The cluster, by either name. Empty is none.
    pub(super) fn cluster(&self) -> Option<&str> {
        self.cluster_name.as_deref().or(self.cluster_id.as_deref()).filter(|name| !name.is_empty())
    }

    /// A word that belongs to neither program.
    pub(super) fn stray(&self) -> Option<&str> {
        let words: Vec<_> = self.words.iter().map(String::as_str).collect();
        match *words {
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
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    fn read(line: &str) -> Args {
        Args::try_parse_from(["credlet-eks"].into_iter().chain(line.split(' '))).unwrap()
    }

    #[test]
    fn the_flags_of_awscli_are_taken_wherever_they_stand() {
        let args = read(
            "--region eu-west-3 eks get-token --cluster-name demo --output json --role-arn arn:x --profile=p --no-cli-pager",
        );
        assert_eq!((args.cluster(), args.region.as_deref(), args.stray()), (Some("demo"), Some("eu-west-3"), None));
        assert_eq!((args.role.as_deref(), args.profile.as_deref()), (Some("arn:x"), Some("p")));
        assert_eq!(read("eks get-token --cluster-id 0123").cluster(), Some("0123"));
        assert!(Args::try_parse_from(["x", "--cluster-name", "a", "--cluster-id", "b"]).is_err());
    }

    #[test]
    fn the_flags_of_aws_iam_authenticator_are_taken_in_all_their_forms() {
        let args = read(
            "token -i demo -r arn:x -e ext -s me --region r --token-only --cache --forward-session-name -l json -v 5",
        );
        assert_eq!((args.cluster(), args.role.as_deref(), args.stray()), (Some("demo"), Some("arn:x"), None));
        assert_eq!((args.external_id.as_deref(), args.session_name.as_deref()), (Some("ext"), Some("me")));
        assert!(args.token_only && args.forward_session_name && args.cache);
        let args = read("token -i=demo --role=arn:x --external-id=ext --session-name=me --cache=false");
        assert_eq!((args.cluster(), args.role.as_deref(), args.cache), (Some("demo"), Some("arn:x"), false));
        assert_eq!(read("token -idemo").cluster(), Some("demo"));
    }

    #[test]
    fn a_word_of_another_command_is_noticed() {
        assert_eq!(read("eks list-clusters").stray(), Some("eks"));
        assert_eq!(read("server -i demo").stray(), Some("server"));
    }
}
