//! Runs image credential providers like a kubelet.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Cursor;
use std::ops::{Deref, DerefMut};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::image::{CredentialProviderRequest, ProviderApiVersion};
use credlet_exec::{ManualClock, Platform, SystemClock};
use credlet_plugin as plugin;
use serde_json::Value;

use super::{FakeEndpoint, FakeReply, NOW, Sandbox, args, watched_jwt};

/// The `run` function of a provider.
pub(crate) type ProviderMain = fn(Vec<OsString>, &Platform, plugin::PluginIo<'_>) -> ExitCode;

/// A [`Sandbox`] for one image credential provider, with the request of the kubelet.
pub(crate) struct ProviderSandbox {
    sandbox: Sandbox,
    main: ProviderMain,
    manual_clock: Arc<ManualClock>,
    pub(crate) api_version: ProviderApiVersion,
    pub(crate) token: Option<Secret>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Deref for ProviderSandbox {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl DerefMut for ProviderSandbox {
    fn deref_mut(&mut self) -> &mut Sandbox {
        &mut self.sandbox
    }
}

impl ProviderSandbox {
    pub(crate) fn new(main: ProviderMain) -> Self {
        let manual_clock = Arc::new(ManualClock::new(NOW.parse().unwrap()));
        // The tests of `gar` set the address of a fake metadata server.
        let mut sandbox = Sandbox::new().var("NO_GCE_CHECK", "");
        sandbox.clock = Arc::clone(&manual_clock) as _;
        Self {
            sandbox,
            main,
            manual_clock,
            api_version: ProviderApiVersion::V1,
            token: None,
            annotations: BTreeMap::new(),
        }
    }

    /// Adds a service account token, which the leak check knows, and annotations to the request.
    pub(crate) fn set_account<const N: usize>(&mut self, annotations: [(&str, &str); N]) -> Secret {
        let token = watched_jwt(&self.sandbox.watch, r#"{"sub":"system:serviceaccount:ns:pod"}"#);
        self.token = Some(Secret::new(token.expose()));
        self.annotations = annotations.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Secret::new(token.expose())
    }

    /// A secret that the leak check knows.
    pub(crate) fn secret(&self, what: &'static str) -> String {
        self.sandbox.watch.secret(what).expose().to_owned()
    }

    /// Starts an endpoint that never responds. The clock advances by a minute with each request.
    pub(crate) fn silent_endpoint(&self) -> FakeEndpoint {
        let clock = Arc::clone(&self.manual_clock);
        FakeEndpoint::start(move |_| {
            clock.advance(Duration::from_secs(60));
            FakeReply::Silence
        })
    }

    /// Switches to the system clock.
    pub(crate) fn use_system_clock(&mut self) {
        self.sandbox.clock = Arc::new(SystemClock::new());
    }

    /// Requests credentials for an image.
    pub(crate) fn run_for(&self, line: &str, image: &str) -> ProviderRun {
        let request = CredentialProviderRequest {
            version: self.api_version,
            image: image.to_owned(),
            service_account_token: self.token.clone(),
            service_account_annotations: self.annotations.clone(),
        };
        self.run_with_stdin(line, request.encode().as_bytes())
    }

    /// Runs the provider with arbitrary standard input.
    pub(crate) fn run_with_stdin(&self, line: &str, stdin: &[u8]) -> ProviderRun {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let io = plugin::PluginIo {
            exec_info: None,
            stdin: &mut Cursor::new(stdin),
            stdout: &mut stdout,
            stderr: &mut stderr,
        };
        let code = (self.main)(args(line), &self.sandbox.platform(), io);
        let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        self.sandbox.watch.text(&stderr);
        ProviderRun { code, stdout, stderr }
    }
}

/// The result of a provider run.
#[derive(Debug)]
pub(crate) struct ProviderRun {
    pub(crate) code: ExitCode,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ProviderRun {
    #[track_caller]
    pub(crate) fn response(&self) -> Value {
        assert_eq!((self.code, &*self.stderr), (ExitCode::SUCCESS, ""));
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// All credentials of the response, as `key user:password`.
    #[track_caller]
    pub(crate) fn auth(&self) -> Vec<String> {
        let response = self.response();
        let auth = response["auth"].as_object().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        auth.map(|(key, auth)| format!("{key} {}:{}", text(&auth["username"]), text(&auth["password"]))).collect()
    }

    #[track_caller]
    pub(crate) fn cache_duration(&self) -> String {
        self.response()["cacheDuration"].as_str().unwrap().to_owned()
    }

    /// Returns standard error of a failed run without output.
    #[track_caller]
    pub(crate) fn error(&self) -> &str {
        assert_eq!((self.code, &*self.stdout), (ExitCode::FAILURE, ""));
        &self.stderr
    }
}
