//! What happens in the demo, in order, and whether it held.

use std::sync::Arc;
use std::time::Duration;

use credlet_core::{Clock as _, SystemClock};
use http::StatusCode;
use serde_json::json;

use super::authority::Authority;
use super::board::{Board, Scene};
use super::issuer::{GROUP, Kind};
use super::stage::{SetupError, Stage};
use super::token::{Claims, Signer};
use super::traffic::{self, Traffic};
use crate::error::CliError;

const AT_ONCE: usize = 64;
const CALLERS: usize = 8;

/// All of it takes a sixth of that. Something that does not happen must not keep anybody waiting for ever.
const PATIENCE: Duration = Duration::from_secs(90);

const BUILDING: &str = "building a client";
const COLD: &str = "64 requests at once, cold";
const TOKENS: &str = "tokens expire under load";
const CERTIFICATES: &str = "a certificate rotates under a watch";
const REVOKED: &str = "the server revokes a token";
const STRICT: &str = "the server is strict";
const ALL: &str = "all requests";

/// What should hold, in the order in which it is shown.
pub(super) const CHECKS: [&str; 7] = [BUILDING, COLD, TOKENS, CERTIFICATES, REVOKED, STRICT, ALL];

/// Plays it. `rounds`: how often a token must have been renewed before the show goes on.
pub(super) async fn play(stage: &Stage, board: &Arc<Board>, rounds: usize) -> Result<(), CliError> {
    let [by_token, by_certificate] = [stage.client(Kind::Token)?, stage.client(Kind::Certificate)?];
    let runs = || board.look(|scene| (scene.tokens.runs, scene.certificates.runs));
    board.settle(BUILDING, runs() == (0, 0), "0 plugin runs");

    traffic::at_once(AT_ONCE, &by_token, board).await;
    let (answered, runs) = board.look(|scene| (scene.answered, scene.tokens.runs));
    board.settle(COLD, answered == 64 && runs == 1, format!("{answered} answered, {}", count(runs, "plugin run")));

    let mut traffic = Traffic::new();
    traffic.watch(&by_certificate, board);
    traffic.callers(CALLERS, &by_token, board);
    traffic.callers(2, &by_certificate, board);

    let went_on = wait(board, |scene| scene.tokens.turns.len() > rounds).await;
    let (tokens, requests, seen) = board.look(|scene| (scene.tokens.turns.len(), scene.answered, without_fail(scene)));
    let requests = usize::try_from(requests).unwrap_or_default();
    let text = format!("{}, {}, {seen}", count(tokens, "token"), count(requests, "request"));
    board.settle(TOKENS, went_on, text);

    let went_on = went_on && watched_rotation(board).await;
    let went_on = went_on && revocation(stage, board).await;
    if went_on {
        // So that the end of the time line shows that life goes on.
        tokio::time::sleep(Duration::from_millis(700)).await;
        strictness(stage, board).await?;
    }
    drop(traffic);
    conclude(board);
    Ok(())
}

/// Waits for something to happen. No: a request has failed, or it has been too long.
async fn wait(board: &Board, what: impl Fn(&Scene) -> bool) -> bool {
    let done = board.until(|scene| what(scene) || scene.failed > 0);
    let in_time = tokio::time::timeout(PATIENCE, done).await.is_ok();
    in_time && board.look(|scene| scene.failed == 0)
}

/// A second certificate is in use, and the watch that was opened with the first still says something after that.
async fn watched_rotation(board: &Board) -> bool {
    let rotated = |scene: &Scene| scene.certificates.turns.get(1).map(|turn| turn.from);
    let open = |scene: &Scene| scene.watch.as_ref().filter(|watch| watch.until.is_none()).is_some();
    let goes_on = |scene: &Scene| {
        let events = scene.watch.iter().flat_map(|watch| &watch.events);
        rotated(scene).is_some_and(|rotated| events.filter(|event| **event > rotated).count() > 1)
    };
    let held = wait(board, |scene| goes_on(scene) || scene.watch.is_some() && !open(scene)).await;
    let (certificates, held) =
        board.look(|scene| (scene.certificates.turns.len(), held && open(scene) && goes_on(scene)));
    let watch = if held { "the watch goes on" } else { "the watch does not go on" };
    let text = format!("{}, {watch}", count(certificates, "certificate"));
    board.settle(CERTIFICATES, held, text);
    held
}

async fn revocation(stage: &Stage, board: &Board) -> bool {
    // In the middle of a token's life, so that nobody takes what follows for another renewal.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut held = true;
    while held && board.look(|scene| scene.revoked.is_empty()) {
        let Some(id) = board.look(|scene| scene.tokens.turns.last().map(|turn| turn.id.clone())) else { break };
        stage.server.revoke(&id);
        // If it was being replaced just then, nobody has used it since: another try.
        held = wait(board, |scene| scene.tokens.turns.last().is_none_or(|turn| turn.id != id)).await;
    }
    let (refused, seen) = board.look(|scene| (scene.revoked.len(), without_fail(scene)));
    board.settle(REVOKED, held, format!("{} sent again, {seen}", count(refused, "request")));
    held
}

/// Without this the rest would prove nothing.
async fn strictness(stage: &Stage, board: &Board) -> Result<(), CliError> {
    let now = SystemClock::new().now();
    let (past, future) = (now - Duration::from_secs(2), now + Duration::from_secs(60));
    let user = Kind::Certificate.user();
    let expired = stage.issuer.certificate(past).map_err(SetupError::from)?;
    let stranger = Authority::new("credlet demo authority", now).map_err(SetupError::from)?;
    let foreign = stranger.client(user, GROUP, past, future).map_err(SetupError::from)?;
    let claims = Claims { id: "forged".into(), user: user.into(), group: GROUP.into(), expires: future };
    let forged = Signer::new().map_err(|_| SetupError::Key)?.sign(&claims, now);
    let pair = |pair: &super::authority::Pair| {
        let encoded = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
        json!({
            "client-certificate-data": encoded(&pair.certificate),
            "client-key-data": encoded(pair.key.expose()),
        })
    };
    let users = [
        json!({}),
        json!({ "token": stage.issuer.token("expired", past).expose() }),
        json!({ "token": forged.expose() }),
        pair(&expired),
        pair(&foreign),
    ];
    let mut refused = 0;
    for user in &users {
        let answer = traffic::status(&stage.client_with(user)?).await;
        refused += usize::from(answer == Some(StatusCode::UNAUTHORIZED));
    }
    let text = format!("{refused} of {} bad credentials get a 401", users.len());
    board.settle(STRICT, refused == users.len(), text);
    Ok(())
}

/// What was not reached does not hold.
fn conclude(board: &Board) {
    let scene = board.scene();
    let text = format!("{} answered, {} failed", grouped(scene.answered), grouped(scene.failed));
    board.settle(ALL, scene.answered > 0 && scene.failed == 0, text);
    for check in scene.checks.iter().filter(|check| check.state == super::board::State::Open && check.what != ALL) {
        board.settle(check.what, false, "not reached");
    }
}

fn without_fail(scene: &Scene) -> String {
    match &scene.failure {
        None => "none failed".to_owned(),
        Some(failure) => format!("{} failed: {failure}", grouped(scene.failed)),
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(number as u64), if number == 1 { "" } else { "s" })
}

/// With a comma at every third digit.
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
