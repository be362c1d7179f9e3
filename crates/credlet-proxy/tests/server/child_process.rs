//! Roles that this test program plays in child processes. It is started with a role in its environment, which a
//! constructor that runs before `main` evaluates: see `start.rs` of `credlet-testkit`.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::exit,
    reason = "it plays programs that have a process to themselves"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio as Pipe};
use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::{ApiVersion, Cluster};
use credlet_exec::EnvInheritance;
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{
    DaemonLauncher, DetachableStdio, ProxyServer, ServeError, ServerOptions, SocketProtocol, StartupHandle,
};

use crate::support::{FakeSigner, target};

const ROLE: &str = "CREDLET_PROXY_TEST_ROLE";

/// A role to run in a child process.
pub(crate) struct ChildRole(Command);

impl ChildRole {
    pub(crate) fn new(name: &str) -> Self {
        Self::of(&std::env::current_exe().unwrap(), name)
    }

    /// Runs the role in a copy of this program.
    pub(crate) fn of(program: &Path, name: &str) -> Self {
        let mut command = Command::new(program);
        command.env(ROLE, name).stdin(Pipe::null()).stdout(Pipe::piped()).stderr(Pipe::inherit());
        Self(command)
    }

    pub(crate) fn with(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn by_user(mut self, uid: u32) -> Self {
        std::os::unix::process::CommandExt::uid(&mut self.0, uid);
        self
    }

    pub(crate) fn play(mut self) -> Child {
        self.0.spawn().unwrap()
    }
}

/// Copies this program. A child process makes the copy: while this process has the file open for writing, a program
/// that another test starts would inherit the descriptor, and executing the copy would fail with `ETXTBSY`.
pub(crate) fn copy_of_this_program(to: &Path) {
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(to).status().unwrap();
    assert!(copied.success());
}

extern "C" fn start() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    match role.to_str().unwrap() {
        "daemon" => daemon(),
        "plugin that starts a daemon" => plugin_with_daemon(),
        "plugin that is the proxy" => plugin_that_stays(),
        "client" => client(),
        "visitor" => visitor(),
        role => unreachable!("no such role: {role}"),
    }
    std::process::exit(0);
}

#[expect(unsafe_code, reason = "there is no safe way to run before main; the one line is all of it")]
mod constructor {
    // SAFETY: the section holds pointers to functions that the loader calls once, before `main` and before there is
    // another thread. std fills in its arguments earlier, from the same section with a higher priority.
    #[used]
    #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
    #[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".init_array"))]
    static START: extern "C" fn() = super::start;
}

fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn options() -> ServerOptions {
    let ca = std::fs::read(told("TEST_CA").unwrap()).unwrap();
    let server = told("TEST_SERVER").unwrap();
    let cluster = Cluster { server, certificate_authority_data: ca, ..Cluster::default() };
    let dir = ProxyDir::open(PathBuf::from(told("TEST_DIR").unwrap())).unwrap();
    let mut options = ServerOptions::new(target(&cluster), dir);
    options.socket_protocol = SocketProtocol::Plain;
    options.linger = Duration::from_millis(told("TEST_LINGER").unwrap_or_default().parse().unwrap_or(0));
    options
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn daemon() {
    let startup = StartupHandle::begin().unwrap();
    if let Some(path) = told("TEST_TELLS") {
        std::fs::write(path, about_this_process()).unwrap();
    }
    if let Some(message) = told("TEST_FAILS") {
        return startup.failed(&message).unwrap();
    }
    if let Some(stall) = told("TEST_STALLS").map(PathBuf::from).filter(|path| !path.exists()) {
        std::fs::write(stall.with_extension("new"), std::process::id().to_string()).unwrap();
        std::fs::rename(stall.with_extension("new"), stall).unwrap();
        loop {
            std::thread::park();
        }
    }
    if let Some(signal) = told("TEST_DIES") {
        write_start(&options().dir);
        let signal = rustix::process::Signal::from_named_raw(signal.parse().unwrap()).unwrap();
        rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
    }
    runtime().block_on(async {
        let options = options();
        let dir = options.dir.clone();
        let server = ProxyServer::bind(Arc::new(FakeSigner::nothing()), options).await.unwrap();
        write_start(&dir);
        startup.ready().unwrap();
        server.run().await;
    });
}

/// Facts that only the hardened process itself can read.
fn about_this_process() -> String {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let files = std::fs::read_dir("/dev/fd").unwrap().map(|entry| entry.unwrap().file_name());
    // One descriptor lists the directory, another is the null device.
    let others = files.filter(|name| name.to_str().unwrap().parse::<u32>().unwrap() > 2).count() - 2;
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    #[cfg(target_os = "linux")]
    let dumpable = rustix::process::dumpable_behavior().unwrap();
    #[cfg(not(target_os = "linux"))]
    let dumpable = "NotDumpable";
    let room = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap();
    let names = names.collect::<Vec<_>>().join(" ");
    let umask = umask.as_raw_mode();
    format!("files {others}, umask {umask:o}, {dumpable:?}, room for {room} files, variables {names}")
}

fn write_start(dir: &ProxyDir) {
    let starts = dir.path().join("starts");
    let mut starts = std::fs::OpenOptions::new().create(true).append(true).open(starts).unwrap();
    writeln!(starts, "{}", std::process::id()).unwrap();
}

fn plugin_with_daemon() {
    let mut daemon = DaemonLauncher::new(options().dir, std::env::current_exe().unwrap(), Vec::new());
    daemon.timeout = Duration::from_secs(told("TEST_PATIENCE").map_or(120, |seconds| seconds.parse().unwrap()));
    daemon.inherit = EnvInheritance::AllExcept(vec!["OTHERS_*".to_owned()]);
    if let Some(files) = told("TEST_FILES") {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = Rlimit { current: Some(files.parse().unwrap()), ..getrlimit(Resource::Nofile) };
        setrlimit(Resource::Nofile, limit).unwrap();
    }
    // Still single-threaded.
    #[expect(unsafe_code, reason = "the environment is the daemon's, and there is one thread")]
    // SAFETY: no other thread has been started.
    unsafe {
        std::env::set_var(ROLE, "daemon");
    }
    let lock = told("TEST_LOCK").map(PathBuf::from);
    match runtime().block_on(daemon.lease(lock.as_deref())) {
        Ok(answer) => println!("{}", *answer.status.encode(ApiVersion::V1)),
        Err(error) => println!("error: {error}"),
    }
}

fn plugin_that_stays() {
    let stdio = DetachableStdio::prepare().unwrap();
    credlet_proxy::server::harden_process().unwrap();
    runtime().block_on(async {
        let mut options = options();
        options.leases = vec![told("TEST_LOCK").unwrap().into()];
        let server = match ProxyServer::bind(Arc::new(FakeSigner::nothing()), options).await {
            Err(ServeError::ClientGone) => return println!("gone"),
            server => server.unwrap(),
        };
        println!("{}", *server.credential_status().unwrap().encode(ApiVersion::V1));
        std::io::stdout().flush().unwrap();
        stdio.detach().unwrap();
        server.run().await;
    });
}

/// Holds a lock until it is killed.
fn client() {
    let file = std::fs::File::create(told("TEST_LOCK").unwrap()).unwrap();
    file.lock().unwrap();
    println!("locked");
    loop {
        std::thread::park();
    }
}

/// Sends a greeting on a socket and echoes input.
fn visitor() {
    use std::io::Read as _;
    let mut stream = match std::os::unix::net::UnixStream::connect(told("TEST_SOCKET").unwrap()) {
        Ok(stream) => stream,
        Err(error) => return println!("not connected: {error}"),
    };
    let _ = stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut heard = String::new();
    let _ = stream.read_to_string(&mut heard);
    println!("heard {} bytes: {heard}", heard.len());
}
