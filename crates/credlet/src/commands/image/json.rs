//! JSON output of lookups and traces.

use credlet_api::image::format_duration;
use credlet_image::{CredentialOrigin, ImageCredential, LookupResult, StepOutcome, TraceStep};
use serde_json::{Value, json};

use crate::printer::RevealArgs;

pub(super) fn lookup(lookup: &LookupResult, reveal: RevealArgs) -> Value {
    json!({
        "image": lookup.image.as_str(),
        "tag": lookup.image.tag(),
        "digest": lookup.image.digest(),
        "anonymous": lookup.credentials.is_empty(),
        "credentials": lookup.credentials.iter().map(|found| credential(found, reveal)).collect::<Vec<_>>(),
        "errors": errors(lookup),
    })
}

fn credential(found: &ImageCredential, reveal: RevealArgs) -> Value {
    let (provider, account) = match &found.origin {
        CredentialOrigin::Provider { name, account } => (Some(name), account.as_ref()),
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

fn errors(lookup: &LookupResult) -> Vec<Value> {
    let failed = lookup.trace.steps.iter().filter_map(|step| match &step.outcome {
        Some(StepOutcome::Failed(error)) => Some(json!({"provider": step.provider, "message": error.to_string()})),
        _ => None,
    });
    failed.collect()
}

pub(super) fn trace(lookup: &LookupResult) -> Value {
    json!({
        "image": lookup.image.as_str(),
        "configHash": lookup.trace.config_hash,
        "anonymous": lookup.credentials.is_empty(),
        "providers": lookup.trace.steps.iter().map(step).collect::<Vec<_>>(),
    })
}

fn step(step: &TraceStep) -> Value {
    let near = step.near_misses.iter().map(|miss| {
        let reasons: Vec<_> = miss.reasons.iter().map(ToString::to_string).collect();
        json!({"pattern": miss.pattern, "near": miss.is_near(), "reasons": reasons})
    });
    let (outcome, detail) = match &step.outcome {
        None => ("not asked", None),
        Some(StepOutcome::Skipped(skipped)) => ("skipped", Some(skipped.to_string())),
        Some(StepOutcome::Cached(_)) => ("remembered", None),
        Some(StepOutcome::Ran(_)) => ("ran", None),
        Some(StepOutcome::Failed(error)) => ("failed", Some(error.to_string())),
    };
    json!({
        "name": step.provider,
        "matched": step.matched,
        "misses": near.collect::<Vec<_>>(),
        "outcome": outcome,
        "reason": detail,
        "answer": step.response().map(|response| json!({
            "cacheKeyType": response.scope().as_str(),
            "cacheDuration": format_duration(response.lifetime()),
            "image": response.image(),
            "took": format_duration(response.took()),
            "remarks": response.warnings().iter().map(ToString::to_string).collect::<Vec<_>>(),
        })),
        "keysTried": step.used_keys,
        "keysUnused": step.unused_keys(),
    })
}
