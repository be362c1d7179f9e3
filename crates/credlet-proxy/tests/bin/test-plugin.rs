//! The test plugin of this package, see `credlet_testkit::plugin`. With `--role NAME` it plays the programs of the server tests, see
//! `tests/server/child_process.rs`.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it plays programs that have a process to themselves"
)]

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::{ApiVersion, Cluster};
use credlet_exec::{EnvInheritance, Platform};
use credlet_http::{CryptoBackend, HttpCredential};
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{
    DaemonLauncher, DetachableStdio, ProxyServer, ServeError, ServerOptions, SocketProtocol, StartupHandle,
    UpstreamTarget,
};
use credlet_proxy::sign::{SignFuture, Signer};

fn main() {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() != Some("--role") {
        credlet_testkit::plugin::main();
    }
    match &*args.next().unwrap() {
        "daemon" => daemon(),
        "plugin that starts a daemon" => plugin_with_daemon(),
        "plugin that is the proxy" => plugin_that_stays(),
        "client" => client(),
        "visitor" => visitor(),
        role => unreachable!("no such role: {role}"),
    }
}

/// Adds no credential.
#[derive(Debug)]
struct NoSigner;

impl Signer for NoSigner {
    fn credential(&self) -> SignFuture<'_, HttpCredential> {
        Box::pin(async { Ok(HttpCredential::new(1, None, None)) })
    }
}

fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn options() -> ServerOptions {
    let ca = std::fs::read(told("TEST_CA").unwrap()).unwrap();
    let server = told("TEST_SERVER").unwrap();
    let cluster = Cluster { server, certificate_authority_data: ca, ..Cluster::default() };
    let dir = ProxyDir::open(PathBuf::from(told("TEST_DIR").unwrap())).unwrap();
    let target = UpstreamTarget::new(&cluster, CryptoBackend::aws_lc_rs(), &Platform::system()).unwrap();
    let mut options = ServerOptions::new(target, dir);
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
        let server = ProxyServer::bind(Arc::new(NoSigner), options).await.unwrap();
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
    let role = vec!["--role".into(), "daemon".into()];
    let mut daemon = DaemonLauncher::new(options().dir, std::env::current_exe().unwrap(), role);
    daemon.timeout = Duration::from_secs(told("TEST_PATIENCE").map_or(120, |seconds| seconds.parse().unwrap()));
    daemon.inherit = EnvInheritance::AllExcept(vec!["OTHERS_*".to_owned()]);
    if let Some(files) = told("TEST_FILES") {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = Rlimit { current: Some(files.parse().unwrap()), ..getrlimit(Resource::Nofile) };
        setrlimit(Resource::Nofile, limit).unwrap();
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
        let server = match ProxyServer::bind(Arc::new(NoSigner), options).await {
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
