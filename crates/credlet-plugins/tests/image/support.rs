//! A kubelet that asks, in an environment of the test's making.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::image::{ApiVersion, CredentialProviderRequest};
use credlet_api::plugin;
use credlet_core::{Clock, FixedEnv, ManualClock, SystemClock, World};
use credlet_testkit::logs::Watch;
use serde_json::Value;
use tempfile::TempDir;

use crate::peer::{Peer, Reply};

pub(crate) const NOW: &str = "2026-11-15T19:17:49Z";

/// One of the providers.
pub(crate) type Provider = fn(Vec<OsString>, &World, plugin::World<'_>) -> ExitCode;

/// Where a provider is run. The clock stands still unless the test has another.
pub(crate) struct Stage {
    provider: Provider,
    pub(crate) home: TempDir,
    vars: Vec<(String, String)>,
    clock: Arc<dyn Clock>,
    manual: Arc<ManualClock>,
    pub(crate) version: ApiVersion,
    pub(crate) token: Option<Secret>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) watch: Watch,
}

impl Stage {
    pub(crate) fn new(provider: Provider) -> Self {
        let home = tempfile::tempdir().unwrap();
        let vars = vec![("HOME".to_owned(), home.path().to_str().unwrap().to_owned())];
        let manual = Arc::new(ManualClock::new(NOW.parse().unwrap()));
        Self {
            provider,
            home,
            vars,
            clock: Arc::clone(&manual) as _,
            manual,
            version: ApiVersion::V1,
            token: None,
            annotations: BTreeMap::new(),
            watch: Watch::new(),
        }
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.vars.retain(|(known, _)| known != name);
        self.vars.push((name.into(), value.into()));
    }

    /// The request has a token of a service account, which is watched.
    pub(crate) fn account<const N: usize>(&mut self, annotations: [(&str, &str); N]) -> Secret {
        let token = self.watch.secret("service account token");
        self.token = Some(Secret::new(token.expose()));
        self.annotations = annotations.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Secret::new(token.expose())
    }

    /// A secret of a peer, which is watched.
    pub(crate) fn secret(&self, what: &'static str) -> String {
        self.watch.secret(what).expose().to_owned()
    }

    /// A peer that says nothing. A minute goes by as soon as it was asked.
    pub(crate) fn silent_peer(&self) -> Peer {
        let clock = Arc::clone(&self.manual);
        Peer::start(move |_| {
            clock.advance(Duration::from_secs(60));
            Reply::Silence
        })
    }

    /// From now on time passes.
    pub(crate) fn real_time(&mut self) {
        self.clock = Arc::new(SystemClock::new());
    }

    pub(crate) fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A kubelet asks for credentials of an image.
    pub(crate) fn ask(&self, line: &str, image: &str) -> Run {
        let request = CredentialProviderRequest {
            version: self.version,
            image: image.to_owned(),
            service_account_token: self.token.clone(),
            service_account_annotations: self.annotations.clone(),
        };
        self.ask_with(line, request.encode().as_bytes())
    }

    /// Somebody writes something to the provider's standard input.
    pub(crate) fn ask_with(&self, line: &str, stdin: &[u8]) -> Run {
        let env = FixedEnv::new(self.vars.iter().map(|(name, value)| (name, value)));
        let world = World { env: Arc::new(env), clock: Arc::clone(&self.clock), ..World::system() };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let io =
            plugin::World { exec_info: None, stdin: &mut Cursor::new(stdin), stdout: &mut stdout, stderr: &mut stderr };
        let args = ["credlet"].into_iter().chain(line.split_whitespace()).map(Into::into).collect();
        let code = (self.provider)(args, &world, io);
        let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        self.watch.text(&stderr);
        Run { code, stdout, stderr }
    }
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: ExitCode,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    #[track_caller]
    pub(crate) fn answer(&self) -> Value {
        assert_eq!((self.code, &*self.stderr), (ExitCode::SUCCESS, ""));
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// All credentials in the answer, as `key user:password`.
    #[track_caller]
    pub(crate) fn auth(&self) -> Vec<String> {
        let answer = self.answer();
        let auth = answer["auth"].as_object().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        auth.map(|(key, auth)| format!("{key} {}:{}", text(&auth["username"]), text(&auth["password"]))).collect()
    }

    #[track_caller]
    pub(crate) fn remembered(&self) -> String {
        self.answer()["cacheDuration"].as_str().unwrap().to_owned()
    }

    /// What a person reads; standard output is empty then.
    #[track_caller]
    pub(crate) fn refusal(&self) -> &str {
        assert_eq!((self.code, &*self.stdout), (ExitCode::FAILURE, ""));
        &self.stderr
    }
}
