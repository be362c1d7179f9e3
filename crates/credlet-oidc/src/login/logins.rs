//! Lists stored logins and logs out.

use std::path::Path;
use std::sync::Arc;

use credlet_exec::Platform;
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::issuer::IssuerClient;
use super::login_cache;
use super::login_record::LoginRecord;
use super::settings::OidcSettings;
use super::{OidcEndpoint, OidcError, OidcOptions};
use credlet_exec::store::{KernelKeyring, Sealer, Store, StoreError};

/// A stored login without its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoginSession {
    /// URL of the issuer.
    pub issuer: String,
    /// Client id that the tokens were issued to.
    pub client_id: String,
    /// Name of the user, as the ID token states it. Empty before the first successful login.
    pub account: String,
    /// When the token expires.
    pub expires: Option<Timestamp>,
    /// Whether the token is valid now.
    pub valid: bool,
    /// Whether there is a refresh token, so that the next token needs no login.
    pub renewable: bool,
    /// Why the last login failed, if it did.
    pub problem: Option<String>,
}

impl LoginSession {
    pub(super) fn from_record(record: &LoginRecord, now: Timestamp) -> Self {
        Self {
            issuer: record.issuer.clone(),
            client_id: record.client_id.clone(),
            account: record.account.clone(),
            expires: record.expiry(),
            valid: record.is_unexpired(now),
            renewable: !record.refresh_token.is_empty(),
            problem: record.attempt.as_ref().map(|attempt| attempt.why.clone()),
        }
    }
}

/// The result of a logout.
#[derive(Debug)]
#[non_exhaustive]
pub struct LogoutResult {
    /// The login that was removed.
    pub session: LoginSession,
    /// Whether the issuer revoked the refresh token. `None`: there was none.
    pub revoked: Option<Result<(), OidcError>>,
}

/// Returns all logins in a directory, also encrypted ones, in no particular order.
///
/// # Errors
/// If the directory cannot be read.
pub fn sessions(directory: &Path, now: Timestamp) -> Result<Vec<LoginSession>, StoreError> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    Ok(records(directory)?.0.iter().map(|(_, record)| LoginSession::from_record(record, now)).collect())
}

/// Returns every login with the name of its file.
fn records(directory: &Path) -> Result<(Vec<(String, LoginRecord)>, Store), StoreError> {
    let store = Store::open(directory)?;
    let names = store.names()?.into_iter().filter(|name| name.len() == 64 && !name.contains('.'));
    let files: Vec<_> = names.filter_map(|name| Some((store.read(&name).ok()??, name))).collect();
    let sealed = files.iter().any(|(bytes, _)| bytes.first() != Some(&b'{'));
    let sealer = if sealed { Sealer::new(Arc::new(KernelKeyring), &store).ok() } else { None };
    let record = |(bytes, name): (Zeroizing<Vec<u8>>, String)| {
        let record =
            login_cache::decode(&bytes, &name, None).or_else(|| login_cache::decode(&bytes, &name, sealer.as_ref()))?;
        Some((name, record))
    };
    Ok((files.into_iter().filter_map(record).collect(), store))
}

/// Logs out every login in a directory as [`log_out`](super::log_out) does. Client secrets and private certificate authorities are
/// not stored, so revocation may fail for logins that need them; the login is removed even then.
///
/// # Errors
/// If the directory cannot be read.
pub async fn log_out_all(directory: &Path, platform: &Platform) -> Result<Vec<LogoutResult>, StoreError> {
    let mut results = Vec::new();
    if !directory.exists() {
        return Ok(results);
    }
    let (records, store) = records(directory)?;
    for (name, record) in records {
        let (issuer_url, client_id) = (Some(record.issuer.clone()), Some(record.client_id.clone()));
        let settings =
            OidcSettings::new(&OidcOptions { issuer_url, client_id, ..OidcOptions::default() }, &*platform.env);
        let revoked = match settings {
            Ok(settings) => revoke(&settings, &record, platform).await,
            Err(error) => Some(Err(error)),
        };
        store.remove(&name)?;
        results.push(LogoutResult { session: LoginSession::from_record(&record, platform.clock.now()), revoked });
    }
    Ok(results)
}

pub(super) async fn revoke(
    settings: &OidcSettings,
    record: &LoginRecord,
    platform: &Platform,
) -> Option<Result<(), OidcError>> {
    if record.refresh_token.is_empty() {
        return None;
    }
    let fields = [("token", record.refresh_token.expose()), ("token_type_hint", "refresh_token")];
    let revoked = async {
        let issuer = IssuerClient::discover(settings, platform).await?;
        let response = issuer.post(OidcEndpoint::Revocation, &fields).await?;
        if response.status.is_success() {
            return Ok(());
        }
        Err(issuer.error_response(OidcEndpoint::Revocation, "refresh token", response))
    };
    Some(revoked.await)
}
