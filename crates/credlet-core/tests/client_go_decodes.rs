//! The answers of plugins, as client-go itself accepts and refuses them: `vectors/decode-*.jsonl` were recorded by
//! `e2e/oracle-exec`, which runs client-go's own authenticator.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use credlet_api::exec::{ApiVersion, ExecConfig};
use credlet_core::{
    Ended, ExecOptions, ExecPlugin, Finished, FixedEnv, NoObserver, Program, RunError, Runner, Source as _,
    SystemClock, Why, World,
};
use serde_json::Value;
use zeroize::Zeroizing;

/// "Runs" a program by having its output ready.
#[derive(Debug)]
struct Printed(Vec<u8>);

impl Runner for Printed {
    fn run(&self, _: Program) -> Pin<Box<dyn Future<Output = Result<Finished, RunError>> + Send + '_>> {
        let stdout = Zeroizing::new(self.0.clone());
        Box::pin(async { Ok(Finished { ended: Ended::Exited(0), stdout, stderr: Zeroizing::default() }) })
    }
}

#[tokio::test]
async fn answers_are_accepted_and_refused_as_client_go_does_with_known_exceptions() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let lines = |name: &str| -> Vec<Value> {
        let text = fs::read_to_string(vectors.join(name)).unwrap();
        text.split('\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // Each with its reason.
    let exceptions: BTreeMap<String, BTreeSet<String>> =
        serde_json::from_str(&fs::read_to_string(vectors.join("decode-exceptions.json")).unwrap()).unwrap();
    let exceptions: BTreeSet<_> = exceptions.into_values().flatten().collect();
    let mut differing = BTreeMap::new();
    for (case, fact) in lines("decode-cases.jsonl").iter().zip(lines("decode-facts.jsonl")) {
        assert_eq!(case["name"], fact["name"]);
        let ours = ours(case).await;
        let theirs = match fact["accepted"].as_bool().unwrap() {
            true => Some(Accepted {
                token: fact["token"].as_str().unwrap_or_default().to_owned(),
                certificate: fact["cert"].as_bool().unwrap_or_default(),
                expiry: fact["expiry"].as_str().unwrap_or_default().to_owned(),
            }),
            false => None,
        };
        if ours.as_ref().ok() != theirs.as_ref() {
            differing.insert(case["name"].as_str().unwrap().to_owned(), format!("{theirs:?} / {ours:?}"));
        }
    }
    let unexpected: Vec<_> = differing.iter().filter(|(name, _)| !exceptions.contains(*name)).collect();
    assert!(unexpected.is_empty(), "client-go / ours: {unexpected:#?}");
    let gone: Vec<_> = exceptions.iter().filter(|name| !differing.contains_key(*name)).collect();
    assert!(gone.is_empty(), "no exceptions any more: {gone:?}");
}

#[derive(Debug, PartialEq)]
struct Accepted {
    token: String,
    certificate: bool,
    expiry: String,
}

async fn ours(case: &Value) -> Result<Accepted, String> {
    let stdout = match case["stdout"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => base64::engine::general_purpose::STANDARD.decode(case["stdoutBase64"].as_str().unwrap()).unwrap(),
    };
    let version: ApiVersion = case["apiVersion"].as_str().unwrap().parse().map_err(|_| "no such version".to_owned())?;
    let world = World {
        clock: Arc::new(SystemClock::new()),
        env: Arc::new(FixedEnv::new([("PATH", "/bin:/usr/bin")])),
        runner: Arc::new(Printed(stdout)),
        observer: Arc::new(NoObserver),
    };
    let plugin = ExecPlugin::new(ExecConfig::new("sh", version), None, ExecOptions::default(), world).unwrap();
    let fetched = plugin.fetch(&Why::Wanted).await.map_err(|error| error.to_string())?;
    Ok(Accepted {
        token: fetched.value.token.map(|token| token.expose().to_owned()).unwrap_or_default(),
        certificate: fetched.value.certificate.is_some(),
        expiry: fetched.expires.map(|at| at.to_string()).unwrap_or_default(),
    })
}
