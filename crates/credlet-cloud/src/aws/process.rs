//! `credential_process`: runs a program and parses the credentials that it prints. The cache uses the same format.

use credlet_api::Secret;
use credlet_exec::{CommandSpec, RunLimits, StdinSource, last_line, resolve_program, sanitize_output};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{AwsCredentials, AwsError, CredentialChain, time};
use crate::ini;

impl CredentialChain {
    pub(super) async fn process(&self, profile: &str, command: &Secret) -> Result<AwsCredentials, AwsError> {
        let invalid = |reason: String| AwsError::InvalidProcessOutput { profile: profile.to_owned(), reason };
        let words =
            ini::split_shell_words(command.expose()).ok_or_else(|| invalid("is invalid: unterminated quote".into()))?;
        let Some((name, args)) = words.split_first() else { return Err(invalid("is invalid: empty command".into())) };
        // A kubeconfig can select file and profile (AWS_CONFIG_FILE, AWS_PROFILE) and thereby this program, so the look-up rules of
        // exec plugins apply.
        let path = resolve_program(name, &*self.platform.env)
            .map_err(|source| AwsError::ProcessNotFound { profile: profile.to_owned(), source })?;
        let with_mfa_prompt = self.mfa_prompt.is_some();
        let program = CommandSpec {
            path,
            args: args.to_vec(),
            env: self.platform.env.vars(),
            stdin: if with_mfa_prompt { StdinSource::Terminal } else { StdinSource::Null },
            limits: if with_mfa_prompt { RunLimits::INTERACTIVE } else { RunLimits::NON_INTERACTIVE },
        };
        let finished = self.platform.runner.run(program).await;
        let finished = finished.map_err(|source| AwsError::ProcessFailed { profile: profile.to_owned(), source })?;
        if !finished.exit.is_success() {
            let last = last_line(&sanitize_output(&finished.stderr, &finished.stdout, []));
            let last = if last.is_empty() { "no output on stderr" } else { &last };
            return Err(invalid(format!("{}: {last}", finished.exit)));
        }
        let credentials = ProcessOutput::decode(&finished.stdout).map_err(|reason| invalid(reason.to_owned()))?;
        self.ensure_valid(&format!("the profile `{profile}`"), credentials)
    }
}

/// Output of a `credential_process`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ProcessOutput {
    version: u32,
    access_key_id: Secret,
    secret_access_key: Secret,
    #[serde(default)]
    session_token: Option<Secret>,
    #[serde(default)]
    expiration: Option<String>,
}

impl ProcessOutput {
    /// Parses the output. The error continues the sentence "credential_process …".
    pub(super) fn decode(bytes: &[u8]) -> Result<AwsCredentials, &'static str> {
        // The parser's message would quote the rejected value.
        let output: Self = serde_json::from_slice(bytes)
            .map_err(|_| "printed invalid output: must be JSON with Version, AccessKeyId and SecretAccessKey")?;
        if output.version != 1 {
            return Err("printed invalid output: unsupported Version, must be 1");
        }
        if output.access_key_id.is_empty() || output.secret_access_key.is_empty() {
            return Err("printed invalid output: empty key");
        }
        let expires = match output.expiration.as_deref() {
            None | Some("") => None,
            Some(text) => Some(time::parse(text).ok_or("printed invalid output: Expiration is not a time")?),
        };
        Ok(AwsCredentials::new(output.access_key_id, output.secret_access_key, output.session_token).expiring(expires))
    }

    pub(super) fn encode(credentials: &AwsCredentials) -> Zeroizing<Vec<u8>> {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct ProcessOutputJson<'a> {
            version: u32,
            access_key_id: &'a str,
            secret_access_key: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            session_token: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            expiration: Option<String>,
        }
        let written = ProcessOutputJson {
            version: 1,
            access_key_id: credentials.access_key_id.expose(),
            secret_access_key: credentials.secret_access_key.expose(),
            session_token: credentials.session_token.as_ref().map(Secret::expose),
            expiration: credentials.expires.map(|at| at.to_string()),
        };
        // Serializing strings and a number cannot fail.
        Zeroizing::new(serde_json::to_vec(&written).unwrap_or_default())
    }
}
