//! What was found and how, as scripts read it.

use credlet_api::image::format_duration;
use credlet_image::{Found, LookUp, Origin, Outcome, Step};
use serde_json::{Value, json};

use crate::printer::Reveal;

pub(super) fn look_up(look_up: &LookUp, reveal: Reveal) -> Value {
    json!({
        "image": look_up.image.as_str(),
        "tag": look_up.image.tag(),
        "digest": look_up.image.digest(),
        "anonymous": look_up.credentials.is_empty(),
        "credentials": look_up.credentials.iter().map(|found| credential(found, reveal)).collect::<Vec<_>>(),
        "errors": errors(look_up),
    })
}

fn credential(found: &Found, reveal: Reveal) -> Value {
    let (provider, account) = match &found.origin {
        Origin::Provider { name, account } => (Some(name), account.as_ref()),
        _ => (None, None),
    };
    json!({
        "key": found.key,
        "username": found.auth.username,
        "password": reveal.show(&found.auth.password),
        "origin": found.origin.to_string(),
        "provider": provider,
        "serviceAccount": account.map(|account| json!({
            "namespace": account.namespace, "name": account.name, "uid": account.uid,
        })),
    })
}

fn errors(look_up: &LookUp) -> Vec<Value> {
    let failed = look_up.trace.steps.iter().filter_map(|step| match &step.outcome {
        Some(Outcome::Failed(error)) => Some(json!({"provider": step.provider, "message": error.to_string()})),
        _ => None,
    });
    failed.collect()
}

pub(super) fn trace(look_up: &LookUp) -> Value {
    json!({
        "image": look_up.image.as_str(),
        "configHash": look_up.trace.config_hash,
        "anonymous": look_up.credentials.is_empty(),
        "providers": look_up.trace.steps.iter().map(step).collect::<Vec<_>>(),
    })
}

fn step(step: &Step) -> Value {
    let near = step.near_misses.iter().map(|miss| {
        let reasons: Vec<_> = miss.reasons.iter().map(ToString::to_string).collect();
        json!({"pattern": miss.pattern, "near": miss.is_near(), "reasons": reasons})
    });
    let (outcome, detail) = match &step.outcome {
        None => ("not asked", None),
        Some(Outcome::Skipped(skipped)) => ("skipped", Some(skipped.to_string())),
        Some(Outcome::Remembered(_)) => ("remembered", None),
        Some(Outcome::Ran(_)) => ("ran", None),
        Some(Outcome::Failed(error)) => ("failed", Some(error.to_string())),
    };
    json!({
        "name": step.provider,
        "matched": step.matched,
        "misses": near.collect::<Vec<_>>(),
        "outcome": outcome,
        "reason": detail,
        "answer": step.answer().map(|answer| json!({
            "cacheKeyType": answer.scope().as_str(),
            "cacheDuration": format_duration(answer.lifetime()),
            "image": answer.image(),
            "took": format_duration(answer.took()),
            "remarks": answer.remarks().iter().map(ToString::to_string).collect::<Vec<_>>(),
        })),
        "keysTried": step.kept,
        "keysUnused": step.unused_keys(),
    })
}
