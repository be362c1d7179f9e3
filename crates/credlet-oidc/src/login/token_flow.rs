//! Obtains a token: from the cache, by refresh, or by a login.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use credlet_api::oidc::{self, IdTokenClaims, TokenResponse};
use credlet_exec::Platform;
use credlet_exec::store::read_or_fetch;
use jiff::Timestamp;

use super::issuer::IssuerClient;
use super::login_cache::{LoginCache, LoginLock};
use super::login_record::{FailedLogin, LoginRecord};
use super::result_page::LoginDetails;
use super::settings::OidcSettings;
use super::{GrantType, IssuerRequestError, LoginRequest, OidcError, UserOutput, authorization_code, device_code};

/// Time for the requests to the issuer, in addition to the time that a user may take.
const NETWORK_MARGIN: Duration = Duration::from_secs(90);

/// One request for a token with its dependencies.
pub(super) struct TokenFlow<'a> {
    pub(super) settings: &'a OidcSettings,
    pub(super) request: &'a LoginRequest,
    pub(super) platform: &'a Platform,
    pub(super) output: &'a Arc<dyn UserOutput>,
    pub(super) cache: LoginCache,
}

/// A stored login without a token that may be used.
struct MissedLogin {
    stored: Option<LoginRecord>,
    /// Whether the login of another process failed while this one waited for the lock.
    failed_meanwhile: bool,
}

impl TokenFlow<'_> {
    pub(super) async fn token(&self) -> Result<ExecCredentialStatus, OidcError> {
        let limit = self.settings.timeout + NETWORK_MARGIN;
        let lock = self.cache.lock(limit, &*self.platform.clock, &**self.output);
        read_or_fetch(|earlier| self.look(earlier), lock, |missed| self.fetch(missed)).await
    }

    /// Returns the stored token if it is fresh. With `force_refresh`, only one that another process has stored while this one
    /// waited for the lock.
    fn look(&self, earlier: Option<(MissedLogin, &LoginLock)>) -> ControlFlow<ExecCredentialStatus, MissedLogin> {
        let stored = self.cache.read();
        let changed_from = earlier.filter(|(before, lock)| lock.waited && stored != before.stored);
        let fresh = stored.as_ref().filter(|record| record.is_fresh(self.now()));
        if let Some(record) = fresh.filter(|_| changed_from.is_some() || !self.settings.force_refresh) {
            return ControlFlow::Break(to_status(record));
        }
        let attempt = |record: &Option<LoginRecord>| record.as_ref().and_then(|record| record.attempt.clone());
        let failed_meanwhile = changed_from.is_some_and(|(before, _)| attempt(&stored) != attempt(&before.stored));
        ControlFlow::Continue(MissedLogin { stored, failed_meanwhile })
    }

    async fn fetch(&self, missed: MissedLogin) -> Result<ExecCredentialStatus, OidcError> {
        let mut record = missed.stored.unwrap_or_default();
        match self.renew(&mut record, missed.failed_meanwhile).await {
            Ok(()) => Ok(to_status(&record)),
            // The old token is still valid for a short time.
            Err(OidcError::Request(IssuerRequestError::NoResponse { .. } | IssuerRequestError::ErrorStatus { .. }))
                if record.is_unexpired(self.now()) =>
            {
                Ok(to_status(&record))
            }
            Err(error) => Err(error),
        }
    }

    /// Puts a new token into the record, by refresh or else by a login.
    async fn renew(&self, record: &mut LoginRecord, failed_meanwhile: bool) -> Result<(), OidcError> {
        let needs_browser = self.settings.is_interactive() && record.refresh_token.is_empty();
        if needs_browser {
            self.check_login_cooldown(record, failed_meanwhile)?;
        }
        let issuer = IssuerClient::discover(self.settings, self.platform).await?;
        if !record.refresh_token.is_empty() {
            match self.refresh(&issuer, record).await {
                Err(OidcError::GrantRejected { .. } | OidcError::MissingToken { .. }) => {
                    self.output.print_line("The login at the issuer has expired; log in again.");
                    record.refresh_token = Secret::default();
                    self.cache.write(record, &**self.output);
                    self.check_login_cooldown(record, failed_meanwhile)?;
                }
                done => return done,
            }
        }
        self.log_in(&issuer, record).await
    }

    /// Checks whether a login may start. After a failed login a cooldown applies, unless the user is at a terminal. Processes that
    /// waited for the failed login share its failure.
    fn check_login_cooldown(&self, record: &LoginRecord, failed_meanwhile: bool) -> Result<(), OidcError> {
        match record.login_cooldown(self.now()) {
            Some((_, why)) if failed_meanwhile => Err(OidcError::SharedFailure { why: why.to_owned() }),
            Some((until, why)) if !self.request.interactive => {
                Err(OidcError::LoginCooldown { why: why.to_owned(), until })
            }
            _ => Ok(()),
        }
    }

    async fn refresh(&self, issuer: &IssuerClient<'_>, record: &mut LoginRecord) -> Result<(), OidcError> {
        let refresh_token = record.refresh_token.clone();
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose())];
        let requested_at = self.now();
        let tokens = issuer.tokens("refresh token", &fields).await?;
        if !tokens.refresh_token.is_empty() && tokens.refresh_token != record.refresh_token {
            // Stored first: the old one is invalid from now on, even if a later step fails.
            record.refresh_token = tokens.refresh_token.clone();
            self.cache.write(record, &**self.output);
        }
        let claims = if tokens.id_token.is_empty() {
            None
        } else {
            let subject = Some(record.subject.as_str()).filter(|subject| !subject.is_empty());
            Some(issuer.verify(&tokens.id_token, None, subject, || self.now()).await?)
        };
        self.update_record(issuer, record, &tokens, claims.as_ref(), requested_at)?;
        self.cache.write(record, &**self.output);
        Ok(())
    }

    /// Logs in with the grant type of the settings, even if a token is stored.
    pub(super) async fn log_in(&self, issuer: &IssuerClient<'_>, record: &mut LoginRecord) -> Result<(), OidcError> {
        (record.issuer, record.client_id) = (self.settings.issuer.clone(), self.settings.client_id.clone());
        let requested_at = self.now();
        if !self.settings.is_interactive() {
            let (tokens, claims) = self.client_credentials(issuer).await?;
            self.update_record(issuer, record, &tokens, claims.as_ref(), requested_at)?;
            self.cache.write(record, &**self.output);
            return Ok(());
        }
        let last = record.attempt.take();
        let attempt = |why: String| FailedLogin::after(last.as_ref(), why, self.now());
        // Stored before the browser opens, so that a process that is killed meanwhile counts as a failed login.
        record.attempt = Some(attempt("it was not completed".to_owned()));
        self.cache.write(record, &**self.output);
        let facts = LoginDetails { cluster: self.request.cluster.clone(), issuer: self.settings.issuer.clone() };
        let outcome = match self.settings.grant {
            GrantType::DeviceCode => device_code::log_in(issuer, self.platform, &**self.output).await,
            _ => authorization_code::log_in(issuer, &facts, self.platform, &**self.output).await,
        };
        let taken = outcome.and_then(|(tokens, claims)| {
            // The refresh token of the previous login must not remain.
            record.refresh_token = tokens.refresh_token.clone();
            self.update_record(issuer, record, &tokens, claims.as_ref(), requested_at)
        });
        record.attempt = match &taken {
            Ok(()) => None,
            // No browser was opened: a port in use must not delay the next login.
            Err(OidcError::Listen { .. }) => last,
            Err(error) => Some(attempt(error.to_chained_string())),
        };
        self.cache.write(record, &**self.output);
        taken
    }

    async fn client_credentials(
        &self,
        issuer: &IssuerClient<'_>,
    ) -> Result<(TokenResponse, Option<IdTokenClaims>), OidcError> {
        let scope = self.settings.scopes.join(" ");
        let mut fields = vec![("grant_type", "client_credentials")];
        if !scope.is_empty() {
            fields.push(("scope", &scope));
        }
        let tokens = issuer.tokens("client credentials", &fields).await?;
        if tokens.id_token.is_empty() {
            return Ok((tokens, None));
        }
        let claims = issuer.verify(&tokens.id_token, None, None, || self.now()).await?;
        Ok((tokens, Some(claims)))
    }

    /// Puts the token for the API server into the record: the ID token, or the access token if the settings say so.
    fn update_record(
        &self,
        issuer: &IssuerClient<'_>,
        record: &mut LoginRecord,
        tokens: &TokenResponse,
        claims: Option<&IdTokenClaims>,
        requested_at: Timestamp,
    ) -> Result<(), OidcError> {
        let access = self.settings.use_access_token || (!self.settings.is_interactive() && claims.is_none());
        let (token, what) =
            if access { (&tokens.access_token, "access_token") } else { (&tokens.id_token, "id_token") };
        if token.is_empty() {
            return Err(OidcError::MissingToken { host: issuer.host(), what });
        }
        // The earlier of the token's `exp` and the response's `expires_in`, which counts from before the request.
        let by_token = oidc::jwt_expiry(token).map(Timestamp::as_second);
        let by_issuer =
            tokens.expires_in.filter(|_| access).map(|lifetime| requested_at.as_second().saturating_add(lifetime));
        record.expires = by_token.into_iter().chain(by_issuer).min();
        record.issued = requested_at.as_second();
        record.token = token.clone();
        match claims {
            Some(claims) => {
                claims.account().clone_into(&mut record.account);
                record.subject.clone_from(&claims.sub);
            }
            None if record.account.is_empty() => record.account.clone_from(&self.settings.client_id),
            None => {}
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.platform.clock.now()
    }
}

fn to_status(record: &LoginRecord) -> ExecCredentialStatus {
    let status = ExecCredentialStatus::token(record.token.clone());
    match record.expiry() {
        Some(at) => status.with_expiration(at),
        None => status,
    }
}
