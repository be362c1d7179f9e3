//! A home directory, an environment, a clock that stands still, and keys.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus};
use credlet_api::plugin;
use credlet_core::{Clock, FixedEnv, ManualClock, World};
use credlet_plugins::oidc::Talk;
use credlet_plugins::{aks, ci_token, gke, oke};
use credlet_testkit::logs::Watch;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use crate::peer::{Peer, Reply, Seen};

pub(crate) const NOW: &str = "2026-11-15T19:17:49Z";

/// Where a plugin is run.
pub(crate) struct Stage {
    pub(crate) home: TempDir,
    vars: Vec<(String, String)>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) asked: ApiVersion,
    pub(crate) watch: Watch,
    pub(crate) talk: Arc<Heard>,
}

/// What a person is told.
#[derive(Debug, Default)]
pub(crate) struct Heard(pub(crate) Mutex<Vec<String>>);

impl Talk for Heard {
    fn say(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_str().unwrap().to_owned();
        // No test may find a machine's own metadata server.
        let vars = [("HOME", path.as_str()), ("NO_GCE_CHECK", "true")];
        Self {
            home,
            vars: vars.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            clock: Arc::new(ManualClock::new(NOW.parse().unwrap())),
            asked: ApiVersion::V1,
            watch: Watch::new(),
            talk: Arc::default(),
        }
    }

    pub(crate) fn var(mut self, name: &str, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.vars.retain(|(known, _)| known != name);
        self.vars.push((name.into(), value.into()));
    }

    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn gke(&self, line: &str) -> Run {
        self.run(line, gke::run)
    }

    pub(crate) fn aks(&self, line: &str) -> Run {
        let talk: Arc<dyn Talk> = Arc::clone(&self.talk) as _;
        self.run(line, |args, world, io| aks::run(args, world, &talk, io))
    }

    pub(crate) fn oke(&self, line: &str) -> Run {
        self.run(line, oke::run)
    }

    pub(crate) fn ci_token(&self, line: &str) -> Run {
        self.run(line, ci_token::run)
    }

    pub(crate) fn world(&self) -> World {
        let env = FixedEnv::new(self.vars.iter().map(|(name, value)| (name, value)));
        World { env: Arc::new(env), clock: Arc::clone(&self.clock), ..World::system() }
    }

    fn run(&self, line: &str, plugin: impl Fn(Vec<std::ffi::OsString>, &World, plugin::World<'_>) -> ExitCode) -> Run {
        let asked = ExecCredentialSpec::default();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let io = plugin::World {
            exec_info: Some(asked.encode(self.asked).into()),
            stdin: &mut io::empty(),
            stdout: &mut stdout,
            stderr: &mut stderr,
        };
        let args = ["credlet"].into_iter().chain(line.split_whitespace()).map(Into::into).collect();
        let code = plugin(args, &self.world(), io);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let run = Run { code, stdout: text(stdout), stderr: text(stderr), version: self.asked };
        self.watch.text(&run.stderr);
        run
    }
}

/// What became of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: ExitCode,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    version: ApiVersion,
}

impl Run {
    #[track_caller]
    pub(crate) fn status(&self) -> ExecCredentialStatus {
        assert_eq!((self.code, &*self.stderr), (ExitCode::SUCCESS, ""));
        ExecCredentialStatus::decode(self.stdout.as_bytes(), self.version, &ExecCredentialSpec::default()).unwrap()
    }

    #[track_caller]
    pub(crate) fn token(&self) -> String {
        self.status().token.expose().to_owned()
    }

    #[track_caller]
    pub(crate) fn expires(&self) -> String {
        self.status().expiration_timestamp.map(|at| at.to_string()).unwrap_or_default()
    }

    /// What a person reads; standard output is empty then.
    #[track_caller]
    pub(crate) fn refusal(&self) -> &str {
        assert_eq!((self.code, &*self.stdout), (ExitCode::FAILURE, ""), "{}", self.stderr);
        &self.stderr
    }
}

/// What a token endpoint answers.
pub(crate) fn granted(token: &str) -> Reply {
    Reply::Answer(200, format!(r#"{{"access_token":"{token}","expires_in":3599,"token_type":"Bearer"}}"#))
}

/// An RSA key; making one takes a while, so all tests share it.
pub(crate) struct Key {
    pub(crate) pem: String,
    public: Vec<u8>,
    pkcs8: Vec<u8>,
}

pub(crate) fn key() -> &'static Key {
    static KEY: OnceLock<Key> = OnceLock::new();
    KEY.get_or_init(|| {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let pkcs8 = pair.as_der().unwrap().as_ref().to_vec();
        let public = pair.public_key().as_ref().to_vec();
        Key { pem: pem("PRIVATE KEY", &pkcs8), public, pkcs8 }
    })
}

pub(crate) fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

impl Key {
    /// A certificate of this key, signed by itself.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        let der = rcgen::KeyPair::try_from(self.pkcs8.as_slice()).unwrap();
        rcgen::CertificateParams::default().self_signed(&der).unwrap().der().to_vec()
    }

    /// Header and claims of a JWT, if it is signed with this key by the algorithm that it names.
    #[track_caller]
    pub(crate) fn verified(&self, jwt: &str) -> (Value, Value) {
        let (signed, signature) = jwt.rsplit_once('.').unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let part = |text: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
        let (header, claims) = (part(header), part(claims));
        let scheme = if header["alg"] == "PS256" { &RSA_PSS_2048_8192_SHA256 } else { &RSA_PKCS1_2048_8192_SHA256 };
        let public = UnparsedPublicKey::new(scheme, &self.public);
        public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        (header, claims)
    }

    /// Whether it has signed these bytes, in base64.
    pub(crate) fn has_signed(&self, bytes: &str, signature: &str) -> bool {
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public);
        public.verify(bytes.as_bytes(), &STANDARD.decode(signature).unwrap()).is_ok()
    }
}

/// A JWT that nobody has signed, with these claims.
pub(crate) fn jwt(claims: &str) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", part(r#"{"alg":"RS256"}"#), part(claims), part("hunter2"))
}

pub(crate) fn kept(home: &Path) -> usize {
    let entries = std::fs::read_dir(home.join(".cache/credlet/gcp")).map(|entries| entries.count());
    entries.unwrap_or_default()
}
