//! Compares decoding of plugin output with client-go. `e2e/oracle-exec` recorded `vectors/decode-*.jsonl` with client-go's
//! authenticator.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use credlet_api::exec::{ApiVersion, ExecConfig};
use credlet_exec::{
    CommandSpec, CompletedProcess, ExecOptions, ExecPlugin, FetchReason, FixedEnv, NoopObserver, Platform, ProcessExit,
    ProcessRunner, RunError, Source as _, SystemClock,
};
use serde_json::Value;
use zeroize::Zeroizing;

/// Returns prepared output instead of running a process.
#[derive(Debug)]
struct FixedOutputRunner(Vec<u8>);

impl ProcessRunner for FixedOutputRunner {
    fn run(&self, _: CommandSpec) -> Pin<Box<dyn Future<Output = Result<CompletedProcess, RunError>> + Send + '_>> {
        let stdout = Zeroizing::new(self.0.clone());
        Box::pin(async { Ok(CompletedProcess { exit: ProcessExit::Exited(0), stdout, stderr: Zeroizing::default() }) })
    }
}

#[tokio::test]
async fn decodes_like_client_go_with_known_exceptions() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let lines = |name: &str| -> Vec<Value> {
        let text = fs::read_to_string(vectors.join(name)).unwrap();
        text.split('\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // Keys are the reasons.
    let exceptions: BTreeMap<String, BTreeSet<String>> =
        serde_json::from_str(&fs::read_to_string(vectors.join("decode-exceptions.json")).unwrap()).unwrap();
    let exceptions: BTreeSet<_> = exceptions.into_values().flatten().collect();
    let mut differing = BTreeMap::new();
    for (case, fact) in lines("decode-cases.jsonl").iter().zip(lines("decode-facts.jsonl")) {
        assert_eq!(case["name"], fact["name"]);
        let ours = ours(case).await;
        let theirs = match fact["accepted"].as_bool().unwrap() {
            true => Some(DecodedCredential {
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
    let stale: Vec<_> = exceptions.iter().filter(|name| !differing.contains_key(*name)).collect();
    assert!(stale.is_empty(), "stale exceptions: {stale:?}");
}

#[derive(Debug, PartialEq)]
struct DecodedCredential {
    token: String,
    certificate: bool,
    expiry: String,
}

async fn ours(case: &Value) -> Result<DecodedCredential, String> {
    let stdout = match case["stdout"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => base64::engine::general_purpose::STANDARD.decode(case["stdoutBase64"].as_str().unwrap()).unwrap(),
    };
    let version: ApiVersion = case["apiVersion"].as_str().unwrap().parse().map_err(|_| "no such version".to_owned())?;
    let platform = Platform {
        clock: Arc::new(SystemClock::new()),
        env: Arc::new(FixedEnv::new([("PATH", "/bin:/usr/bin")])),
        runner: Arc::new(FixedOutputRunner(stdout)),
        observer: Arc::new(NoopObserver),
    };
    let plugin = ExecPlugin::new(ExecConfig::new("sh", version), None, ExecOptions::default(), platform).unwrap();
    let fetched = plugin.fetch(&FetchReason::Miss).await.map_err(|error| error.to_string())?;
    Ok(DecodedCredential {
        token: fetched.value.token.map(|token| token.expose().to_owned()).unwrap_or_default(),
        certificate: fetched.value.certificate.is_some(),
        expiry: fetched.expires.map(|at| at.to_string()).unwrap_or_default(),
    })
}
