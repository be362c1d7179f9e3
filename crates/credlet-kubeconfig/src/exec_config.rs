//! Validation of the `exec` section of a user.

use credlet_api::exec::{ApiVersion, ExecConfig, ExecConfigError, ExecEnvVar, InteractiveMode};
use credlet_api::kubeconfig::ExecSection;

use super::merged::LoadedFile;
use super::origin::ValueOrigin;
use super::validation::{ConfigProblem, ProblemCollector};

/// Converts the section at `origin` in `file`. Returns `None` if there are problems.
pub(super) fn convert(
    section: &ExecSection,
    file: &LoadedFile,
    origin: &ValueOrigin,
    problems: &mut ProblemCollector<'_>,
) -> Option<ExecConfig> {
    let before = problems.errors.len();
    // Missing fields are reported at the beginning of the section.
    let at = |line: usize| if line == 0 { origin.clone() } else { file.origin(line) };

    let command = file.command(&section.command).unwrap_or_else(|| {
        problems.add(&at(section.command.line), ConfigProblem::CommandPath);
        section.command.value.clone()
    });
    let version = match section.api_version.parse::<ApiVersion>() {
        Ok(version) => Some(version),
        Err(_) => {
            let missing = section.api_version.is_empty();
            let problem = if missing { ConfigProblem::NoApiVersion } else { ConfigProblem::ApiVersion };
            problems.add(&at(section.api_version.line), problem);
            None
        }
    };
    let mode = interactive_mode(&section.interactive_mode, version);
    if let Err(problem) = &mode {
        problems.add(&at(section.interactive_mode.line), problem.clone());
    }

    let variable = |variable: &credlet_api::kubeconfig::ExecSectionEnvVar| ExecEnvVar {
        name: variable.name.value.clone(),
        value: variable.value.clone(),
    };
    let config = ExecConfig {
        args: section.args.iter().map(|arg| arg.expose().to_owned()).collect(),
        env: section.env.iter().map(variable).collect(),
        install_hint: credlet_api::escape_control_chars(&section.install_hint),
        provide_cluster_info: section.provide_cluster_info.value,
        interactive_mode: mode.unwrap_or(InteractiveMode::Never),
        // Placeholder: a missing version was reported above.
        ..ExecConfig::new(command, version.unwrap_or(ApiVersion::V1))
    };
    for error in config.validate().err().unwrap_or_default() {
        let line = match &error {
            ExecConfigError::MissingCommand => section.command.line,
            ExecConfigError::MissingEnvName { index } => {
                section.env.get(*index).map_or(0, |variable| variable.name.line)
            }
            ExecConfigError::NulCharacter { field } if field.starts_with("args") => section.args.line,
            _ => 0,
        };
        problems.add(&at(line), ConfigProblem::Exec(error));
    }
    (problems.errors.len() == before).then_some(config)
}

/// Parses `interactiveMode`. Before v1 it is optional and defaults to `IfAvailable`; in v1 it is required (KEP-541).
fn interactive_mode(text: &str, version: Option<ApiVersion>) -> Result<InteractiveMode, ConfigProblem> {
    match (text, version) {
        ("", Some(ApiVersion::V1alpha1 | ApiVersion::V1beta1)) => Ok(InteractiveMode::IfAvailable),
        ("", _) => Err(ConfigProblem::NoInteractiveMode),
        (text, _) => text.parse().map_err(ConfigProblem::Exec),
    }
}
