//! Configuration of oci-cli: flags, environment variables and `~/.oci/config`.

use std::path::{Path, PathBuf};

use credlet_api::Secret;
use credlet_exec::Env;
use credlet_platform::fs::ReadError;
use zeroize::Zeroizing;

use super::args::OkeArgs;
use crate::ini::{self, Section};
use crate::oauth::{self, IdentityToken, TokenError};
use crate::plugin_runner::{env_var, expand_home};

/// The key that signs, and its owner.
#[derive(Debug)]
pub(super) struct OciSigner {
    /// `tenancy/user/fingerprint`, or `ST$` and a session token.
    pub(super) key_id: Secret,
    /// Private key in PEM format.
    pub(super) key: Zeroizing<String>,
    /// Session token, for `--auth security_token`.
    pub(super) session: Option<Secret>,
    pub(super) region: String,
}

impl OciSigner {
    pub(super) fn load(args: &OkeArgs, env: &dyn Env) -> Result<Self, TokenError> {
        let settings = OciSettings::read(args, env)?;
        let auth = args.auth.clone().or_else(|| env_var(env, "OCI_CLI_AUTH")).unwrap_or_else(|| "api_key".to_owned());
        let region = args.region.clone().filter(|region| !region.is_empty());
        let region = region.or_else(|| settings.value("region"));
        let region = region.ok_or_else(|| missing("region (`--region`)"))?.to_ascii_lowercase();
        // The region becomes part of a host name, so it must not be able to name another host.
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(TokenError::invalid_setting("region", "not a region name"));
        }
        let key = settings.key()?;
        match auth.as_str() {
            "api_key" => {
                let need = |name| settings.value(name).ok_or_else(|| settings.missing_setting(name));
                let key_id = format!("{}/{}/{}", need("tenancy")?, need("user")?, need("fingerprint")?);
                Ok(Self { key_id: Secret::new(key_id), key, session: None, region })
            }
            "security_token" => {
                let path = settings
                    .value("security_token_file")
                    .ok_or_else(|| settings.missing_setting("security_token_file"))?;
                // The token becomes part of the credential, which is sent to the server in the kubeconfig.
                let token = IdentityToken::from_file(&settings.expanded(&path)?, "session token")?;
                let key_id = Secret::new(format!("ST${}", token.expose()));
                Ok(Self { key_id, key, session: Some(token.secret().clone()), region })
            }
            other => {
                let other = credlet_api::escape_control_chars(other);
                Err(TokenError::invalid_setting("--auth", format!("unsupported kind `{other}`")).with_hint(
                    "use api_key or security_token; for other kinds keep the command `oci` and use `credlet cache wrap`",
                ))
            }
        }
    }
}

/// Settings from environment variables, the selected profile and the profile `DEFAULT`, in this order of precedence.
struct OciSettings<'a> {
    env: &'a dyn Env,
    path: PathBuf,
    profile: String,
    sections: Vec<Section>,
}

impl<'a> OciSettings<'a> {
    fn read(args: &OkeArgs, env: &'a dyn Env) -> Result<Self, TokenError> {
        let named = args.config_file.clone().or_else(|| env_var(env, "OCI_CLI_CONFIG_FILE").map(PathBuf::from));
        let profile = args.profile.clone().or_else(|| env_var(env, "OCI_CLI_PROFILE"));
        let path = named.clone().unwrap_or_else(|| PathBuf::from("~/.oci/config"));
        let expanded = expanded(&path, env);
        let read = expanded.and_then(|path| oauth::read_text_file(&path, "OCI configuration", oauth::FILE_LIMIT));
        let sections = match read {
            Ok(text) => ini::parse(&text),
            // Environment variables may provide all settings.
            Err(TokenError::ReadFile { reason: ReadError::NotFound, .. } | TokenError::InvalidSetting { .. })
                if named.is_none() =>
            {
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let path = expand_home(&path, env).unwrap_or(path);
        let settings = Self { env, path, profile: profile.clone().unwrap_or_else(|| "DEFAULT".to_owned()), sections };
        if let Some(name) = profile
            && !settings.sections.iter().any(|section| section.title == name)
        {
            let (name, path) = (credlet_api::escape_control_chars(&name), settings.path.display());
            return Err(TokenError::invalid_setting(format!("profile `{name}`"), format!("not found in {path}")));
        }
        Ok(settings)
    }

    fn value(&self, name: &str) -> Option<String> {
        let of = |title: &str| {
            let mut sections = self.sections.iter().rev().filter(|section| section.title == title);
            sections.find_map(|section| section.value(name)).map(str::to_owned)
        };
        env_var(self.env, &format!("OCI_CLI_{}", name.to_ascii_uppercase()))
            .or_else(|| of(&self.profile))
            .or_else(|| of("DEFAULT"))
    }

    fn key(&self) -> Result<Zeroizing<String>, TokenError> {
        if let Some(content) = self.value("key_content") {
            return Ok(Zeroizing::new(content));
        }
        let path = self.value("key_file").ok_or_else(|| self.missing_setting("key_file"))?;
        oauth::read_text_file(&self.expanded(&path)?, "signing key", oauth::FILE_LIMIT)
    }

    fn missing_setting(&self, name: &str) -> TokenError {
        let profile = credlet_api::escape_control_chars(&self.profile);
        let what = format!("`{name}` in profile `{profile}` of {}", self.path.display());
        match name {
            "user" if self.value("security_token_file").is_some() => TokenError::MissingSetting {
                what,
                hint: "this profile belongs to a session: add `--auth security_token`",
            },
            _ => missing(what),
        }
    }

    fn expanded(&self, path: &str) -> Result<PathBuf, TokenError> {
        expanded(Path::new(path), self.env)
    }
}

fn missing(what: impl Into<String>) -> TokenError {
    TokenError::MissingSetting {
        what: what.into(),
        hint: "create a configuration with `oci setup config` or `oci session authenticate`",
    }
}

fn expanded(path: &Path, env: &dyn Env) -> Result<PathBuf, TokenError> {
    let unknown = || {
        let path = credlet_api::escape_control_chars(&path.to_string_lossy());
        TokenError::invalid_setting(format!("path `{path}`"), "begins with `~`, and that home directory is unknown")
    };
    expand_home(path, env).ok_or_else(unknown)
}
