//! Arguments of `credlet proxy` for a user of the kubeconfig.

use std::path::Path;

use credlet_api::exec::{ExecConfig, InteractiveMode};
use credlet_kubeconfig::ResolvedConfig;

use crate::error::CliError;

/// The arguments after `credlet proxy` if the plugin is `credlet proxy` with a signer.
pub(in crate::commands) fn existing_signer_args(config: &ExecConfig) -> Option<&[String]> {
    let is_credlet = Path::new(&config.command).file_name().is_some_and(|name| name == "credlet");
    let (first, rest) = config.args.split_first().filter(|_| is_credlet)?;
    // `credlet proxy join` uses the proxy of another user and has no signer.
    (first == "proxy" && rest.first().is_none_or(|verb| verb != "join")).then_some(rest)
}

/// The arguments of `credlet proxy` that sign with the current credential of the user.
pub(in crate::commands) fn signer_args_for(resolved: &ResolvedConfig) -> Result<Vec<String>, CliError> {
    let identity = &resolved.identity;
    if let Some(exec) = identity.exec_in_use() {
        let config = &exec.config;
        if let Some(signer) = existing_signer_args(config) {
            return Ok(signer.to_vec());
        }
        if config.interactive_mode == InteractiveMode::Always {
            return Err(CliError::usage("the user's plugin requires a terminal, which a proxy does not have"));
        }
        let mut args = vec!["exec".to_owned(), format!("--api-version={}", config.api_version)];
        args.extend(config.provide_cluster_info.then(|| "--provide-cluster-info".to_owned()));
        args.extend(["--".to_owned(), config.command.clone()]);
        args.extend(config.args.iter().cloned());
        return Ok(args);
    }
    if let (None, Some(pair)) = (&identity.header, &identity.certificate)
        && let (Some(certificate), Some(key)) = (&pair.certificate_file, &pair.key_file)
        && let (Some(certificate), Some(key)) = (certificate.to_str(), key.to_str())
    {
        let args = ["file", "--certificate", certificate, "--key", key];
        return Ok(args.map(str::to_owned).to_vec());
    }
    Err(CliError::usage("missing signer: the user has neither an exec plugin nor certificate files")
        .hint("name a signer after `--`: `-- pkcs11 URI`, `-- file --certificate FILE --key FILE`, …"))
}
