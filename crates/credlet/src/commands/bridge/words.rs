//! How a kubeconfig's user would say it with `credlet proxy`.

use std::path::Path;

use credlet_api::exec::{ExecConfig, InteractiveMode};
use credlet_client::kubeconfig::Resolved;

use crate::error::CliError;

/// The words behind `credlet proxy`, if that is what the plugin is, and it signs.
pub(in crate::commands) fn of_proxy(config: &ExecConfig) -> Option<&[String]> {
    let ours = Path::new(&config.command).file_name().is_some_and(|name| name == "credlet");
    let (first, rest) = config.args.split_first().filter(|_| ours)?;
    // Whoever joins another's proxy signs nothing.
    (first == "proxy" && rest.first().is_none_or(|verb| verb != "join")).then_some(rest)
}

/// The words behind `credlet proxy` that do what this user has now.
pub(in crate::commands) fn of_user(resolved: &Resolved) -> Result<Vec<String>, CliError> {
    let identity = &resolved.identity;
    if let Some(exec) = identity.exec_in_use() {
        let config = &exec.config;
        if let Some(signer) = of_proxy(config) {
            return Ok(signer.to_vec());
        }
        if config.interactive_mode == InteractiveMode::Always {
            return Err(CliError::usage("the user's plugin wants a terminal, which a proxy has not"));
        }
        let mut words = vec!["exec".to_owned(), format!("--api-version={}", config.api_version)];
        words.extend(config.provide_cluster_info.then(|| "--provide-cluster-info".to_owned()));
        words.extend(["--".to_owned(), config.command.clone()]);
        words.extend(config.args.iter().cloned());
        return Ok(words);
    }
    if let (None, Some(pair)) = (&identity.header, &identity.certificate)
        && let (Some(certificate), Some(key)) = (&pair.certificate_file, &pair.key_file)
        && let (Some(certificate), Some(key)) = (certificate.to_str(), key.to_str())
    {
        let words = ["file", "--certificate", certificate, "--key", key];
        return Ok(words.map(str::to_owned).to_vec());
    }
    Err(CliError::usage("the user has neither a plugin nor the files of a certificate, which a proxy could use")
        .hint("say how to sign, after `--`: `-- pkcs11 URI`, `-- file --certificate FILE --key FILE`, …"))
}
