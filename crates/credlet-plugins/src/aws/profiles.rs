//! The profiles in the two files that awscli and the SDKs share.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use credlet_core::Env;
use zeroize::Zeroizing;

use super::AwsError;
use crate::ini::{self, Section};

/// Both files, read.
#[derive(Debug)]
pub(super) struct Profiles {
    pub(super) config_path: PathBuf,
    pub(super) credentials_path: PathBuf,
    config: Vec<Section>,
    credentials: Vec<Section>,
}

impl Profiles {
    /// A file that does not exist is empty.
    pub(super) fn read(env: &dyn Env) -> Result<Self, AwsError> {
        let config_path = path(env, "AWS_CONFIG_FILE", "config");
        let credentials_path = path(env, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let config = sections(&config_path)?;
        let credentials = sections(&credentials_path)?;
        Ok(Self { config_path, credentials_path, config, credentials })
    }

    /// `None`: neither file has it.
    pub(super) fn profile(&self, name: &str) -> Option<Profile<'_>> {
        let config: Vec<_> = self.config.iter().filter(|section| is_profile(section, name)).collect();
        let credentials: Vec<_> = self.credentials.iter().filter(|section| section.title == name).collect();
        let exists = !config.is_empty() || !credentials.is_empty();
        exists.then(|| Profile { name: name.to_owned(), config, credentials })
    }

    /// `[sso-session NAME]` or `[services NAME]` of the config file.
    pub(super) fn named(&self, kind: &str, name: &str) -> Option<Named<'_>> {
        let sections: Vec<_> = self.config.iter().filter(|section| is_named(section, kind, name)).collect();
        (!sections.is_empty()).then_some(Named(sections))
    }

    /// The names of all profiles, for a person who has mistyped one.
    pub(super) fn names(&self) -> Vec<String> {
        let config = self.config.iter().filter_map(|section| match ini::words(&section.title)?.as_slice() {
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

/// One profile, as both files have it.
#[derive(Clone, Debug)]
pub(super) struct Profile<'a> {
    pub(super) name: String,
    config: Vec<&'a Section>,
    credentials: Vec<&'a Section>,
}

impl<'a> Profile<'a> {
    /// A setting; the credentials file goes first.
    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        self.in_credentials(key).or_else(|| self.in_config(key))
    }

    /// A setting in the credentials file.
    pub(super) fn in_credentials(&self, key: &str) -> Option<&'a str> {
        last(&self.credentials, key)
    }

    /// A setting in the config file.
    pub(super) fn in_config(&self, key: &str) -> Option<&'a str> {
        last(&self.config, key)
    }
}

/// A section that profiles refer to.
#[derive(Debug)]
pub(super) struct Named<'a>(Vec<&'a Section>);

impl<'a> Named<'a> {
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
        && ini::words(&section.title)
            .is_some_and(|words| matches!(&*words, [first, second] if first == kind && second == name))
}

fn path(env: &dyn Env, variable: &str, file: &str) -> PathBuf {
    match env.var(variable).filter(|path| !path.is_empty()) {
        Some(path) => expanded(Path::new(&path), env),
        None => env.home_dir().unwrap_or_default().join(".aws").join(file),
    }
}

/// `~/` is the person's own directory, since no shell has seen a path that stands in a kubeconfig or in a file.
pub(super) fn expanded(path: &Path, env: &dyn Env) -> PathBuf {
    match (path.as_os_str().as_bytes().strip_prefix(b"~/"), env.home_dir()) {
        (Some(rest), Some(home)) => home.join(OsStr::from_bytes(rest)),
        _ => path.to_owned(),
    }
}

fn sections(path: &Path) -> Result<Vec<Section>, AwsError> {
    match file(path) {
        Ok(text) => Ok(ini::read(&text)),
        Err(AwsError::File { reason: io::ErrorKind::NotFound, .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The text of a small file. What is no text in it is replaced, since a name in another profile may be in any encoding.
pub(super) fn file(path: &Path) -> Result<Zeroizing<String>, AwsError> {
    let bytes = std::fs::read(path).map(Zeroizing::new);
    let bytes = bytes.map_err(|error| AwsError::File { path: path.to_owned(), reason: error.kind() })?;
    Ok(Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned()))
}
