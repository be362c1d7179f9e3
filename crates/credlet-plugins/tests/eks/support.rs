//! A home directory, an environment, and what AWS answers.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::Secret;
use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus};
use credlet_api::plugin;
use credlet_core::{Clock, FixedEnv, ManualClock, World};
use credlet_plugins::aws::Person;
use credlet_plugins::eks;
use credlet_testkit::logs::Watch;
use tempfile::TempDir;

pub(crate) use crate::peer::{Peer, Reply};

pub(crate) const NOW: &str = "2026-11-15T19:17:49Z";

/// Where the plugin is run. The clock stands still unless the test has another.
pub(crate) struct Stage {
    pub(crate) home: TempDir,
    pub(crate) vars: Vec<(String, String)>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) asked: ExecCredentialSpec,
    pub(crate) person: Arc<Typist>,
    pub(crate) watch: Watch,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let stage = Self {
            home: tempfile::tempdir().unwrap(),
            vars: Vec::new(),
            clock: Arc::new(ManualClock::new(NOW.parse().unwrap())),
            asked: ExecCredentialSpec::default(),
            person: Arc::default(),
            watch: Watch::new(),
        };
        let home = stage.home.path().to_str().unwrap().to_owned();
        // No test may find a machine's own metadata service.
        stage.var("HOME", home).var("AWS_EC2_METADATA_DISABLED", "true")
    }

    pub(crate) fn var(mut self, name: &str, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.vars.retain(|(known, _)| known != name);
        self.vars.push((name.into(), value.into()));
    }

    /// With keys in the environment; their secret is watched.
    pub(crate) fn keys(mut self) -> Self {
        let secret = self.watch.secret("secret access key");
        self.set("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
        self.set("AWS_SECRET_ACCESS_KEY", secret.expose());
        self
    }

    pub(crate) fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn config(self, text: &str) -> Self {
        self.file(".aws/config", text);
        self
    }

    /// Runs `credlet-eks` with these words.
    pub(crate) fn run(&self, line: &str) -> Run {
        let env = FixedEnv::new(self.vars.iter().map(|(name, value)| (name, value)));
        let world = World { env: Arc::new(env), clock: Arc::clone(&self.clock), ..World::system() };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let io = plugin::World {
            exec_info: Some(self.asked.encode(ApiVersion::V1).into()),
            stdin: &mut io::empty(),
            stdout: &mut stdout,
            stderr: &mut stderr,
        };
        let args = ["credlet-eks"].into_iter().chain(line.split_whitespace()).map(Into::into).collect();
        let person: Arc<Typist> = Arc::clone(&self.person);
        let code = eks::run(args, &world, person, io);
        let run = Run { code, stdout: text(stdout), stderr: text(stderr), asked: self.asked.clone() };
        self.watch.text(&run.stderr);
        run
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// What became of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: ExitCode,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    asked: ExecCredentialSpec,
}

impl Run {
    #[track_caller]
    pub(crate) fn status(&self) -> ExecCredentialStatus {
        assert_eq!((self.code, &*self.stderr), (ExitCode::SUCCESS, ""));
        ExecCredentialStatus::decode(self.stdout.as_bytes(), ApiVersion::V1, &self.asked).unwrap()
    }

    /// The URL in the token.
    #[track_caller]
    pub(crate) fn url(&self) -> String {
        let status = self.status();
        let token = status.token.expose().strip_prefix("k8s-aws-v1.").unwrap().to_owned();
        text(URL_SAFE_NO_PAD.decode(token).unwrap())
    }

    /// The access key it was signed with.
    #[track_caller]
    pub(crate) fn signer(&self) -> String {
        let url = self.url();
        let start = url.split_once("X-Amz-Credential=").unwrap().1;
        start.split('%').next().unwrap().to_owned()
    }

    /// What a person reads; standard output is empty then.
    #[track_caller]
    pub(crate) fn refusal(&self) -> &str {
        assert_eq!((self.code, &*self.stdout), (ExitCode::FAILURE, ""));
        &self.stderr
    }
}

/// Types the same code each time, and counts.
#[derive(Debug, Default)]
pub(crate) struct Typist {
    pub(crate) types: Mutex<String>,
    pub(crate) questions: Mutex<Vec<String>>,
}

impl Person for Typist {
    fn ask(&self, question: &str) -> io::Result<Secret> {
        self.questions.lock().unwrap().push(question.to_owned());
        Ok(Secret::new(format!("{}\n", self.types.lock().unwrap())))
    }
}

/// What STS answers to one who may assume a role.
pub(crate) fn assumed(id: &str, secret: &str, token: &str, expires: &str) -> Reply {
    Reply::Answer(
        200,
        format!(
            "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult><AssumedRoleUser>\
         <Arn>arn:aws:sts::1:assumed-role/x/y</Arn></AssumedRoleUser><Credentials><AccessKeyId>{id}</AccessKeyId>\
         <SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken>\
         <Expiration>{expires}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
        ),
    )
}

/// What STS answers to one who may not.
pub(crate) fn refused(code: &str, message: &str) -> Reply {
    Reply::Answer(
        403,
        format!(
            "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
        ),
    )
}

pub(crate) fn files_in(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).map(|entries| entries.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default()
}
