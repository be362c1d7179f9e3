//! A credential plugin that does as it is told, in a real process.
//!
//! [`Plugin::command`] is a path that can be run: a link to the test binary, with a script beside it. It needs neither
//! arguments nor environment, so a runner under test may take both away. The steps of a run are given in order:
//!
//! ```
//! use credlet_testkit::plugin::Plugin;
//! use std::time::Duration;
//!
//! // The first run fails, all later ones answer.
//! let plugin = Plugin::failing(1, "the identity provider is down\n")
//!     .on_the_next_run()
//!     .answers("a token")
//!     .expiring_in(Duration::from_secs(60));
//! assert_eq!(plugin.runs(), 0);
//! ```
//!
//! A plugin that waits, hangs or floods ends when its [`Plugin`] is dropped, at the latest a tenth of a second after.

mod perform;
mod report;
mod script;
#[cfg(test)]
mod tests;
mod tunnel;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

pub(crate) use perform::perform_if_asked;
pub use report::Report;
pub use script::Stream;
pub use tunnel::Tunnel;

use script::{Answer, COUNT_LINE, Expiry, GRANDCHILD, Script, Step};

/// The variable that makes any binary with this crate in it a plugin: a script in JSON, or `@` and the path of one.
pub const SCRIPT_VARIABLE: &str = "CREDLET_TESTKIT_PLUGIN";

/// A plugin on disk, with its counts and reports. Dropping it removes both.
#[derive(Debug)]
pub struct Plugin {
    dir: TempDir,
    script: Script,
}

/// # Making one
impl Plugin {
    /// A plugin that ends at once, successfully and without a word. What it does is added by the methods below.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("credlet-plugin-").tempdir().expect("a temporary directory");
        let script = Script { dir: dir.path().to_owned(), counted: true, earlier_runs: 0, runs: vec![Vec::new()] };
        let plugin = Self { dir, script };
        symlink(this_binary(), plugin.command()).expect("a link to the test binary");
        plugin.saved()
    }

    /// A plugin that answers with this token.
    pub fn answering(token: impl Into<String>) -> Self {
        Self::new().answers(token)
    }

    /// A plugin that says something on stderr and exits with this code.
    pub fn failing(code: i32, stderr: impl Into<String>) -> Self {
        Self::new().prints_to(Stream::Stderr, stderr).exits(code)
    }

    /// Ends the list of steps for this run; what follows is done by the next run and, if it is the last list, by all
    /// later ones.
    pub fn on_the_next_run(mut self) -> Self {
        self.script.runs.push(Vec::new());
        self.saved()
    }

    /// Replaces all that was planned: the next run is the first one of `other`. Counts and paths stay.
    pub fn from_now_on(&mut self, other: Plugin) {
        self.script.runs = other.script.runs.clone();
        self.script.earlier_runs = self.runs();
        self.save();
    }
}

/// # What it answers
impl Plugin {
    /// Prints an `ExecCredential` with this token, in the version that was asked for. `{password}` in the token stands
    /// for the last line that [`asks_for_a_password`](Self::asks_for_a_password) read.
    pub fn answers(self, token: impl Into<String>) -> Self {
        self.doing(Step::Answer(Answer { token: Some(token.into()), ..Answer::default() }))
    }

    /// Prints an `ExecCredential` with a client certificate and its key, and no token.
    pub fn answers_with_certificate(self, cert_pem: impl Into<String>, key_pem: impl Into<String>) -> Self {
        self.doing(Step::Answer(Answer::default())).certificate(cert_pem, key_pem)
    }

    /// Puts a client certificate and its key into the last answer.
    pub fn certificate(self, cert_pem: impl Into<String>, key_pem: impl Into<String>) -> Self {
        let (certificate, key) = (Some(cert_pem.into()), Some(key_pem.into()));
        self.changing(|answer| Answer { certificate, key, ..answer })
    }

    /// Prints an `ExecCredential` that sends requests to this URL instead, and no token.
    pub fn answers_with_proxy(self, url: impl Into<String>) -> Self {
        let proxy = Some((url.into(), None));
        self.doing(Step::Answer(Answer { proxy, ..Answer::default() }))
    }

    /// Puts a certificate authority for the proxy into the last answer.
    pub fn proxy_authority(self, pem: impl Into<String>) -> Self {
        let pem = Some(pem.into());
        self.changing(|answer| Answer { proxy: answer.proxy.map(|(url, _)| (url, pem)), ..answer })
    }

    /// Puts a token into the last answer.
    pub fn token(self, token: impl Into<String>) -> Self {
        let token = Some(token.into());
        self.changing(|answer| Answer { token, ..answer })
    }

    /// Lets the last answer expire this long after the plugin printed it.
    pub fn expiring_in(self, lifetime: Duration) -> Self {
        let ms = i64::try_from(lifetime.as_millis()).expect("a lifetime of less than 292 million years");
        self.changing(|answer| Answer { expiry: Some(Expiry::In { ms }), ..answer })
    }

    /// Lets the last answer be expired for this long already when the plugin prints it.
    pub fn expired_since(self, age: Duration) -> Self {
        let ms = -i64::try_from(age.as_millis()).expect("an age of less than 292 million years");
        self.changing(|answer| Answer { expiry: Some(Expiry::In { ms }), ..answer })
    }

    /// Puts this text into the last answer as `expirationTimestamp`, whatever it means.
    pub fn expiring_at(self, text: impl Into<String>) -> Self {
        let expiry = Some(Expiry::At(text.into()));
        self.changing(|answer| Answer { expiry, ..answer })
    }

    /// Gives the last answer this `apiVersion`, whatever was asked for.
    pub fn api_version(self, version: impl Into<String>) -> Self {
        let api_version = Some(version.into());
        self.changing(|answer| Answer { api_version, ..answer })
    }
}

/// # What else it does
impl Plugin {
    /// Prints to stdout, without a newline of its own.
    pub fn prints(self, text: impl Into<String>) -> Self {
        self.prints_to(Stream::Stdout, text)
    }

    /// Prints without a newline of its own.
    pub fn prints_to(self, to: Stream, text: impl Into<String>) -> Self {
        self.doing(Step::Print { to, text: text.into() })
    }

    /// Prints this many bytes.
    pub fn floods(self, to: Stream, bytes: u64) -> Self {
        self.doing(Step::Flood { to, bytes: Some(bytes) })
    }

    /// Prints until nobody reads any more.
    pub fn floods_endlessly(self, to: Stream) -> Self {
        self.doing(Step::Flood { to, bytes: None })
    }

    /// Closes an output and goes on; what is printed to it later is lost.
    pub fn closes(self, stream: Stream) -> Self {
        self.doing(Step::Close { stream })
    }

    /// Does nothing for a while.
    pub fn sleeps(self, time: Duration) -> Self {
        self.doing(Step::Sleep { ms: u64::try_from(time.as_millis()).expect("a short sleep") })
    }

    /// Never ends by itself.
    pub fn hangs(self) -> Self {
        self.doing(Step::Hang)
    }

    /// Stops until the test calls [`open`](Self::open); [`reached`](Self::reached) tells the test when that is so.
    /// A gate that is open stays open, for later runs too.
    pub fn waits_at(self, gate: impl Into<String>) -> Self {
        self.doing(Step::WaitAt { gate: gate.into() })
    }

    /// Stops until there is a file at this path.
    pub fn waits_for_file(self, path: impl Into<PathBuf>) -> Self {
        self.doing(Step::WaitForFile { path: path.into() })
    }

    /// Ends with this code.
    pub fn exits(self, code: i32) -> Self {
        self.doing(Step::Exit { code })
    }

    /// Sends itself the signal of this number: 9 kills, 11 is a segmentation fault.
    pub fn dies_by(self, signal: i32) -> Self {
        self.doing(Step::Die { signal })
    }

    /// Starts a process that holds these outputs open for a while, and goes on. It is in the same process group.
    pub fn leaves_a_grandchild(self, keeping: &[Stream], lifetime: Duration) -> Self {
        let ms = u64::try_from(lifetime.as_millis()).expect("a short life");
        self.doing(Step::LeaveGrandchild { keeping: keeping.to_vec(), ms, new_session: false })
    }

    /// As [`leaves_a_grandchild`](Self::leaves_a_grandchild), but in a session of its own, where a signal to the
    /// plugin's process group does not reach it.
    pub fn leaves_a_daemon(self, keeping: &[Stream], lifetime: Duration) -> Self {
        let ms = u64::try_from(lifetime.as_millis()).expect("a short life");
        self.doing(Step::LeaveGrandchild { keeping: keeping.to_vec(), ms, new_session: true })
    }

    /// Listens at a socket from here on, in the background and as long as it lives: it is a proxy itself.
    pub fn listens(self, tunnel: &Tunnel) -> Self {
        self.doing(Step::Listen(Box::new(tunnel.clone())))
    }

    /// Starts a proxy in a session of its own that goes on without it, and goes on itself when that listens.
    pub fn leaves_a_proxy(self, tunnel: &Tunnel) -> Self {
        self.doing(Step::LeaveListening(Box::new(tunnel.clone())))
    }

    /// Waits until it can lock the file that its client keeps locked.
    pub fn waits_for_the_lock(self) -> Self {
        self.doing(Step::WaitForLock)
    }

    /// Writes down what it was given, for [`report`](Self::report). Leaves stdin alone.
    pub fn reports(self) -> Self {
        self.doing(Step::Report { read_stdin: false })
    }

    /// Writes down what it was given and all of stdin, for which somebody must close it.
    pub fn reports_with_stdin(self) -> Self {
        self.doing(Step::Report { read_stdin: true })
    }

    /// Switches the echo of the terminal on stdin off, prompts on stderr, reads a line and switches the echo on again.
    pub fn asks_for_a_password(self, prompt: impl Into<String>) -> Self {
        self.doing(Step::AskPassword { prompt: prompt.into() })
    }

    /// From here on SIGTERM has no effect.
    pub fn ignores_termination(self) -> Self {
        self.doing(Step::IgnoreTermination)
    }
}

/// # Starting it
impl Plugin {
    /// The program to run. Nothing else is needed.
    pub fn command(&self) -> PathBuf {
        self.dir.path().join("plugin")
    }

    /// Arguments to run it with: none.
    pub fn args(&self) -> Vec<String> {
        Vec::new()
    }

    /// An environment in which every binary that has this crate in it becomes this plugin. [`command`](Self::command)
    /// does not need it.
    pub fn env(&self) -> Vec<(String, String)> {
        vec![(SCRIPT_VARIABLE.to_owned(), format!("@{}", self.script_file().display()))]
    }

    /// Puts the plugin into a directory under a name, for look-ups by `PATH` and relative paths; gives the path of it.
    pub fn install(&self, dir: &Path, name: &str) -> PathBuf {
        let program = dir.join(name);
        symlink(this_binary(), &program).expect("a link to the test binary");
        symlink(self.script_file(), Script::beside(&program)).expect("a link to the script");
        program
    }

    /// A directory of its own, removed with the plugin; a place for a test's other files too.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// # What became of it
impl Plugin {
    /// How often it was started.
    pub fn runs(&self) -> usize {
        self.pids().len()
    }

    /// The process of each run.
    pub fn pids(&self) -> Vec<u32> {
        let lines = fs::read(Script::count_file(self.dir.path())).unwrap_or_default();
        let pid = |line: &[u8]| std::str::from_utf8(line).ok()?.trim().parse().ok();
        lines.chunks_exact(COUNT_LINE).map(|line| pid(line).expect("a line of the count file")).collect()
    }

    /// Returns when it has been started this often. Needs a tokio runtime; a limit is up to the caller.
    pub async fn has_run(&self, times: usize) {
        let file = Script::count_file(self.dir.path());
        until(move || fs::metadata(&file).is_ok_and(|file| file.len() >= (times * COUNT_LINE) as u64)).await;
    }

    /// Returns when a run stands before this gate. Needs a tokio runtime; a limit is up to the caller.
    pub async fn reached(&self, gate: &str) {
        let file = Script::gate_reached(self.dir.path(), gate);
        until(move || file.exists()).await;
    }

    /// Lets every run pass this gate.
    pub fn open(&self, gate: &str) {
        fs::write(Script::gate_open(self.dir.path(), gate), "").expect("a file in the plugin's directory");
    }

    /// What the last run that reported was given.
    pub fn report(&self) -> Report {
        let last = (1..=self.runs()).rev().find(|&run| Script::report_file(self.dir.path(), run).exists());
        self.report_of(last.expect("a run that reported"))
    }

    /// What this run was given; the first is 1.
    pub fn report_of(&self, run: usize) -> Report {
        let text = fs::read(Script::report_file(self.dir.path(), run)).expect("a report of this run");
        serde_json::from_slice(&text).expect("a report as the plugin writes it")
    }

    /// The processes it left behind, running or not.
    pub fn grandchildren(&self) -> Vec<u32> {
        let names = fs::read_dir(self.dir.path()).expect("the plugin's directory");
        names.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(GRANDCHILD)?.parse().ok()).collect()
    }

    fn script_file(&self) -> PathBuf {
        Script::beside(&self.command())
    }

    fn doing(mut self, step: Step) -> Self {
        self.steps().push(step);
        self.saved()
    }

    fn changing(mut self, change: impl FnOnce(Answer) -> Answer) -> Self {
        let last = self.steps().iter_mut().rev().find_map(|step| match step {
            Step::Answer(answer) => Some(answer),
            _ => None,
        });
        let last = last.expect("an answer in this run before its details");
        *last = change(std::mem::take(last));
        self.saved()
    }

    fn steps(&mut self) -> &mut Vec<Step> {
        self.script.runs.last_mut().expect("at least one run")
    }

    fn saved(self) -> Self {
        self.save();
        self
    }

    /// Renamed into place: a run that starts now reads the old script or the new one.
    fn save(&self) {
        let draft = self.dir.path().join("script.draft");
        fs::write(&draft, serde_json::to_vec(&self.script).expect("plain data")).expect("a file for the script");
        fs::rename(draft, self.script_file()).expect("a place for the script");
    }
}

impl Default for Plugin {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether there is a process of this number that has not ended. One that has, but was not waited for, has ended.
pub fn is_running(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name in brackets may itself hold brackets and blanks; the state follows the last one.
        Ok(stat) => !matches!(stat.rsplit(") ").next().and_then(|rest| rest.chars().next()), Some('Z' | 'X')),
        Err(_) if Path::new("/proc/self/stat").exists() => false,
        Err(_) => {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a process number");
            rustix::process::test_kill_process(pid).is_ok()
        }
    }
}

/// Returns when there is no process of this number that runs: one that is killed is gone a moment later. A minute is the
/// limit.
pub fn wait_for_end(pid: u32) {
    for _ in 0..60_000 {
        if !is_running(pid) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("process {pid} goes on");
}

fn this_binary() -> PathBuf {
    std::env::current_exe().expect("the path of the test binary")
}

/// On a thread of its own: it must not hold up the runtime that runs the plugin, and a paused tokio clock must not jump.
async fn until(come_true: impl Fn() -> bool + Send + 'static) {
    tokio::task::spawn_blocking(move || {
        // Not for ever: a runtime waits for this thread when the caller has given up.
        for _ in 0..60_000 {
            if come_true() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("waited a minute in vain");
    })
    .await
    .expect("the plugin to get there");
}
