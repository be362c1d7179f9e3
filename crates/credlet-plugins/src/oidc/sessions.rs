//! Logins as a person sees them: who is logged in where, and how it ends.

use std::path::Path;
use std::sync::Arc;

use credlet_core::World;
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::issuer::Issuer;
use super::keep;
use super::record::Record;
use super::settings::Settings;
use super::{Endpoint, Error, Options};
use crate::store::{KernelKeyring, Sealer, Store, StoreError};

/// A login. It holds no token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// The issuer.
    pub issuer: String,
    /// The client.
    pub client_id: String,
    /// The person, by the name they know. Empty: nobody has logged in yet.
    pub account: String,
    /// When the token ends.
    pub expires: Option<Timestamp>,
    /// Whether the token is good now.
    pub good: bool,
    /// Whether the next token comes without a person.
    pub renewable: bool,
    /// Why the last login did not succeed.
    pub problem: Option<String>,
}

impl Session {
    pub(super) fn of(record: &Record, now: Timestamp) -> Self {
        Self {
            issuer: record.issuer.clone(),
            client_id: record.client_id.clone(),
            account: record.account.clone(),
            expires: record.expiry(),
            good: record.is_alive(now),
            renewable: !record.refresh_token.is_empty(),
            problem: record.attempt.as_ref().map(|attempt| attempt.why.clone()),
        }
    }
}

/// A login that has come to its end.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ended {
    /// Whose it was.
    pub session: Session,
    /// Whether the issuer has taken the refresh token back. `None`: there was none.
    pub revoked: Option<Result<(), Error>>,
}

/// All logins in a directory, also those that are encrypted, in no order that means anything.
///
/// # Errors
/// When the directory cannot be read.
pub fn sessions(directory: &Path, now: Timestamp) -> Result<Vec<Session>, StoreError> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    Ok(records(directory)?.0.iter().map(|(_, record)| Session::of(record, now)).collect())
}

/// Every login with the name of its file.
fn records(directory: &Path) -> Result<(Vec<(String, Record)>, Store), StoreError> {
    let store = Store::open(directory)?;
    let names = store.names()?.into_iter().filter(|name| name.len() == 64 && !name.contains('.'));
    let files: Vec<_> = names.filter_map(|name| Some((store.read(&name).ok()??, name))).collect();
    let sealed = files.iter().any(|(bytes, _)| bytes.first() != Some(&b'{'));
    let sealer = if sealed { Sealer::new(Arc::new(KernelKeyring), &store).ok() } else { None };
    let record = |(bytes, name): (Zeroizing<Vec<u8>>, String)| {
        let record = keep::decode(&bytes, &name, None).or_else(|| keep::decode(&bytes, &name, sealer.as_ref()))?;
        Some((name, record))
    };
    Ok((files.into_iter().filter_map(record).collect(), store))
}

/// Ends every login in a directory, as [`log_out`](super::log_out) does one. Clients that have a secret, and issuers with
/// a certificate authority of their own, may not take the token back without them; the login is forgotten all the same.
///
/// # Errors
/// When the directory cannot be read.
pub async fn log_out_all(directory: &Path, world: &World) -> Result<Vec<Ended>, StoreError> {
    let mut ended = Vec::new();
    if !directory.exists() {
        return Ok(ended);
    }
    let (records, store) = records(directory)?;
    for (name, record) in records {
        let (issuer_url, client_id) = (Some(record.issuer.clone()), Some(record.client_id.clone()));
        let settings = Settings::new(&Options { issuer_url, client_id, ..Options::default() }, &*world.env);
        let revoked = match settings {
            Ok(settings) => revoke(&settings, &record, world).await,
            Err(error) => Some(Err(error)),
        };
        store.remove(&name)?;
        ended.push(Ended { session: Session::of(&record, world.clock.now()), revoked });
    }
    Ok(ended)
}

pub(super) async fn revoke(settings: &Settings, record: &Record, world: &World) -> Option<Result<(), Error>> {
    if record.refresh_token.is_empty() {
        return None;
    }
    let fields = [("token", record.refresh_token.expose()), ("token_type_hint", "refresh_token")];
    let revoked = async {
        let issuer = Issuer::discover(settings, world).await?;
        let answer = issuer.post(Endpoint::Revocation, &fields).await?;
        if answer.status.is_success() {
            return Ok(());
        }
        Err(issuer.refused(Endpoint::Revocation, "refresh token", answer))
    };
    Some(revoked.await)
}
