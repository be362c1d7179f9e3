//! Running real programs: what they are given, what they may do to us, and what becomes of their answers.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "what runs in a terminal is read from there")]

mod alive;
mod bad_input;
mod counts;
mod given;
mod install_hint;
mod limits;
mod observed;
mod policy;
mod terminal;

use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::{ApiVersion, Cluster, ExecConfig};
use credlet_core::{
    Credential, Error, ExecOptions, ExecPlugin, Fetched, Flight, Limits, NoObserver, Patience, Source as _, StderrSink,
    SystemClock, SystemEnv, SystemRunner, Why, World,
};
use credlet_testkit::plugin::Plugin;

/// Longer than anything here takes, so that a hang fails a test instead of stopping it.
const HANG: Duration = Duration::from_secs(60);

/// The real world, with plugins kept from writing between the test runner's lines.
fn world() -> World {
    World {
        clock: Arc::new(SystemClock::new()),
        env: Arc::new(SystemEnv),
        runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
        observer: Arc::new(NoObserver),
    }
}

fn config(plugin: &Plugin) -> ExecConfig {
    ExecConfig::new(plugin.command().to_str().unwrap(), ApiVersion::V1).args(plugin.args())
}

fn options(time: Duration) -> ExecOptions {
    ExecOptions { limits: Limits { time, ..Limits::ALONE }, ..ExecOptions::default() }
}

fn exec_plugin(config: ExecConfig, cluster: Option<Cluster>, options: ExecOptions) -> ExecPlugin {
    ExecPlugin::new(config, cluster, options, world()).unwrap()
}

fn flight(plugin: &Plugin) -> Flight<ExecPlugin> {
    let world = world();
    let source = ExecPlugin::new(config(plugin), None, ExecOptions::default(), world.clone()).unwrap();
    Flight::new(source, world.clock, Patience::default())
}

/// One run under the default options.
async fn run(plugin: &Plugin) -> Result<Fetched<Credential>, Error> {
    fetch(&exec_plugin(config(plugin), None, ExecOptions::default())).await
}

async fn fetch(plugin: &ExecPlugin) -> Result<Fetched<Credential>, Error> {
    tokio::time::timeout(HANG, plugin.fetch(&Why::Wanted)).await.expect("a run must not hang")
}

/// Whether a process exists and is more than an entry that waits to be reaped.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Whether nothing is left of a process, not even an entry.
fn is_gone(pid: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

async fn until(mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, wait).await.expect("this must come to pass");
}
