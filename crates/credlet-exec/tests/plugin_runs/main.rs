//! `ExecPlugin` with real processes.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "output in the pseudo terminal is asserted on")]

mod environment;
mod install_hint;
mod invalid_output;
mod limits;
mod long_running;
mod observer;
mod policy;
mod run_counts;
mod terminal;

use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::{ApiVersion, Cluster, ExecConfig};
use credlet_exec::{
    Credential, Error, ExecOptions, ExecPlugin, FetchReason, FetchedValue, NoopObserver, Platform, RefreshPolicy,
    RefreshingCache, RunLimits, Source as _, StderrSink, SystemClock, SystemEnv, SystemRunner,
};
use credlet_testkit::plugin::TestPlugin;

/// Timeout that turns a hang into a test failure.
const HANG: Duration = Duration::from_secs(60);

/// The operating system, with standard error of plugins discarded.
fn platform() -> Platform {
    Platform {
        clock: Arc::new(SystemClock::new()),
        env: Arc::new(SystemEnv),
        runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
        observer: Arc::new(NoopObserver),
    }
}

fn config(plugin: &TestPlugin) -> ExecConfig {
    ExecConfig::new(plugin.command().to_str().unwrap(), ApiVersion::V1).args(plugin.args())
}

fn options(time: Duration) -> ExecOptions {
    ExecOptions { limits: RunLimits { timeout: time, ..RunLimits::NON_INTERACTIVE }, ..ExecOptions::default() }
}

fn exec_plugin(config: ExecConfig, cluster: Option<Cluster>, options: ExecOptions) -> ExecPlugin {
    ExecPlugin::new(config, cluster, options, platform()).unwrap()
}

fn cache(plugin: &TestPlugin) -> RefreshingCache<ExecPlugin> {
    let platform = platform();
    let source = ExecPlugin::new(config(plugin), None, ExecOptions::default(), platform.clone()).unwrap();
    RefreshingCache::new(source, platform.clock, RefreshPolicy::default())
}

/// One run under the default options.
async fn run(plugin: &TestPlugin) -> Result<FetchedValue<Credential>, Error> {
    fetch(&exec_plugin(config(plugin), None, ExecOptions::default())).await
}

async fn fetch(plugin: &ExecPlugin) -> Result<FetchedValue<Credential>, Error> {
    tokio::time::timeout(HANG, plugin.fetch(&FetchReason::Miss)).await.expect("a run must not hang")
}

/// Whether nothing is left of a process, not even an entry that waits to be reaped.
fn is_gone(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
}

async fn until(mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, wait).await.expect("this must come to pass");
}
