//! One run: a token that is kept, a renewed one, or a person who logs in.

use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use credlet_api::oidc::{self, Claims, Tokens};
use credlet_core::World;
use jiff::Timestamp;

use super::issuer::Issuer;
use super::keep::Keep;
use super::page::Facts;
use super::record::{Attempt, Record};
use super::settings::Settings;
use super::{Asked, Error, GrantType, Talk, authcode, device};

/// What the issuer's own slowness may add to a person's.
const NETWORK: Duration = Duration::from_secs(90);

/// A run with all that it needs.
pub(super) struct Run<'a> {
    pub(super) settings: &'a Settings,
    pub(super) asked: &'a Asked,
    pub(super) world: &'a World,
    pub(super) talk: &'a Arc<dyn Talk>,
    pub(super) keep: Keep,
}

impl Run<'_> {
    pub(super) async fn token(&self) -> Result<ExecCredentialStatus, Error> {
        let before = self.keep.read();
        let fresh = |record: &Option<Record>| record.as_ref().filter(|record| record.is_fresh(self.now())).map(answer);
        if let Some(answer) = fresh(&before).filter(|_| !self.settings.force_refresh) {
            return Ok(answer);
        }
        let turn = self.keep.turn(self.settings.timeout + NETWORK, Arc::clone(self.talk)).await?;
        let kept = self.keep.read();
        let changed = turn.waited && kept != before;
        if let Some(answer) = fresh(&kept).filter(|_| changed || !self.settings.force_refresh) {
            return Ok(answer);
        }
        let attempt = |record: &Option<Record>| record.as_ref().and_then(|record| record.attempt.clone());
        let failed_meanwhile = changed && attempt(&kept) != attempt(&before);
        let mut record = kept.unwrap_or_default();
        let renewed = self.renew(&mut record, failed_meanwhile).await;
        match renewed {
            Ok(()) => Ok(answer(&record)),
            // What is good for a moment longer is better than nothing.
            Err(Error::Web { .. } | Error::Status { .. }) if record.is_alive(self.now()) => Ok(answer(&record)),
            Err(error) => Err(error),
        }
    }

    /// A new token in the record, by the means there are.
    async fn renew(&self, record: &mut Record, failed_meanwhile: bool) -> Result<(), Error> {
        let needs_window = self.settings.needs_person() && record.refresh_token.is_empty();
        if needs_window {
            self.may_open_window(record, failed_meanwhile)?;
        }
        let issuer = Issuer::discover(self.settings, self.world).await?;
        if !record.refresh_token.is_empty() {
            match self.refresh(&issuer, record).await {
                Err(Error::Grant { .. } | Error::NoToken { .. }) => {
                    self.talk.say("The login at the issuer has ended; a new one is needed.");
                    record.refresh_token = Secret::default();
                    self.keep.write(record, &**self.talk);
                    self.may_open_window(record, failed_meanwhile)?;
                }
                done => return done,
            }
        }
        self.log_in(&issuer, record).await
    }

    /// One window for all who wait, and after a failure none for a while, unless a person is there to ask for it.
    fn may_open_window(&self, record: &Record, failed_meanwhile: bool) -> Result<(), Error> {
        let closed = record.closed_until(self.now());
        match closed {
            Some((_, why)) if failed_meanwhile => Err(Error::Shared { why: why.to_owned() }),
            Some((until, why)) if !self.asked.person => Err(Error::Patience { why: why.to_owned(), until }),
            _ => Ok(()),
        }
    }

    async fn refresh(&self, issuer: &Issuer<'_>, record: &mut Record) -> Result<(), Error> {
        let refresh_token = record.refresh_token.clone();
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose())];
        let asked_at = self.now();
        let tokens = issuer.tokens("refresh token", &fields).await?;
        if !tokens.refresh_token.is_empty() && tokens.refresh_token != record.refresh_token {
            // The old one is worthless from now on, whatever becomes of the rest.
            record.refresh_token = tokens.refresh_token.clone();
            self.keep.write(record, &**self.talk);
        }
        let claims = if tokens.id_token.is_empty() {
            None
        } else {
            let subject = Some(record.subject.as_str()).filter(|subject| !subject.is_empty());
            Some(issuer.verify(&tokens.id_token, None, subject, || self.now()).await?)
        };
        self.take(issuer, record, &tokens, claims.as_ref(), asked_at)?;
        self.keep.write(record, &**self.talk);
        Ok(())
    }

    /// Logs in by the grant of the settings, whatever is kept.
    pub(super) async fn log_in(&self, issuer: &Issuer<'_>, record: &mut Record) -> Result<(), Error> {
        (record.issuer, record.client_id) = (self.settings.issuer.clone(), self.settings.client_id.clone());
        let asked_at = self.now();
        if !self.settings.needs_person() {
            let (tokens, claims) = self.by_itself(issuer).await?;
            self.take(issuer, record, &tokens, claims.as_ref(), asked_at)?;
            self.keep.write(record, &**self.talk);
            return Ok(());
        }
        let last = record.attempt.take();
        let attempt = |why: String| Attempt::after(last.as_ref(), why, self.now());
        // Before the window opens: whoever is killed while it is open has opened it all the same.
        record.attempt = Some(attempt("it was not finished".to_owned()));
        self.keep.write(record, &**self.talk);
        let facts = Facts { cluster: self.asked.cluster.clone(), issuer: self.settings.issuer.clone() };
        let outcome = match self.settings.grant {
            GrantType::DeviceCode => device::log_in(issuer, self.world, &**self.talk).await,
            _ => authcode::log_in(issuer, &facts, self.world, &**self.talk).await,
        };
        let taken = outcome.and_then(|(tokens, claims)| {
            // Another login's refresh token must not outlive it.
            record.refresh_token = tokens.refresh_token.clone();
            self.take(issuer, record, &tokens, claims.as_ref(), asked_at)
        });
        record.attempt = taken.as_ref().err().map(|error| attempt(error.story()));
        self.keep.write(record, &**self.talk);
        taken
    }

    async fn by_itself(&self, issuer: &Issuer<'_>) -> Result<(Tokens, Option<Claims>), Error> {
        let scope = self.settings.scopes.join(" ");
        let mut fields = vec![("grant_type", "client_credentials")];
        if !scope.is_empty() {
            fields.push(("scope", &scope));
        }
        let tokens = issuer.tokens("client's own credentials", &fields).await?;
        if tokens.id_token.is_empty() {
            return Ok((tokens, None));
        }
        let claims = issuer.verify(&tokens.id_token, None, None, || self.now()).await?;
        Ok((tokens, Some(claims)))
    }

    /// Puts the token that the API server is to get into the record.
    fn take(
        &self,
        issuer: &Issuer<'_>,
        record: &mut Record,
        tokens: &Tokens,
        claims: Option<&Claims>,
        asked_at: Timestamp,
    ) -> Result<(), Error> {
        let access = self.settings.use_access_token || (!self.settings.needs_person() && claims.is_none());
        let (token, what) =
            if access { (&tokens.access_token, "access_token") } else { (&tokens.id_token, "id_token") };
        if token.is_empty() {
            return Err(Error::NoToken { host: issuer.host(), what });
        }
        // By its own word or by the issuer's, whichever is sooner; counted from before it was asked for.
        let by_itself = oidc::expiry(token).map(Timestamp::as_second);
        let by_issuer = tokens.expires_in.filter(|_| access).map(|life| asked_at.as_second().saturating_add(life));
        record.expires = by_itself.into_iter().chain(by_issuer).min();
        record.issued = asked_at.as_second();
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
        self.world.clock.now()
    }
}

fn answer(record: &Record) -> ExecCredentialStatus {
    let status = ExecCredentialStatus::token(record.token.clone());
    match record.expiry() {
        Some(at) => status.expiring(at),
        None => status,
    }
}
