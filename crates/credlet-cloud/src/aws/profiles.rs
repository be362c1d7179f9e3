//! Profiles of the two files that awscli and the SDKs share.

use std::path::{Path, PathBuf};

use credlet_exec::Env;
use credlet_platform::fs::{ReadError, read_bounded};
use zeroize::Zeroizing;

use super::AwsError;
use crate::ini::{self, Section};
use crate::oauth::IdentityToken;
use crate::plugin_runner::expand_home;

/// Maximum file size in bytes: room for 20,000 profiles, or for a system's certificate authorities.
const FILE_LIMIT: u64 = 8 << 20;

/// The parsed config and credentials files.
#[derive(Debug)]
pub(super) struct ProfileFiles {
    /// `None`: the home directory is unknown.
    config_path: Option<PathBuf>,
    credentials_path: Option<PathBuf>,
    config: Vec<Section>,
    credentials: Vec<Section>,
}

impl ProfileFiles {
    /// Reads both files. A missing file counts as empty.
    pub(super) fn read(env: &dyn Env) -> Result<Self, AwsError> {
        let config_path = path(env, "AWS_CONFIG_FILE", "config")?;
        let credentials_path = path(env, "AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
        let config = sections(config_path.as_deref())?;
        let credentials = sections(credentials_path.as_deref())?;
        Ok(Self { config_path, credentials_path, config, credentials })
    }

    /// Returns the paths of the config and the credentials file for messages.
    pub(super) fn display_paths(&self) -> (PathBuf, PathBuf) {
        let shown = |path: &Option<PathBuf>, usual: &str| path.clone().unwrap_or_else(|| usual.into());
        (shown(&self.config_path, "~/.aws/config"), shown(&self.credentials_path, "~/.aws/credentials"))
    }

    /// A profile, or `None` if neither file has it.
    pub(super) fn profile(&self, name: &str) -> Option<AwsProfile<'_>> {
        let config: Vec<_> = self.config.iter().filter(|section| is_profile(section, name)).collect();
        let credentials: Vec<_> = self.credentials.iter().filter(|section| section.title == name).collect();
        let exists = !config.is_empty() || !credentials.is_empty();
        exists.then(|| AwsProfile { name: name.to_owned(), config, credentials })
    }

    /// A section `[KIND NAME]` of the config file, such as `[sso-session NAME]` or `[services NAME]`.
    pub(super) fn named(&self, kind: &str, name: &str) -> Option<NamedSection<'_>> {
        let sections: Vec<_> = self.config.iter().filter(|section| is_named(section, kind, name)).collect();
        (!sections.is_empty()).then_some(NamedSection(sections))
    }

    /// The names of all profiles, sorted, for messages.
    pub(super) fn names(&self) -> Vec<String> {
        let config =
            self.config.iter().filter_map(|section| match ini::split_shell_words(&section.title)?.as_slice() {
                [only] if only == "default" => Some(only.clone()),
                [kind, name] if kind == "profile" => Some(name.clone()),
                _ => None,
            });
        let mut names: Vec<_> = config.chain(self.credentials.iter().map(|section| section.title.clone())).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// One profile, with its sections of both files.
#[derive(Clone, Debug)]
pub(super) struct AwsProfile<'a> {
    pub(super) name: String,
    config: Vec<&'a Section>,
    credentials: Vec<&'a Section>,
}

impl<'a> AwsProfile<'a> {
    /// A setting; the credentials file takes precedence.
    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        self.in_credentials(key).or_else(|| self.in_config(key))
    }

    /// A setting of the credentials file.
    pub(super) fn in_credentials(&self, key: &str) -> Option<&'a str> {
        last(&self.credentials, key)
    }

    /// A setting of the config file.
    pub(super) fn in_config(&self, key: &str) -> Option<&'a str> {
        last(&self.config, key)
    }
}

/// A section that profiles refer to by name.
#[derive(Debug)]
pub(super) struct NamedSection<'a>(Vec<&'a Section>);

impl<'a> NamedSection<'a> {
    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        last(&self.0, key)
    }
}

fn last<'a>(sections: &[&'a Section], key: &str) -> Option<&'a str> {
    sections.iter().rev().find_map(|section| section.value(key))
}

fn is_profile(section: &Section, name: &str) -> bool {
    (name == "default" && section.title == "default") || is_named(section, "profile", name)
}

fn is_named(section: &Section, kind: &str, name: &str) -> bool {
    section.title.starts_with(kind)
        && ini::split_shell_words(&section.title)
            .is_some_and(|words| matches!(&*words, [first, second] if first == kind && second == name))
}

/// The path in `variable`, else `~/.aws/FILE`. `None`: the variable is unset and the home directory unknown; the current
/// directory is never used as a fallback.
fn path(env: &dyn Env, variable: &str, file: &str) -> Result<Option<PathBuf>, AwsError> {
    match env.var(variable).filter(|path| !path.is_empty()) {
        Some(path) => expand_path(variable, Path::new(&path), env).map(Some),
        None => Ok(env.home_dir().map(|home| home.join(".aws").join(file))),
    }
}

/// Expands a leading `~/` in the path of a setting.
pub(super) fn expand_path(setting: &str, path: &Path, env: &dyn Env) -> Result<PathBuf, AwsError> {
    expand_home(path, env).ok_or_else(|| AwsError::InvalidConfig {
        setting: setting.to_owned(),
        reason: "is invalid: it begins with `~`, and that home directory is unknown".to_owned(),
    })
}

fn sections(path: Option<&Path>) -> Result<Vec<Section>, AwsError> {
    match path.map(read_file) {
        Some(Ok(text)) => Ok(ini::parse(&text)),
        None | Some(Err(AwsError::ReadFile { reason: ReadError::NotFound, .. })) => Ok(Vec::new()),
        Some(Err(error)) => Err(error),
    }
}

/// Reads a regular file as text. Invalid UTF-8 is replaced, because a name in another profile may have any encoding.
pub(super) fn read_file(path: &Path) -> Result<Zeroizing<String>, AwsError> {
    let bytes =
        read_bounded(path, FILE_LIMIT).map_err(|reason| AwsError::ReadFile { path: path.to_owned(), reason })?;
    Ok(Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Reads an identity token. `what` describes the token in errors.
pub(super) fn read_identity_token(path: &Path, what: &str) -> Result<IdentityToken, AwsError> {
    let invalid = |reason: &str| AwsError::InvalidConfig {
        setting: format!("{what} in {}", path.display()),
        reason: reason.into(),
    };
    IdentityToken::parse(&read_file(path)?).map_err(invalid)
}
