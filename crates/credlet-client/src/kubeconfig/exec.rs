//! From the section `exec` to a configuration that a plugin can be run with.

use credlet_api::exec::{ApiVersion, ConfigError, ExecConfig, ExecEnvVar, InteractiveMode};
use credlet_api::kubeconfig::ExecSection;

use super::merged::Loaded;
use super::mistake::{Findings, Problem};
use super::origin::Origin;

/// Checks the section at `origin` in `file`. `None`: there are mistakes.
pub(super) fn config(
    section: &ExecSection,
    file: &Loaded,
    origin: &Origin,
    findings: &mut Findings<'_>,
) -> Option<ExecConfig> {
    let before = findings.mistakes.len();
    // What is not there is missed where the section begins.
    let at = |line: usize| if line == 0 { origin.clone() } else { file.origin(line) };

    let command = file.command(&section.command).unwrap_or_else(|| {
        findings.add(&at(section.command.line), Problem::CommandPath);
        section.command.value.clone()
    });
    let version = match section.api_version.parse::<ApiVersion>() {
        Ok(version) => Some(version),
        Err(_) => {
            let missing = section.api_version.is_empty();
            let problem = if missing { Problem::NoApiVersion } else { Problem::ApiVersion };
            findings.add(&at(section.api_version.line), problem);
            None
        }
    };
    let mode = interactive_mode(&section.interactive_mode, version);
    if let Err(problem) = &mode {
        findings.add(&at(section.interactive_mode.line), problem.clone());
    }

    let variable = |variable: &credlet_api::kubeconfig::ExecEnvVar| ExecEnvVar {
        name: variable.name.value.clone(),
        value: variable.value.clone(),
    };
    let config = ExecConfig {
        args: section.args.iter().map(|arg| arg.expose().to_owned()).collect(),
        env: section.env.iter().map(variable).collect(),
        install_hint: credlet_api::visible(&section.install_hint),
        provide_cluster_info: section.provide_cluster_info.value,
        interactive_mode: mode.unwrap_or(InteractiveMode::Never),
        // Stands in for one that is missed above already.
        ..ExecConfig::new(command, version.unwrap_or(ApiVersion::V1))
    };
    for error in config.check().err().unwrap_or_default() {
        let line = match &error {
            ConfigError::NoCommand => section.command.line,
            ConfigError::NoEnvName { index } => section.env.get(*index).map_or(0, |variable| variable.name.line),
            ConfigError::Nul { field } if field.starts_with("args") => section.args.line,
            _ => 0,
        };
        findings.add(&at(line), Problem::Exec(error));
    }
    (findings.mistakes.len() == before).then_some(config)
}

/// Rule 6: before v1 nobody had to say anything, and that meant `IfAvailable`.
fn interactive_mode(text: &str, version: Option<ApiVersion>) -> Result<InteractiveMode, Problem> {
    match (text, version) {
        ("", Some(ApiVersion::V1alpha1 | ApiVersion::V1beta1)) => Ok(InteractiveMode::IfAvailable),
        ("", _) => Err(Problem::NoInteractiveMode),
        (text, _) => text.parse().map_err(Problem::Exec),
    }
}
