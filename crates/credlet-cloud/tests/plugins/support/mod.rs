//! Test fixtures: a [`Sandbox`] that runs plugins, a [`ProviderSandbox`] that runs image credential providers, and
//! [`FakeEndpoint`]s.

mod fake_endpoint;
mod keys;
mod provider;
mod sts;
mod token;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::Secret;
use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus};
use credlet_cloud::{aks, aws, ci_token, eks, gke, oke};
use credlet_exec::{Clock, FixedEnv, ManualClock, Platform};
use credlet_oidc::UserOutput;
use credlet_plugin as plugin;
use credlet_testkit::logs::LeakCheck;
use tempfile::TempDir;

pub(crate) use self::fake_endpoint::{FakeEndpoint, FakeReply, SeenRequest};
pub(crate) use self::keys::{key, pem};
pub(crate) use self::provider::{ProviderRun, ProviderSandbox};
pub(crate) use self::sts::{assumed, sts_error};
pub(crate) use self::token::{granted, jwt, watched_jwt};

/// The time of the clock, which does not advance.
pub(crate) const NOW: &str = "2026-11-15T19:17:49Z";

/// A home directory, environment variables and a clock for plugin runs.
pub(crate) struct Sandbox {
    pub(crate) home: TempDir,
    pub(crate) vars: Vec<(String, String)>,
    pub(crate) clock: Arc<dyn Clock>,
    /// API version that the client requests.
    pub(crate) version: ApiVersion,
    /// Spec that the client passes.
    pub(crate) spec: ExecCredentialSpec,
    pub(crate) mfa_prompt: Arc<FakeMfaPrompt>,
    pub(crate) watch: LeakCheck,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_str().unwrap().to_owned();
        let sandbox = Self {
            home,
            vars: Vec::new(),
            clock: Arc::new(ManualClock::new(NOW.parse().unwrap())),
            version: ApiVersion::V1,
            spec: ExecCredentialSpec::default(),
            mfa_prompt: Arc::default(),
            watch: LeakCheck::new(),
        };
        // Tests must not reach the metadata server of the machine.
        sandbox.var("HOME", path).var("NO_GCE_CHECK", "true").var("AWS_EC2_METADATA_DISABLED", "true")
    }

    pub(crate) fn var(mut self, name: &str, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.vars.retain(|(known, _)| known != name);
        self.vars.push((name.into(), value.into()));
    }

    /// Sets AWS access keys in the environment; the leak check knows their secret.
    pub(crate) fn keys(mut self) -> Self {
        let secret = self.watch.secret("secret access key");
        self.set("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
        self.set("AWS_SECRET_ACCESS_KEY", secret.expose());
        self
    }

    /// Writes a file below the home directory.
    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes `~/.aws/config`.
    pub(crate) fn config(self, text: &str) -> Self {
        self.file(".aws/config", text);
        self
    }

    pub(crate) fn gke(&self, line: &str) -> PluginRun {
        self.run(line, gke::run)
    }

    pub(crate) fn aks(&self, line: &str) -> PluginRun {
        let output: Arc<dyn UserOutput> = Arc::new(DiscardedOutput);
        self.run(line, |args, platform, io| aks::run(args, platform, &output, io))
    }

    pub(crate) fn eks(&self, line: &str) -> PluginRun {
        self.run(line, |args, platform, io| eks::run(args, platform, Arc::clone(&self.mfa_prompt) as _, io))
    }

    pub(crate) fn oke(&self, line: &str) -> PluginRun {
        self.run(line, oke::run)
    }

    pub(crate) fn ci_token(&self, line: &str) -> PluginRun {
        self.run(line, ci_token::run)
    }

    pub(crate) fn platform(&self) -> Platform {
        let env = FixedEnv::new(self.vars.iter().map(|(name, value)| (name, value)));
        Platform { env: Arc::new(env), clock: Arc::clone(&self.clock), ..Platform::system() }
    }

    /// Runs a plugin with the arguments of `line`.
    fn run(
        &self,
        line: &str,
        plugin: impl Fn(Vec<OsString>, &Platform, plugin::PluginIo<'_>) -> ExitCode,
    ) -> PluginRun {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let io = plugin::PluginIo {
            exec_info: Some(self.spec.encode(self.version).into()),
            stdin: &mut io::empty(),
            stdout: &mut stdout,
            stderr: &mut stderr,
        };
        let code = plugin(args(line), &self.platform(), io);
        let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        self.watch.text(&stderr);
        PluginRun { code, stdout, stderr, version: self.version, spec: self.spec.clone() }
    }
}

fn args(line: &str) -> Vec<OsString> {
    ["credlet"].into_iter().chain(line.split_whitespace()).map(Into::into).collect()
}

/// The result of a plugin run.
#[derive(Debug)]
pub(crate) struct PluginRun {
    pub(crate) code: ExitCode,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    version: ApiVersion,
    spec: ExecCredentialSpec,
}

impl PluginRun {
    #[track_caller]
    pub(crate) fn status(&self) -> ExecCredentialStatus {
        assert_eq!((self.code, &*self.stderr), (ExitCode::SUCCESS, ""));
        ExecCredentialStatus::decode(self.stdout.as_bytes(), self.version, &self.spec).unwrap()
    }

    #[track_caller]
    pub(crate) fn token(&self) -> String {
        self.status().token.expose().to_owned()
    }

    #[track_caller]
    pub(crate) fn expires(&self) -> String {
        self.status().expiration_timestamp.map(|at| at.to_string()).unwrap_or_default()
    }

    /// The presigned URL of an EKS token.
    #[track_caller]
    pub(crate) fn url(&self) -> String {
        let token = self.token();
        let url = URL_SAFE_NO_PAD.decode(token.strip_prefix("k8s-aws-v1.").unwrap()).unwrap();
        String::from_utf8(url).unwrap()
    }

    /// The access key id that signed an EKS token.
    #[track_caller]
    pub(crate) fn access_key_id(&self) -> String {
        let url = self.url();
        let start = url.split_once("X-Amz-Credential=").unwrap().1;
        start.split('%').next().unwrap().to_owned()
    }

    /// Returns standard error of a failed run without output.
    #[track_caller]
    pub(crate) fn error(&self) -> &str {
        assert_eq!((self.code, &*self.stdout), (ExitCode::FAILURE, ""), "{}", self.stderr);
        &self.stderr
    }
}

/// Discards messages for the user.
#[derive(Debug)]
struct DiscardedOutput;

impl UserOutput for DiscardedOutput {
    fn print_line(&self, _: &str) {}
}

/// Returns the same MFA code each time, and records the prompts.
#[derive(Debug, Default)]
pub(crate) struct FakeMfaPrompt {
    pub(crate) code: Mutex<String>,
    pub(crate) prompts: Mutex<Vec<String>>,
}

impl aws::MfaPrompt for FakeMfaPrompt {
    fn read_code(&self, prompt: &str) -> io::Result<Secret> {
        self.prompts.lock().unwrap().push(prompt.to_owned());
        Ok(Secret::new(format!("{}\n", self.code.lock().unwrap())))
    }
}

/// The paths in a directory. A missing directory is empty.
pub(crate) fn files_in(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).map(|entries| entries.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default()
}
