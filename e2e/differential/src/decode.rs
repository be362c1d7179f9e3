//! Decoding of plugin output.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use credlet_api::exec::{ApiVersion, ExecConfig};
use credlet_exec::{
    CommandSpec, CompletedProcess, ExecOptions, ExecPlugin, FetchReason, FixedEnv, NoopObserver, Platform, ProcessExit,
    ProcessRunner, RunError, Source as _, SystemClock,
};
use fastrand::Rng;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use crate::comparison::{Comparison, Difference, ReferenceProgram};
use crate::document;
use crate::pki::TestPki;
use crate::random::{json as any, maybe, pick, rarely, text};

pub(crate) struct DecodeComparison<'a> {
    pki: &'a TestPki,
    runtime: tokio::runtime::Runtime,
}

impl<'a> DecodeComparison<'a> {
    pub(crate) fn new(pki: &'a TestPki) -> Self {
        Self { pki, runtime: tokio::runtime::Builder::new_current_thread().build().expect("a runtime") }
    }
}

/// A runner that returns prepared output.
#[derive(Debug)]
struct PreparedOutput(Vec<u8>);

impl ProcessRunner for PreparedOutput {
    fn run(&self, _: CommandSpec) -> Pin<Box<dyn Future<Output = Result<CompletedProcess, RunError>> + Send + '_>> {
        let stdout = Zeroizing::new(self.0.clone());
        Box::pin(async { Ok(CompletedProcess { exit: ProcessExit::Exited(0), stdout, stderr: Zeroizing::default() }) })
    }
}

impl Comparison for DecodeComparison<'_> {
    fn name(&self) -> &'static str {
        "decode"
    }

    fn reference(&self) -> ReferenceProgram {
        ReferenceProgram::Exec("decode")
    }

    fn generate(&self, rng: &mut Rng) -> Value {
        let version = pick(rng, &["v1", "v1", "v1beta1"]);
        let answered = if rarely(rng, 12) { pick(rng, &["v1", "v1beta1", "v1alpha1", "v2", ""]) } else { version };
        let mut doc = Map::new();
        if !rarely(rng, 15) {
            doc.insert("kind".to_owned(), (pick(rng, KINDS)).into());
        }
        if !rarely(rng, 25) {
            doc.insert("apiVersion".to_owned(), format!("client.authentication.k8s.io/{answered}").into());
        }
        maybe(rng, 4, &mut doc, "spec", |rng| if rng.bool() { json!({"interactive": rng.bool()}) } else { json!({}) });
        maybe(rng, 12, &mut doc, "metadata", |rng| any(rng, 1));
        if !rarely(rng, 15) {
            doc.insert("status".to_owned(), if rarely(rng, 20) { any(rng, 1) } else { status(rng) });
        }
        let style = pick(rng, &["json", "json", "json", "pretty", "yaml", "yaml", "flow", "document"]);
        let mut case = json!({"apiVersion": version, "style": style, "doc": doc});
        if rarely(rng, 30) {
            case["after"] = (pick(rng, &["\n", " x", "{}", "\n---\n{}", "\u{0}", "]", "\n\n"])).into();
        }
        case
    }

    fn query(&self, case: &Value, _: &Path) -> Value {
        let version = case["apiVersion"].as_str().unwrap_or("v1");
        let mut doc = case["doc"].clone();
        fill(&mut doc, self.pki);
        let after = case["after"].as_str().unwrap_or_default();
        let stdout = document::write(&doc, case["style"].as_str().unwrap_or("json")) + after;
        json!({"apiVersion": format!("client.authentication.k8s.io/{version}"), "stdout": stdout})
    }

    fn ours(&self, query: &Value) -> (Value, String) {
        let text = |name: &str| query[name].as_str().unwrap_or_default();
        let refused = |why: String| (json!({"accepted": false}), why);
        let Ok(version) = text("apiVersion").parse::<ApiVersion>() else { return refused("no version".to_owned()) };
        let platform = Platform {
            clock: Arc::new(SystemClock::new()),
            env: Arc::new(FixedEnv::new([("PATH", "/bin:/usr/bin")])),
            runner: Arc::new(PreparedOutput(text("stdout").as_bytes().to_vec())),
            observer: Arc::new(NoopObserver),
        };
        let plugin =
            ExecPlugin::new(ExecConfig::new("sh", version), None, ExecOptions::default(), platform).expect("a plugin");
        match self.runtime.block_on(plugin.fetch(&FetchReason::Miss)) {
            Err(error) => refused(error.to_string()),
            Ok(fetched) => {
                let answer = json!({
                    "accepted": true,
                    "token": fetched.value.token.map(|token| token.expose().to_owned()).unwrap_or_default(),
                    "cert": fetched.value.certificate.is_some(),
                    "expiry": fetched.expires.map(|at| at.to_string()).unwrap_or_default(),
                });
                (answer, String::new())
            }
        }
    }

    fn plain(&self, theirs: &mut Value) {
        let accepted = theirs["accepted"] == true;
        theirs
            .as_object_mut()
            .expect("an answer")
            .retain(|name, _| name == "accepted" || (accepted && ["token", "cert", "expiry"].contains(&name.as_str())));
    }

    fn deliberate(&self, query: &Value, difference: &Difference<'_>) -> Option<&'static str> {
        let &Difference { theirs, ours, why, .. } = difference;
        let token = theirs["token"].as_str().unwrap_or_default();
        let accepted = |answer: &Value| answer["accepted"] == true;
        if accepted(theirs) && !accepted(ours) {
            if why.contains("control character") && token.contains(char::is_control) {
                return Some("a token with a control character fits into no header (W27)");
            }
            // Go converts YAML to JSON first, which drops duplicate keys.
            let stdout = query["stdout"].as_str().unwrap_or_default();
            let twice = stdout.lines().filter(|line| line.trim_start().starts_with("token:")).count() > 1
                || stdout.matches("\"token\": ").count() > 1;
            if why.contains("invalid `status.token`: expected a string") && twice {
                return Some("in YAML too, what is there twice must be right twice");
            }
        }
        let edge = theirs["expiry"].as_str().is_some_and(|at| at.starts_with("9999-12-31T"));
        let last = ours["expiry"].as_str().is_some_and(|at| at == jiff::Timestamp::MAX.to_string());
        if edge && last && theirs["token"] == ours["token"] && theirs["cert"] == ours["cert"] {
            return Some("a time after the last one that we can say is that one");
        }
        None
    }

    fn plant(&self, query: &mut Value) {
        let stdout = query["stdout"].as_str().unwrap_or_default().replace("expirationTimestamp", "expirationTimeStamp");
        query["stdout"] = stdout.into();
    }

    fn kind(&self, theirs: &Value) -> String {
        match (theirs["accepted"] == true, theirs["cert"] == true) {
            (false, _) => "refused",
            (true, false) => "token",
            (true, true) => "certificate",
        }
        .to_owned()
    }
}

const KINDS: &[&str] = &[
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "ExecCredential",
    "Status",
    "execcredential",
    "",
];

const TIMES: &[&str] = &[
    "2030-01-02T03:04:05Z",
    "2030-01-02T03:04:05+01:00",
    "2030-01-02T03:04:05.678Z",
    "2030-01-02T03:04:05",
    "2030-01-02",
    "",
    "never",
    "2030-02-30T00:00:00Z",
    "2030-01-02T24:00:00Z",
    "2030-01-02T03:04:60Z",
    "2030-01-02t03:04:05z",
    "0001-01-01T00:00:00Z",
    "2030-01-02T03:04:05-23:59",
    "2030-01-02T03:04:05,5Z",
    "2030-1-2T03:04:05Z",
    "9999-12-31T23:59:59Z",
    "2030-01-02 03:04:05Z",
    "2030-01-02T03:04:05+0100",
    "2030-01-02T3:04:05Z",
    "2030-01-02T03:04:05.123456789123Z",
    "2030-01-02T03:04:05+24:00",
    "1969-12-31T23:59:59Z",
];

fn status(rng: &mut Rng) -> Value {
    let mut status = Map::new();
    if !rarely(rng, 8) {
        let token =
            if rarely(rng, 8) { text(rng) } else { (pick(rng, &["token", "a.b.c", "token", "x", ""])).to_owned() };
        status.insert("token".to_owned(), if rarely(rng, 15) { any(rng, 1) } else { token.into() });
    }
    maybe(rng, 2, &mut status, "expirationTimestamp", |rng| {
        if rarely(rng, 12) {
            any(rng, 1)
        } else {
            if rarely(rng, 2) { TIMES[0].into() } else { pick(rng, TIMES).into() }
        }
    });
    let (certificate, key) = if rarely(rng, 3) { (1, 1) } else { (25, 25) };
    maybe(rng, certificate, &mut status, "clientCertificateData", |rng| {
        (pick(rng, &["@CERT@", "@CERT@", "@CERT@", "@CERT@@CA@", "@CERT2@", "", "junk"])).into()
    });
    maybe(rng, key, &mut status, "clientKeyData", |rng| {
        (pick(rng, &["@KEY@", "@KEY@", "@KEY@", "@KEY@\n", "@KEY2@", "", "junk"])).into()
    });
    maybe(rng, 15, &mut status, "other", |rng| any(rng, 2));
    maybe(rng, 30, &mut status, "Token", |rng| any(rng, 1));
    maybe(rng, 30, &mut status, "token#2", |rng| text(rng).into());
    Value::Object(status)
}

/// Replaces names by certificates.
pub(crate) fn fill(value: &mut Value, pki: &TestPki) {
    match value {
        Value::String(text) if text.contains('@') => *text = pki.fill(text),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, pki)),
        Value::Object(members) => members.values_mut().for_each(|member| fill(member, pki)),
        _ => {}
    }
}
