//! Credentials that the place where we run gives to everybody in it: a container's, an EC2 machine's.

use std::time::Duration;

use credlet_api::Secret;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::source::Container;
use super::{AwsError, Chain, Credentials, profiles, time};
use crate::harness::var;
use crate::web::{Answer, Ask, Limits, Plain, WebError};

const TOKEN: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");
const TOKEN_TTL: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");

/// All of the machine's metadata service, which does not exist anywhere but on EC2: nobody should wait for nothing.
const INSTANCE: Duration = Duration::from_secs(1);

/// The container's endpoint was asked for by name.
const CONTAINER: Duration = Duration::from_secs(5);

impl Chain {
    pub(super) async fn container(&self, container: &Container) -> Result<Credentials, AwsError> {
        let what = "the container's credentials";
        let failed = |source| AwsError::Web { what: what.into(), source };
        let mut ask = Ask::get(&*container.url).limits(Limits::within(CONTAINER));
        let token = match &container.token_file {
            Some(path) => Some(Secret::new(profiles::file(path)?.trim_end())),
            None => container.token.clone(),
        };
        if let Some(token) = token {
            ask = ask.secret_header(header::AUTHORIZATION, &token).map_err(failed)?;
        }
        let answer = self.web.fetch(ask).await.map_err(failed)?;
        if answer.status != StatusCode::OK {
            return Err(refused(&answer, what));
        }
        lent(&answer).map_err(failed).and_then(|credentials| self.current(what, credentials))
    }

    pub(super) async fn instance(&self, tried: &[String]) -> Result<Credentials, AwsError> {
        let none = |reason: String| AwsError::NoCredentials { tried: [tried, &[reason]].concat() };
        let env = &*self.world.env;
        if var(env, "AWS_EC2_METADATA_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Err(none("AWS_EC2_METADATA_DISABLED is set".into()));
        }
        let chosen = var(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let mode = var(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").unwrap_or_default();
        let usual = if mode.eq_ignore_ascii_case("ipv6") { "http://[fd00:ec2::254]" } else { "http://169.254.169.254" };
        let plain = if chosen.is_some() { Plain::Anywhere } else { Plain::Local };
        let base = chosen.unwrap_or_else(|| usual.to_owned());
        let service = Service { chain: self, base: base.trim_end_matches('/'), plain };
        let answered = tokio::select! {
            biased;
            answered = service.credentials() => answered,
            () = self.world.clock.sleep(INSTANCE) => return Err(none("this is no EC2 machine".into())),
        };
        match answered {
            Ok(credentials) => self.current("this EC2 machine", credentials),
            Err(AwsError::Web { source: WebError::Connection { .. } | WebError::TimedOut { .. }, .. }) => {
                Err(none("this is no EC2 machine".into()))
            }
            Err(AwsError::Refused { code, .. }) if code == "404" => Err(none("this EC2 machine has no role".into())),
            Err(error) => Err(error),
        }
    }
}

/// IMDSv2: each question needs a token, so that a request which somebody else was tricked into making is no use.
struct Service<'a> {
    chain: &'a Chain,
    base: &'a str,
    plain: Plain,
}

impl Service<'_> {
    async fn credentials(&self) -> Result<Credentials, AwsError> {
        const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
        let ask = Ask::put(format!("{}/latest/api/token", self.base)).header(TOKEN_TTL, HeaderValue::from_static("60"));
        let answer = self.fetch(ask).await?;
        let token = Secret::new(answer.text().map_err(failed)?.trim());
        let roles = self.get(ROLES, &token).await?;
        let role = roles.text().map_err(failed)?.lines().next().unwrap_or_default().trim().to_owned();
        if role.is_empty() {
            return Err(refused_with(&roles, WHAT, "404"));
        }
        let answer = self.get(&format!("{ROLES}{}", *crate::web::escaped(&role)), &token).await?;
        lent(&answer).map_err(failed)
    }

    async fn get(&self, path: &str, token: &Secret) -> Result<Answer, AwsError> {
        let ask = Ask::get(format!("{}{path}", self.base)).secret_header(TOKEN, token).map_err(failed)?;
        self.fetch(ask).await
    }

    async fn fetch(&self, ask: Ask) -> Result<Answer, AwsError> {
        let ask = ask.plain(self.plain).limits(Limits::within(INSTANCE));
        let answer = self.chain.web.fetch(ask).await.map_err(failed)?;
        if answer.status == StatusCode::OK { Ok(answer) } else { Err(refused(&answer, WHAT)) }
    }
}

const WHAT: &str = "the EC2 machine's credentials";

fn failed(source: WebError) -> AwsError {
    AwsError::Web { what: WHAT.into(), source }
}

fn refused(answer: &Answer, what: &str) -> AwsError {
    refused_with(answer, what, answer.status.as_str())
}

fn refused_with(answer: &Answer, what: &str, code: &str) -> AwsError {
    AwsError::Refused { host: answer.host.clone(), what: what.to_owned(), code: code.to_owned(), message: None }
}

/// Both services answer alike.
fn lent(answer: &Answer) -> Result<Credentials, WebError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Lent {
        access_key_id: Secret,
        secret_access_key: Secret,
        token: Option<Secret>,
        expiration: Option<String>,
    }
    let lent: Lent = answer.json()?;
    let expires = match lent.expiration {
        Some(text) => {
            Some(time::parse(&text).ok_or_else(|| answer.nonsense("that has an Expiration which is not a time"))?)
        }
        None => None,
    };
    Ok(Credentials::new(lent.access_key_id, lent.secret_access_key, lent.token).expiring(expires))
}
