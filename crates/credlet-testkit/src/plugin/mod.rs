//! A scriptable credential plugin in a real process.
//!
//! [`TestPlugin::command`] is an executable path: a link to [`program`], with a script beside it. It needs neither arguments nor
//! environment, so a runner under test may remove both. The steps of a run are listed in order:
//!
//! ```
//! use credlet_testkit::plugin::TestPlugin;
//! use std::time::Duration;
//!
//! // The first run fails, all later runs print a credential.
//! let plugin = TestPlugin::failing(1, "the identity provider is down\n")
//!     .on_the_next_run()
//!     .answers("a token")
//!     .expiring_in(Duration::from_secs(60));
//! assert_eq!(plugin.runs(), 0);
//! ```
//!
//! A plugin that waits, hangs or floods exits within 100 ms after its [`TestPlugin`] is dropped.

mod perform;
mod program;
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

pub use perform::main;
pub use program::program;
pub use report::PluginReport;
pub use script::OutputStream;
pub use tunnel::TunnelProxy;

use script::{Answer, COUNT_LINE, Expiry, GRANDCHILD, Script, Step};

/// The variable with the script of [`program`]: JSON, or `@` and the path of a file.
pub const SCRIPT_VARIABLE: &str = "CREDLET_TESTKIT_PLUGIN";

/// A plugin on disk with its run count and reports. Dropping it removes them.
#[derive(Debug)]
pub struct TestPlugin {
    dir: TempDir,
    script: Script,
}

/// # Construction
/// Each method saves the script, so that a run that starts later sees it.
impl TestPlugin {
    /// Creates a plugin that exits at once with code 0 and no output. The methods below add steps.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("credlet-plugin-").tempdir().expect("a temporary directory");
        let script = Script { dir: dir.path().to_owned(), counted: true, earlier_runs: 0, runs: vec![Vec::new()] };
        let plugin = Self { dir, script };
        symlink(program(), plugin.command()).expect("a link to the program");
        plugin.saved()
    }

    /// Creates a plugin that prints this token.
    pub fn answering(token: impl Into<String>) -> Self {
        Self::new().answers(token)
    }

    /// Creates a plugin that prints to stderr and exits with this code.
    pub fn failing(code: i32, stderr: impl Into<String>) -> Self {
        Self::new().prints_to(OutputStream::Stderr, stderr).exits(code)
    }

    /// Ends the steps of this run. The following steps belong to the next run; the last list is used by all later runs.
    pub fn on_the_next_run(mut self) -> Self {
        self.script.runs.push(Vec::new());
        self.saved()
    }

    /// Replaces the script: the next run is the first one of `other`. Counts and paths stay.
    pub fn from_now_on(&mut self, other: TestPlugin) {
        self.script.runs = other.script.runs.clone();
        self.script.earlier_runs = self.runs();
        self.save();
    }
}

/// # Credentials
/// Steps that print an `ExecCredential`, and changes to the last one.
impl TestPlugin {
    /// Prints an `ExecCredential` with this token, in the requested version. `{password}` in the token is
    /// replaced by the last line that [`asks_for_a_password`](Self::asks_for_a_password) read.
    pub fn answers(self, token: impl Into<String>) -> Self {
        self.doing(Step::Answer(Answer { token: Some(token.into()), ..Answer::default() }))
    }

    /// Prints an `ExecCredential` with a client certificate and its key, and no token.
    pub fn answers_with_certificate(self, cert_pem: impl Into<String>, key_pem: impl Into<String>) -> Self {
        self.doing(Step::Answer(Answer::default())).certificate(cert_pem, key_pem)
    }

    /// Adds a client certificate and its key to the last credential.
    pub fn certificate(self, cert_pem: impl Into<String>, key_pem: impl Into<String>) -> Self {
        let (certificate, key) = (Some(cert_pem.into()), Some(key_pem.into()));
        self.changing(|answer| Answer { certificate, key, ..answer })
    }

    /// Prints an `ExecCredential` with this proxy URL and no token.
    pub fn answers_with_proxy(self, url: impl Into<String>) -> Self {
        let proxy = Some((url.into(), None));
        self.doing(Step::Answer(Answer { proxy, ..Answer::default() }))
    }

    /// Adds a CA for the proxy to the last credential.
    pub fn proxy_authority(self, pem: impl Into<String>) -> Self {
        let pem = Some(pem.into());
        self.changing(|answer| Answer { proxy: answer.proxy.map(|(url, _)| (url, pem)), ..answer })
    }

    /// Adds a token to the last credential.
    pub fn token(self, token: impl Into<String>) -> Self {
        let token = Some(token.into());
        self.changing(|answer| Answer { token, ..answer })
    }

    /// Sets the expiry of the last credential, relative to the run.
    pub fn expiring_in(self, lifetime: Duration) -> Self {
        let ms = i64::try_from(lifetime.as_millis()).expect("a lifetime of less than 292 million years");
        self.changing(|answer| Answer { expiry: Some(Expiry::In { ms }), ..answer })
    }

    /// Makes the last credential expired by this long when it is printed.
    pub fn expired_since(self, age: Duration) -> Self {
        let ms = -i64::try_from(age.as_millis()).expect("an age of less than 292 million years");
        self.changing(|answer| Answer { expiry: Some(Expiry::In { ms }), ..answer })
    }

    /// Sets the text of `expirationTimestamp` of the last credential.
    pub fn expiring_at(self, text: impl Into<String>) -> Self {
        let expiry = Some(Expiry::At(text.into()));
        self.changing(|answer| Answer { expiry, ..answer })
    }

    /// Sets the `apiVersion` of the last credential, whatever was requested.
    pub fn api_version(self, version: impl Into<String>) -> Self {
        let api_version = Some(version.into());
        self.changing(|answer| Answer { api_version, ..answer })
    }
}

/// # Other steps
/// They are performed in the order of the calls.
impl TestPlugin {
    /// Prints to stdout, without adding a newline.
    pub fn prints(self, text: impl Into<String>) -> Self {
        self.prints_to(OutputStream::Stdout, text)
    }

    /// Prints without adding a newline.
    pub fn prints_to(self, to: OutputStream, text: impl Into<String>) -> Self {
        self.doing(Step::Print { to, text: text.into() })
    }

    /// Prints this many bytes.
    pub fn floods(self, to: OutputStream, bytes: u64) -> Self {
        self.doing(Step::Flood { to, bytes: Some(bytes) })
    }

    /// Prints until the reader closes the pipe.
    pub fn floods_endlessly(self, to: OutputStream) -> Self {
        self.doing(Step::Flood { to, bytes: None })
    }

    /// Closes an output and continues; later output to it is lost.
    pub fn closes(self, stream: OutputStream) -> Self {
        self.doing(Step::Close { stream })
    }

    /// Sleeps before the next step.
    pub fn sleeps(self, time: Duration) -> Self {
        self.doing(Step::Sleep { ms: u64::try_from(time.as_millis()).expect("a short sleep") })
    }

    /// Hangs until it is killed.
    pub fn hangs(self) -> Self {
        self.doing(Step::Hang)
    }

    /// Waits until the test calls [`open`](Self::open); [`reached`](Self::reached) notifies the test that it waits. An open gate
    /// stays open for later runs.
    pub fn waits_at(self, gate: impl Into<String>) -> Self {
        self.doing(Step::WaitAt { gate: gate.into() })
    }

    /// Waits until a file exists at this path.
    pub fn waits_for_file(self, path: impl Into<PathBuf>) -> Self {
        self.doing(Step::WaitForFile { path: path.into() })
    }

    /// Exits with this code.
    pub fn exits(self, code: i32) -> Self {
        self.doing(Step::Exit { code })
    }

    /// Sends itself the signal of this number: 9 kills, 11 is a segmentation fault.
    pub fn dies_by(self, signal: i32) -> Self {
        self.doing(Step::Die { signal })
    }

    /// Starts a process in the same process group that holds these outputs open for a while, and continues.
    pub fn leaves_a_grandchild(self, keeping: &[OutputStream], lifetime: Duration) -> Self {
        let ms = u64::try_from(lifetime.as_millis()).expect("a short life");
        self.doing(Step::LeaveGrandchild { keeping: keeping.to_vec(), ms, new_session: false })
    }

    /// As [`leaves_a_grandchild`](Self::leaves_a_grandchild), but in a new session, where a signal to the plugin's
    /// process group does not reach it.
    pub fn leaves_a_daemon(self, keeping: &[OutputStream], lifetime: Duration) -> Self {
        let ms = u64::try_from(lifetime.as_millis()).expect("a short life");
        self.doing(Step::LeaveGrandchild { keeping: keeping.to_vec(), ms, new_session: true })
    }

    /// Becomes a proxy: listens on a socket in the background while the process lives.
    pub fn listens(self, tunnel: &TunnelProxy) -> Self {
        self.doing(Step::Listen(Box::new(tunnel.clone())))
    }

    /// Starts a proxy in a new session that outlives the plugin, and continues when the proxy listens.
    pub fn leaves_a_proxy(self, tunnel: &TunnelProxy) -> Self {
        self.doing(Step::LeaveListening(Box::new(tunnel.clone())))
    }

    /// Waits until it can lock the lock file of its client.
    pub fn waits_for_the_lock(self) -> Self {
        self.doing(Step::WaitForLock)
    }

    /// Records its arguments and environment for [`report`](Self::report), without reading stdin.
    pub fn reports(self) -> Self {
        self.doing(Step::Report { read_stdin: false })
    }

    /// Records its arguments, environment and all of stdin, which the caller must close.
    pub fn reports_with_stdin(self) -> Self {
        self.doing(Step::Report { read_stdin: true })
    }

    /// Prompts on stderr and reads a line from the terminal on stdin with echo off.
    pub fn asks_for_a_password(self, prompt: impl Into<String>) -> Self {
        self.doing(Step::AskPassword { prompt: prompt.into() })
    }

    /// Ignores SIGTERM from here on.
    pub fn ignores_termination(self) -> Self {
        self.doing(Step::IgnoreTermination)
    }
}

/// # Running
/// How a client under test finds and starts the plugin.
impl TestPlugin {
    /// The program to run.
    pub fn command(&self) -> PathBuf {
        self.dir.path().join("plugin")
    }

    /// The arguments to run it with: none.
    pub fn args(&self) -> Vec<String> {
        Vec::new()
    }

    /// The environment in which [`program`] becomes this plugin. [`command`](Self::command) does not need it.
    pub fn env(&self) -> Vec<(String, String)> {
        vec![(SCRIPT_VARIABLE.to_owned(), format!("@{}", self.script_file().display()))]
    }

    /// Installs the plugin in a directory under a name, for look-ups by `PATH` and relative paths. Returns its path.
    pub fn install(&self, dir: &Path, name: &str) -> PathBuf {
        let link = dir.join(name);
        symlink(program(), &link).expect("a link to the program");
        symlink(self.script_file(), Script::beside(&link)).expect("a link to the script");
        link
    }

    /// The plugin's directory, removed with it. Tests may put other files there.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// # Observation
/// What the runs so far did.
impl TestPlugin {
    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.pids().len()
    }

    /// Returns the process id of each run.
    pub fn pids(&self) -> Vec<u32> {
        let lines = fs::read(Script::count_file(self.dir.path())).unwrap_or_default();
        let pid = |line: &[u8]| std::str::from_utf8(line).ok()?.trim().parse().ok();
        lines.chunks_exact(COUNT_LINE).map(|line| pid(line).expect("a line of the count file")).collect()
    }

    /// Waits for this number of runs. Needs a tokio runtime; the caller sets a timeout.
    pub async fn has_run(&self, times: usize) {
        let file = Script::count_file(self.dir.path());
        until(move || fs::metadata(&file).is_ok_and(|file| file.len() >= (times * COUNT_LINE) as u64)).await;
    }

    /// Waits until a run waits at this gate. Needs a tokio runtime; the caller sets a timeout.
    pub async fn reached(&self, gate: &str) {
        let file = Script::gate_reached(self.dir.path(), gate);
        until(move || file.exists()).await;
    }

    /// Opens this gate for every run.
    pub fn open(&self, gate: &str) {
        fs::write(Script::gate_open(self.dir.path(), gate), "").expect("a file in the plugin's directory");
    }

    /// Returns the report of the last run that wrote one.
    pub fn report(&self) -> PluginReport {
        let last = (1..=self.runs()).rev().find(|&run| Script::report_file(self.dir.path(), run).exists());
        self.report_of(last.expect("a run that reported"))
    }

    /// Returns the report of this run, counted from 1.
    pub fn report_of(&self, run: usize) -> PluginReport {
        let text = fs::read(Script::report_file(self.dir.path(), run)).expect("a report of this run");
        serde_json::from_slice(&text).expect("a report as the plugin writes it")
    }

    /// Returns the processes that it started, running or not.
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

    /// Replaced by rename: a concurrent run reads the old script or the new one.
    fn save(&self) {
        let draft = self.dir.path().join("script.draft");
        fs::write(&draft, serde_json::to_vec(&self.script).expect("plain data")).expect("a file for the script");
        fs::rename(draft, self.script_file()).expect("a place for the script");
    }
}

impl Default for TestPlugin {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns whether this process is running. A zombie is not.
pub fn is_running(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name in brackets may contain brackets and spaces; the state follows the last bracket.
        Ok(stat) => !matches!(stat.rsplit(") ").next().and_then(|rest| rest.chars().next()), Some('Z' | 'X')),
        Err(_) if Path::new("/proc/self/stat").exists() => false,
        // Without `/proc`, as on macOS. Prints nothing for a process that does not exist.
        Err(_) => {
            let listed = std::process::Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output();
            let state = listed.expect("ps to run").stdout;
            state.trim_ascii().first().is_some_and(|state| *state != b'Z')
        }
    }
}

/// Waits until this process is not running, for a minute at most. A killed process exits a moment later.
pub fn wait_for_end(pid: u32) {
    for _ in 0..60_000 {
        if !is_running(pid) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("process {pid} goes on");
}

/// Polls on a separate thread, so that it neither blocks the runtime that runs the plugin nor advances a paused tokio clock.
async fn until(come_true: impl Fn() -> bool + Send + 'static) {
    tokio::task::spawn_blocking(move || {
        // Bounded, because a runtime waits for this thread when the caller was cancelled.
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
