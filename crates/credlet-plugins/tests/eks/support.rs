//! A home directory, an environment, and a peer on loopback that plays AWS.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
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

/// A request as the peer saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// A field of the form, as it was sent.
    pub(crate) fn field(&self, name: &str) -> &str {
        let pairs = self.body.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value).unwrap_or_default()
    }
}

pub(crate) enum Reply {
    Answer(u16, String),
    With(u16, &'static str, String, String),
    /// As many bytes as anybody will take.
    Flood,
    /// Nothing, for as long as the other side waits.
    Silence,
}

/// An HTTP server on loopback with a thread for each connection.
pub(crate) struct Peer {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Peer {
    pub(crate) fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (answer, record) = (Arc::new(answer), Arc::clone(&seen));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, record) = (Arc::clone(&answer), Arc::clone(&record));
                std::thread::spawn(move || serve(stream, &*answer, &record));
            }
        });
        Self { url, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// One request a connection: whoever asks here asks once.
fn serve(mut stream: TcpStream, answer: &dyn Fn(&Seen) -> Reply, record: &Mutex<Vec<Seen>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or_default() == 0 {
        return;
    }
    let mut words = line.split_whitespace();
    let mut seen = Seen {
        method: words.next().unwrap_or_default().to_owned(),
        path: words.next().unwrap_or_default().to_owned(),
        ..Seen::default()
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        seen.headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut body = vec![0; seen.header("content-length").parse().unwrap_or_default()];
    reader.read_exact(&mut body).unwrap();
    seen.body = text(body);
    record.lock().unwrap().push(seen.clone());
    match answer(&seen) {
        Reply::Answer(status, body) => send(&mut stream, status, "", "", &body),
        Reply::With(status, name, value, body) => send(&mut stream, status, name, &value, &body),
        Reply::Flood => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 52428800\r\n\r\n");
            let block = [b'x'; 1 << 16];
            while stream.write_all(&block).is_ok() {}
        }
        // Until the other side has gone.
        Reply::Silence => drop(reader.read(&mut [0])),
    }
}

fn send(stream: &mut TcpStream, status: u16, name: &str, value: &str, body: &str) {
    let extra = if name.is_empty() { String::new() } else { format!("{name}: {value}\r\n") };
    let head = format!("HTTP/1.1 {status} X\r\n{extra}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // A client may be gone by then, which is for the test to judge.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
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
