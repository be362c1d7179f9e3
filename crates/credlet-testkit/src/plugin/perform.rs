//! The plugin process: executes a script.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use rustix::process::{Signal, getpid};
use rustix::termios::{self, LocalModes, OptionalActions};
use signal_hook::low_level::emulate_default_handler;

use super::SCRIPT_VARIABLE;
use super::report::PluginReport;
use super::script::{Answer, COUNT_LINE, Expiry, OutputStream, Script, Step};
use crate::pty;

/// Exit code of a plugin that could not execute its script. Tests do not use it otherwise.
const BROKEN: i32 = 97;

/// The `main` of the program that tests start as a plugin and as the first process in a terminal.
pub fn main() -> ! {
    // First, because the program to run in the terminal may be a plugin.
    pty::enter_if_asked();
    let code = match script_of_this_process().and_then(Performance::new).and_then(Performance::run) {
        Ok(code) => code,
        // The reader closed the pipe. std ignores SIGPIPE, which ends most programs in this case.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            let _ = emulate_default_handler(Signal::PIPE.as_raw());
            BROKEN
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "credlet-testkit: the plugin cannot do as it is told: {error}");
            BROKEN
        }
    };
    exit(code)
}

/// Reads the script from the environment, inline or as `@path`, else from a file beside the path of this process.
fn script_of_this_process() -> io::Result<Script> {
    let text = match env::var(SCRIPT_VARIABLE) {
        Ok(text) => match text.strip_prefix('@') {
            Some(path) => fs::read_to_string(path)?,
            None => text,
        },
        Err(_) => {
            let script = Script::beside(&started_by_path()?);
            if !script.exists() {
                return Err(io::Error::other("no script: this program is started by tests"));
            }
            fs::read_to_string(script)?
        }
    };
    serde_json::from_str(&text).map_err(io::Error::other)
}

/// Returns the path given to `execve`, without following links.
#[cfg(target_os = "linux")]
fn started_by_path() -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let path = rustix::param::linux_execfn().to_bytes();
    Ok(Path::new(std::ffi::OsStr::from_bytes(path)).to_owned())
}

#[cfg(not(target_os = "linux"))]
fn started_by_path() -> io::Result<PathBuf> {
    env::current_exe()
}

struct Performance {
    dir: PathBuf,
    run: usize,
    steps: Vec<Step>,
    password: String,
}

impl Performance {
    fn new(script: Script) -> io::Result<Self> {
        let run = if script.counted { count(&script.dir)? } else { 0 };
        let nth = run.saturating_sub(script.earlier_runs + 1).min(script.runs.len().saturating_sub(1));
        let steps = script.runs.into_iter().nth(nth).unwrap_or_default();
        Ok(Self { dir: script.dir, run, steps, password: String::new() })
    }

    fn run(mut self) -> io::Result<i32> {
        for step in std::mem::take(&mut self.steps) {
            match step {
                Step::Answer(answer) => print(OutputStream::Stdout, &self.credential(answer))?,
                Step::Print { to, text } => print(to, &text)?,
                Step::Flood { to, bytes } => self.flood(to, bytes)?,
                Step::Close { stream } => close(stream)?,
                Step::Sleep { ms } => self.pause(Duration::from_millis(ms)),
                Step::Hang => self.wait_until(|| false),
                Step::WaitAt { gate } => {
                    File::create(Script::gate_reached(&self.dir, &gate))?;
                    self.wait_until(|| Script::gate_open(&self.dir, &gate).exists());
                }
                Step::WaitForFile { path } => self.wait_until(|| path.exists()),
                Step::Exit { code } => return Ok(code),
                Step::Die { signal } => {
                    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
                    // std handles these two to report a stack overflow, and ignores the first one that is not a fault.
                    if matches!(signal, Signal::SEGV | Signal::BUS) {
                        emulate_default_handler(signal.as_raw())?;
                    }
                    rustix::process::kill_process(getpid(), signal)?;
                    // The signal only stopped the process, or was ignored.
                }
                Step::LeaveGrandchild { keeping, ms, new_session } => {
                    self.leave_grandchild(&keeping, ms, new_session)?
                }
                Step::Listen(tunnel) => tunnel.start()?,
                Step::LeaveListening(tunnel) => {
                    self.leave(vec![Step::NewSession, Step::Listen(tunnel)], &[], Step::Hang)?
                }
                Step::WaitForLock => wait_for_lock()?,
                Step::Report { read_stdin } => self.report(read_stdin)?,
                Step::AskPassword { prompt } => self.password = ask_password(&prompt)?,
                Step::IgnoreTermination => ignore_termination()?,
                Step::NewSession => drop(rustix::process::setsid()?),
                Step::Announce { path } => drop(File::create(path)?),
            }
        }
        Ok(0)
    }

    fn credential(&self, answer: Answer) -> String {
        let api_version = answer.api_version.or_else(asked_version);
        let expiry = answer.expiry.map(|expiry| match expiry {
            Expiry::In { ms } => (Timestamp::now() + SignedDuration::from_millis(ms)).to_string(),
            Expiry::At(text) => text,
        });
        let fields = [
            ("token", answer.token.map(|token| token.replace("{password}", &self.password))),
            ("clientCertificateData", answer.certificate),
            ("clientKeyData", answer.key),
            ("expirationTimestamp", expiry),
        ];
        let mut status: serde_json::Map<_, _> =
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect();
        if let Some((url, authority)) = answer.proxy {
            let mut proxy = serde_json::json!({ "url": url });
            if let Some(pem) = authority {
                proxy["certificate-authority-data"] = base64::engine::general_purpose::STANDARD.encode(pem).into();
            }
            status.insert("proxyConfig".to_owned(), proxy);
        }
        serde_json::json!({
            "apiVersion": api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1"),
            "kind": "ExecCredential",
            "status": status,
        })
        .to_string()
    }

    fn flood(&self, to: OutputStream, bytes: Option<u64>) -> io::Result<()> {
        let block = [b'x'; 64 * 1024];
        let mut left = bytes;
        while left != Some(0) {
            self.end_with_the_test();
            let now = left.map_or(block.len(), |left| left.min(block.len() as u64) as usize);
            write(to, &block[..now])?;
            left = left.map(|left| left - now as u64);
        }
        Ok(())
    }

    fn leave_grandchild(&self, keeping: &[OutputStream], ms: u64, new_session: bool) -> io::Result<()> {
        let first = if new_session { vec![Step::NewSession] } else { Vec::new() };
        self.leave(first, keeping, Step::Sleep { ms })
    }

    /// Starts a process that executes these steps. Returns after its first steps, so that it is running when a test sees this
    /// process exit.
    fn leave(&self, mut steps: Vec<Step>, keeping: &[OutputStream], last: Step) -> io::Result<()> {
        let ready = self.dir.join(format!("ready-{}", getpid().as_raw_nonzero()));
        steps.extend([Step::Announce { path: ready.clone() }, last]);
        let script = Script { dir: self.dir.clone(), counted: false, earlier_runs: 0, runs: vec![steps] };
        let keep = |stream| if keeping.contains(&stream) { Stdio::inherit() } else { Stdio::null() };
        let child = Command::new(env::current_exe()?)
            .env(SCRIPT_VARIABLE, serde_json::to_string(&script).map_err(io::Error::other)?)
            .stdin(Stdio::null())
            .stdout(keep(OutputStream::Stdout))
            .stderr(keep(OutputStream::Stderr))
            .spawn()?;
        self.wait_until(|| ready.exists());
        fs::remove_file(ready)?;
        File::create(Script::grandchild_file(&self.dir, child.id()))?;
        Ok(())
    }

    fn report(&self, read_stdin: bool) -> io::Result<()> {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let stdin = if read_stdin {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes)?;
            Some(bytes)
        } else {
            None
        };
        let report = PluginReport {
            exec_info: env::var_os("KUBERNETES_EXEC_INFO").map(lossy),
            env: env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect(),
            args: env::args_os().skip(1).map(lossy).collect(),
            stdin,
            cwd: env::current_dir()?,
            pid: getpid().as_raw_pid(),
            parent: rustix::process::getppid().map(|pid| pid.as_raw_pid()),
            process_group: nix::unistd::getpgrp().as_raw(),
            session: nix::unistd::getsid(None)?.as_raw(),
            foreground_group: termios::tcgetpgrp(io::stdin()).ok().map(|pid| pid.as_raw_pid()),
            stdin_is_terminal: io::stdin().is_terminal(),
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
            open_descriptors: open_descriptors(),
        };
        // Replaced by rename, so that the test never reads a partial file.
        let draft = self.dir.join(format!("draft-{}", report.pid));
        fs::write(&draft, serde_json::to_vec(&report).map_err(io::Error::other)?)?;
        fs::rename(draft, Script::report_file(&self.dir, self.run))
    }

    fn pause(&self, mut left: Duration) {
        while !left.is_zero() {
            self.end_with_the_test();
            let now = left.min(Duration::from_millis(100));
            thread::sleep(now);
            left -= now;
        }
    }

    fn wait_until(&self, come_true: impl Fn() -> bool) {
        while !come_true() {
            self.end_with_the_test();
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// A failing test may leave this process behind; it exits when the temporary directory is removed.
    fn end_with_the_test(&self) {
        if !self.dir.exists() {
            exit(BROKEN);
        }
    }
}

/// Appends one line in one write, so that concurrent runs get distinct numbers.
fn count(dir: &Path) -> io::Result<usize> {
    let mut file = OpenOptions::new().append(true).create(true).open(Script::count_file(dir))?;
    let line = format!("{:>10}\n", getpid().as_raw_pid());
    debug_assert_eq!(line.len(), COUNT_LINE, "a pid has at most ten digits");
    file.write_all(line.as_bytes())?;
    Ok(file.stream_position()? as usize / COUNT_LINE)
}

fn asked_version() -> Option<String> {
    Some(exec_info()?.get("apiVersion")?.as_str()?.to_owned())
}

fn exec_info() -> Option<serde_json::Value> {
    serde_json::from_str(&env::var("KUBERNETES_EXEC_INFO").ok()?).ok()
}

/// Waits for the lock as a proxy does: it is granted when the client has exited.
fn wait_for_lock() -> io::Result<()> {
    let info = exec_info().ok_or(io::ErrorKind::InvalidInput)?;
    let path = info.pointer("/spec/lockFilePath").and_then(|path| path.as_str()).ok_or(io::ErrorKind::NotFound)?;
    File::options().read(true).write(true).open(path)?.lock()
}

fn print(to: OutputStream, text: &str) -> io::Result<()> {
    write(to, text.as_bytes())
}

fn write(to: OutputStream, bytes: &[u8]) -> io::Result<()> {
    // `print!` would panic on a closed pipe.
    match to {
        OutputStream::Stdout => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes)?;
            stdout.flush()
        }
        OutputStream::Stderr => io::stderr().write_all(bytes),
    }
}

/// Replaces the descriptor by the null device, so that the reader of the pipe sees end of file.
fn close(stream: OutputStream) -> io::Result<()> {
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    match stream {
        OutputStream::Stdout => rustix::stdio::dup2_stdout(null)?,
        OutputStream::Stderr => rustix::stdio::dup2_stderr(null)?,
    }
    Ok(())
}

/// Echo is off before the prompt is written, because the test types as soon as it sees the prompt.
fn ask_password(prompt: &str) -> io::Result<String> {
    let stdin = io::stdin();
    let before = termios::tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    termios::tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
    print(OutputStream::Stderr, prompt)?;
    let mut line = String::new();
    let read = stdin.read_line(&mut line);
    termios::tcsetattr(&stdin, OptionalActions::Now, &before)?;
    print(OutputStream::Stderr, "\n")?;
    read?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// tokio's signal handler stays installed when its runtime is dropped, so SIGTERM is ignored without unsafe code.
fn ignore_termination() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _guard = runtime.enter();
    signal(SignalKind::terminate()).map(drop)
}

fn open_descriptors() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/dev/fd") else { return Vec::new() };
    let mut numbers: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    // Excludes the descriptor of the directory listing, which is closed by now.
    numbers.retain(|number| fs::symlink_metadata(format!("/dev/fd/{number}")).is_ok());
    numbers.sort_unstable();
    numbers
}

#[expect(clippy::exit, reason = "the process is the plugin")]
fn exit(code: i32) -> ! {
    std::process::exit(code)
}
