//! `credential_process`: a program that prints credentials. What it prints is also how we keep our own.

use credlet_api::Secret;
use credlet_core::{Limits, Program, Stdin, harmless, last_line, look_up};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{AwsError, Chain, Credentials, time};
use crate::ini;

impl Chain {
    pub(super) async fn process(&self, profile: &str, command: &Secret) -> Result<Credentials, AwsError> {
        let answer = |reason: String| AwsError::ProcessAnswer { profile: profile.to_owned(), reason };
        let words = ini::words(command.expose()).ok_or_else(|| answer("has a quote that is left open".into()))?;
        let Some((name, args)) = words.split_first() else { return Err(answer("is empty".into())) };
        let path = look_up(name, &*self.world.env)
            .map_err(|source| AwsError::NoProcess { profile: profile.to_owned(), source })?;
        let with_person = self.person.is_some();
        let program = Program {
            path,
            args: args.to_vec(),
            env: self.world.env.vars(),
            stdin: if with_person { Stdin::Terminal } else { Stdin::Null },
            limits: if with_person { Limits::WITH_PERSON } else { Limits::ALONE },
        };
        let finished = self.world.runner.run(program).await;
        let finished = finished.map_err(|source| AwsError::Process { profile: profile.to_owned(), source })?;
        if !finished.ended.is_success() {
            let last = last_line(&harmless(&finished.stderr, &finished.stdout, []));
            let last = if last.is_empty() { "it says nothing" } else { &last };
            return Err(answer(format!("{}: {last}", finished.ended)));
        }
        let credentials = Answer::decode(&finished.stdout).map_err(|reason| answer(reason.to_owned()))?;
        self.current(&format!("the profile `{profile}`"), credentials)
    }
}

/// What such a program prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Answer {
    version: u32,
    access_key_id: Secret,
    secret_access_key: Secret,
    #[serde(default)]
    session_token: Option<Secret>,
    #[serde(default)]
    expiration: Option<String>,
}

impl Answer {
    /// The error is what is wrong with it, after "the program".
    pub(super) fn decode(bytes: &[u8]) -> Result<Credentials, &'static str> {
        // The parser's own words quote what it rejects.
        let answer: Self = serde_json::from_slice(bytes)
            .map_err(|_| "printed something other than Version, AccessKeyId and SecretAccessKey in JSON")?;
        if answer.version != 1 {
            return Err("printed an answer of a Version other than 1");
        }
        if answer.access_key_id.is_empty() || answer.secret_access_key.is_empty() {
            return Err("printed an empty key");
        }
        let expires = match answer.expiration.as_deref() {
            None | Some("") => None,
            Some(text) => Some(time::parse(text).ok_or("printed an Expiration that is not a time")?),
        };
        Ok(Credentials::new(answer.access_key_id, answer.secret_access_key, answer.session_token).expiring(expires))
    }

    pub(super) fn encode(credentials: &Credentials) -> Zeroizing<Vec<u8>> {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Written<'a> {
            version: u32,
            access_key_id: &'a str,
            secret_access_key: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            session_token: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            expiration: Option<String>,
        }
        let written = Written {
            version: 1,
            access_key_id: credentials.access_key_id.expose(),
            secret_access_key: credentials.secret_access_key.expose(),
            session_token: credentials.session_token.as_ref().map(Secret::expose),
            expiration: credentials.expires.map(|at| at.to_string()),
        };
        // Strings and a number cannot fail to be written; if they did, nothing would be kept.
        Zeroizing::new(serde_json::to_vec(&written).unwrap_or_default())
    }
}
