//! Plugins that keep running after their output.

use std::path::PathBuf;
use std::sync::Arc;

use credlet_exec::{ExecOptions, LockFile, LockFileError, PluginProxy, ProcessExit};
use credlet_testkit::plugin::{OutputStream, TestPlugin, is_running};

use crate::{config, exec_plugin, fetch, is_gone, until};

#[derive(Debug)]
struct FixedLockFile;

impl LockFile for FixedLockFile {
    fn path(&self) -> Result<PathBuf, LockFileError> {
        Ok("/nowhere/client.lock".into())
    }
}

fn options() -> ExecOptions {
    ExecOptions { lock_file: Some(Arc::new(FixedLockFile)), ..ExecOptions::default() }
}

async fn proxy(plugin: &TestPlugin) -> PluginProxy {
    fetch(&exec_plugin(config(plugin), None, options())).await.unwrap().value.proxy.unwrap()
}

#[tokio::test]
async fn process_lives_as_long_as_its_handle() {
    let plugin =
        TestPlugin::new().reports().answers_with_proxy("unix:///s").leaves_a_grandchild(&[], crate::HANG).hangs();
    let proxy = proxy(&plugin).await;
    let exec_info = plugin.report().exec_info.unwrap();
    assert!(exec_info.contains(r#""lockFilePath":"/nowhere/client.lock""#), "{exec_info}");
    let other = proxy.clone();
    let process = proxy.process.clone().unwrap();
    assert_eq!(process.exit(), None);
    drop((proxy, process));
    assert!(is_running(plugin.pids()[0]));
    until(|| !plugin.grandchildren().is_empty()).await;
    drop(other);
    let started = plugin.grandchildren();
    until(|| is_gone(plugin.pids()[0]) && started.iter().all(|pid| !is_running(*pid))).await;
}

#[tokio::test]
async fn exit_is_recorded() {
    let plugin = TestPlugin::new().answers_with_proxy("unix:///s").waits_at("end").exits(7);
    let process = proxy(&plugin).await.process.unwrap();
    plugin.open("end");
    until(|| process.exit().is_some()).await;
    assert_eq!(process.exit(), Some(ProcessExit::Exited(7)));
    assert!(is_gone(plugin.pids()[0]));
}

#[tokio::test]
async fn proxies_of_two_processes_differ() {
    let running = TestPlugin::new().answers_with_proxy("unix:///s").hangs();
    assert_ne!(proxy(&running).await, proxy(&running).await);
    let exited = TestPlugin::new().answers_with_proxy("unix:///s");
    assert_eq!(proxy(&exited).await, proxy(&exited).await);
}

#[test]
fn runtime_shutdown_terminates_the_process() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let plugin = TestPlugin::new().answers_with_proxy("unix:///s").closes(OutputStream::Stdout).hangs();
    let proxy = runtime.block_on(proxy(&plugin));
    drop(runtime);
    credlet_testkit::plugin::wait_for_end(plugin.pids()[0]);
    drop(proxy);
}
