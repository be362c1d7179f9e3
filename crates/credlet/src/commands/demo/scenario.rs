//! The steps of the demo and their checks.

use std::sync::Arc;
use std::time::Duration;

use credlet_apiserver::ca::{CertificateAuthority, Identity};
use credlet_apiserver::token::{TokenClaims, TokenSigner};
use credlet_exec::{Clock as _, SystemClock};
use http::StatusCode;
use serde_json::json;

use super::cluster::{DemoCluster, SetupError};
use super::issuer::{CredentialKind, GROUP};
use super::state::{DemoSnapshot, DemoState};
use super::traffic::{self, TrafficGenerator};
use crate::error::CliError;

const AT_ONCE: usize = 64;
const CALLERS: usize = 8;

/// Time limit of each step, six times the usual duration of the whole demo.
const STEP_TIMEOUT: Duration = Duration::from_secs(90);

const BUILDING: &str = "building a client";
const COLD: &str = "64 requests at once, cold";
const TOKENS: &str = "tokens expire under load";
const CERTIFICATES: &str = "a certificate rotates under a watch";
const REVOKED: &str = "the server revokes a token";
const STRICT: &str = "invalid credentials are rejected";
const ALL: &str = "all requests";

/// The checks, in display order.
pub(super) const CHECKS: [&str; 7] = [BUILDING, COLD, TOKENS, CERTIFICATES, REVOKED, STRICT, ALL];

/// Runs all steps. `rounds` is the number of token refreshes before the second step ends.
pub(super) async fn run(cluster: &DemoCluster, state: &Arc<DemoState>, rounds: usize) -> Result<(), CliError> {
    let [by_token, by_certificate] =
        [cluster.client(CredentialKind::Token)?, cluster.client(CredentialKind::Certificate)?];
    let runs = || state.with(|snapshot| (snapshot.tokens.runs, snapshot.certificates.runs));
    state.complete_check(BUILDING, runs() == (0, 0), "0 plugin runs");

    traffic::send_concurrently(AT_ONCE, &by_token, state).await;
    let (succeeded, runs) = state.with(|snapshot| (snapshot.succeeded, snapshot.tokens.runs));
    state.complete_check(
        COLD,
        succeeded == 64 && runs == 1,
        format!("{succeeded} succeeded, {}", count(runs, "plugin run")),
    );

    let mut traffic = TrafficGenerator::new();
    traffic.spawn_watch(&by_certificate, state);
    traffic.spawn_callers(CALLERS, &by_token, state);
    traffic.spawn_callers(2, &by_certificate, state);

    let ok = wait(state, |snapshot| snapshot.tokens.uses.len() > rounds).await;
    let (tokens, requests, seen) =
        state.with(|snapshot| (snapshot.tokens.uses.len(), snapshot.succeeded, failures(snapshot)));
    let requests = usize::try_from(requests).unwrap_or_default();
    let text = format!("{}, {}, {seen}", count(tokens, "token"), count(requests, "request"));
    state.complete_check(TOKENS, ok, text);

    let ok = ok && check_rotation(state).await;
    let ok = ok && check_revocation(cluster, state).await;
    if ok {
        // The time line should show successful requests after the revocation.
        tokio::time::sleep(Duration::from_millis(700)).await;
        check_rejection(cluster, state).await?;
    }
    drop(traffic);
    complete_remaining(state);
    Ok(())
}

/// Waits for a condition. Returns false if a request failed or the time limit passed.
async fn wait(state: &DemoState, what: impl Fn(&DemoSnapshot) -> bool) -> bool {
    let done = state.wait_until(|snapshot| what(snapshot) || snapshot.failed > 0);
    let in_time = tokio::time::timeout(STEP_TIMEOUT, done).await.is_ok();
    in_time && state.with(|snapshot| snapshot.failed == 0)
}

/// Checks that the watch that was opened with the first certificate still receives events after the second one is in use.
async fn check_rotation(state: &DemoState) -> bool {
    let rotated = |snapshot: &DemoSnapshot| snapshot.certificates.uses.get(1).map(|credential_use| credential_use.from);
    let open = |snapshot: &DemoSnapshot| snapshot.watch.as_ref().filter(|watch| watch.until.is_none()).is_some();
    let receives_events = |snapshot: &DemoSnapshot| {
        let events = snapshot.watch.iter().flat_map(|watch| &watch.events);
        rotated(snapshot).is_some_and(|rotated| events.filter(|event| **event > rotated).count() > 1)
    };
    let held = wait(state, |snapshot| receives_events(snapshot) || snapshot.watch.is_some() && !open(snapshot)).await;
    let (certificates, held) =
        state.with(|snapshot| (snapshot.certificates.uses.len(), held && open(snapshot) && receives_events(snapshot)));
    let watch = if held { "watch still open" } else { "watch closed" };
    let text = format!("{}, {watch}", count(certificates, "certificate"));
    state.complete_check(CERTIFICATES, held, text);
    held
}

async fn check_revocation(cluster: &DemoCluster, state: &DemoState) -> bool {
    // In the middle of a token's lifetime, so that the following refresh is not a regular one.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut held = true;
    while held && state.with(|snapshot| snapshot.revoked.is_empty()) {
        let Some(id) =
            state.with(|snapshot| snapshot.tokens.uses.last().map(|credential_use| credential_use.id.clone()))
        else {
            break;
        };
        cluster.server.revoke(&id);
        // A token that was being replaced at this moment is not used again: retry with the next one.
        held = wait(state, |snapshot| snapshot.tokens.uses.last().is_none_or(|credential_use| credential_use.id != id))
            .await;
    }
    let (refused, seen) = state.with(|snapshot| (snapshot.revoked.len(), failures(snapshot)));
    state.complete_check(REVOKED, held, format!("{} retried, {seen}", count(refused, "request")));
    held
}

/// Checks that the server rejects invalid credentials; otherwise the other checks would prove nothing.
async fn check_rejection(cluster: &DemoCluster, state: &DemoState) -> Result<(), CliError> {
    let now = SystemClock::new().now();
    let (past, future) = (now - Duration::from_secs(2), now + Duration::from_secs(60));
    let user = CredentialKind::Certificate.user();
    let expired = cluster.issuer.certificate(past).map_err(SetupError::from)?;
    let stranger = CertificateAuthority::new("credlet demo authority").map_err(SetupError::from)?;
    let foreign = stranger.client(user).organizations([GROUP]).valid(past, future).issue().map_err(SetupError::from)?;
    let claims = TokenClaims { id: "forged".into(), user: user.into(), groups: vec![GROUP.into()], expires: future };
    let forged = TokenSigner::new().map_err(SetupError::from)?.sign(&claims, now);
    let pair = |pair: &Identity| {
        let encoded = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
        json!({
            "client-certificate-data": encoded(pair.cert_pem()),
            "client-key-data": encoded(pair.key_pem()),
        })
    };
    let users = [
        json!({}),
        json!({ "token": cluster.issuer.token("expired", past).expose() }),
        json!({ "token": forged.expose() }),
        pair(&expired),
        pair(&foreign),
    ];
    let mut refused = 0;
    for user in &users {
        let response = traffic::status(&cluster.client_with(user)?).await;
        refused += usize::from(response == Some(StatusCode::UNAUTHORIZED));
    }
    let text = format!("{refused} of {} invalid credentials rejected with 401", users.len());
    state.complete_check(STRICT, refused == users.len(), text);
    Ok(())
}

/// Completes the last check, and fails the checks that were not reached.
fn complete_remaining(state: &DemoState) {
    let snapshot = state.snapshot();
    let text = format!("{} succeeded, {} failed", grouped(snapshot.succeeded), grouped(snapshot.failed));
    state.complete_check(ALL, snapshot.succeeded > 0 && snapshot.failed == 0, text);
    for check in
        snapshot.checks.iter().filter(|check| check.state == super::state::CheckState::Pending && check.what != ALL)
    {
        state.complete_check(check.what, false, "not reached");
    }
}

fn failures(snapshot: &DemoSnapshot) -> String {
    match &snapshot.failure {
        None => "none failed".to_owned(),
        Some(failure) => format!("{} failed: {failure}", grouped(snapshot.failed)),
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(number as u64), if number == 1 { "" } else { "s" })
}

/// Formats a number with a comma at every third digit.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
