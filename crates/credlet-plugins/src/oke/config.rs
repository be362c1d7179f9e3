//! What `oci` reads: its variables, its flags and `~/.oci/config`.

use std::path::{Path, PathBuf};

use credlet_api::Secret;
use credlet_core::Env;
use zeroize::Zeroizing;

use super::args::Args;
use crate::harness::var;
use crate::ini::{self, Section};
use crate::oauth::{self, Error};

/// Whose signature it will be.
#[derive(Debug)]
pub(super) struct Signer {
    /// `tenancy/user/fingerprint`, or a session's token.
    pub(super) key_id: Secret,
    /// In PEM form.
    pub(super) key: Zeroizing<String>,
    /// The session's, if it is one.
    pub(super) session: Option<Secret>,
    pub(super) region: String,
}

impl Signer {
    pub(super) fn load(args: &Args, env: &dyn Env) -> Result<Self, Error> {
        let settings = Settings::read(args, env)?;
        let auth = args.auth.clone().or_else(|| var(env, "OCI_CLI_AUTH")).unwrap_or_else(|| "api_key".to_owned());
        let region = args.region.clone().filter(|region| !region.is_empty());
        let region = region.or_else(|| settings.value("region"));
        let region = region.ok_or_else(|| missing("the region (`--region`)"))?.to_ascii_lowercase();
        // It becomes a part of a host's name, so it must not be able to name another host.
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(Error::config("the region", "is not the name of a region"));
        }
        let key = settings.key()?;
        match auth.as_str() {
            "api_key" => {
                let need = |name| settings.value(name).ok_or_else(|| settings.lacks(name));
                let key_id = format!("{}/{}/{}", need("tenancy")?, need("user")?, need("fingerprint")?);
                Ok(Self { key_id: Secret::new(key_id), key, session: None, region })
            }
            "security_token" => {
                let path =
                    settings.value("security_token_file").ok_or_else(|| settings.lacks("security_token_file"))?;
                let token = oauth::token_file(&settings.expanded(&path), "the session's token")?;
                let key_id = Secret::new(format!("ST${}", token.expose()));
                Ok(Self { key_id, key, session: Some(token), region })
            }
            other => {
                let other = credlet_api::visible(other);
                Err(Error::config("--auth", format!("is `{other}`, which is not known here")).advise(
                    "api_key and security_token are; for others leave the command `oci` and use `credlet cache wrap`",
                ))
            }
        }
    }
}

/// The variables, then a profile of the file, then its profile DEFAULT.
struct Settings<'a> {
    env: &'a dyn Env,
    path: PathBuf,
    profile: String,
    sections: Vec<Section>,
}

impl<'a> Settings<'a> {
    fn read(args: &Args, env: &'a dyn Env) -> Result<Self, Error> {
        let named = args.config_file.clone().or_else(|| var(env, "OCI_CLI_CONFIG_FILE").map(PathBuf::from));
        let profile = args.profile.clone().or_else(|| var(env, "OCI_CLI_PROFILE"));
        let path = expanded(named.as_deref().unwrap_or(Path::new("~/.oci/config")), env);
        let sections = match oauth::file(&path, "the configuration of OCI") {
            Ok(text) => ini::read(&text),
            // Variables can say all that it would.
            Err(Error::File { reason: std::io::ErrorKind::NotFound, .. }) if named.is_none() => Vec::new(),
            Err(error) => return Err(error),
        };
        let settings = Self { env, path, profile: profile.clone().unwrap_or_else(|| "DEFAULT".to_owned()), sections };
        if let Some(name) = profile
            && !settings.sections.iter().any(|section| section.title == name)
        {
            let (name, path) = (credlet_api::visible(&name), settings.path.display());
            return Err(Error::config(format!("the profile `{name}`"), format!("is not in {path}")));
        }
        Ok(settings)
    }

    fn value(&self, name: &str) -> Option<String> {
        let of = |title: &str| {
            let mut sections = self.sections.iter().rev().filter(|section| section.title == title);
            sections.find_map(|section| section.value(name)).map(str::to_owned)
        };
        var(self.env, &format!("OCI_CLI_{}", name.to_ascii_uppercase()))
            .or_else(|| of(&self.profile))
            .or_else(|| of("DEFAULT"))
    }

    fn key(&self) -> Result<Zeroizing<String>, Error> {
        if let Some(content) = self.value("key_content") {
            return Ok(Zeroizing::new(content));
        }
        let path = self.value("key_file").ok_or_else(|| self.lacks("key_file"))?;
        oauth::file(&self.expanded(&path), "the signing key")
    }

    fn lacks(&self, name: &str) -> Error {
        let profile = credlet_api::visible(&self.profile);
        let what = format!("`{name}` of the profile `{profile}` in {}", self.path.display());
        match name {
            "user" if self.value("security_token_file").is_some() => {
                Error::Missing { what, hint: "this profile is a session's: add `--auth security_token`" }
            }
            _ => missing(what),
        }
    }

    fn expanded(&self, path: &str) -> PathBuf {
        expanded(Path::new(path), self.env)
    }
}

fn missing(what: impl Into<String>) -> Error {
    Error::Missing {
        what: what.into(),
        hint: "make a configuration with `oci setup config` or `oci session authenticate`",
    }
}

fn expanded(path: &Path, env: &dyn Env) -> PathBuf {
    match (path.strip_prefix("~"), env.home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}
