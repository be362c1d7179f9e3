//! A plugin that goes on after its answer.

use std::path::PathBuf;
use std::sync::Arc;

use credlet_core::{Ended, ExecOptions, LockFile, NoLockFile, Proxy};
use credlet_testkit::plugin::{Plugin, Stream};

use crate::{config, exec_plugin, fetch, is_gone, is_running, until};

/// A path is all that a plugin is told.
#[derive(Debug)]
struct NoLock;

impl LockFile for NoLock {
    fn path(&self) -> Result<PathBuf, NoLockFile> {
        Ok("/nowhere/client.lock".into())
    }
}

fn options() -> ExecOptions {
    ExecOptions { lock_file: Some(Arc::new(NoLock)), ..ExecOptions::default() }
}

async fn proxy(plugin: &Plugin) -> Proxy {
    fetch(&exec_plugin(config(plugin), None, options())).await.unwrap().value.proxy.unwrap()
}

#[tokio::test]
async fn it_lives_as_long_as_somebody_has_its_answer_and_is_reaped() {
    let plugin = Plugin::new().reports().answers_with_proxy("unix:///s").leaves_a_grandchild(&[], crate::HANG).hangs();
    let proxy = proxy(&plugin).await;
    let told = plugin.report().exec_info.unwrap();
    assert!(told.contains(r#""lockFilePath":"/nowhere/client.lock""#), "{told}");
    let other = proxy.clone();
    let process = proxy.process.clone().unwrap();
    assert_eq!(process.ended(), None);
    drop((proxy, process));
    assert!(is_running(plugin.pids()[0]));
    until(|| !plugin.grandchildren().is_empty()).await;
    drop(other);
    let started = plugin.grandchildren();
    until(|| is_gone(plugin.pids()[0]) && started.iter().all(|pid| !is_running(*pid))).await;
}

#[tokio::test]
async fn how_it_ends_is_noted() {
    let plugin = Plugin::new().answers_with_proxy("unix:///s").waits_at("end").exits(7);
    let process = proxy(&plugin).await.process.unwrap();
    plugin.open("end");
    until(|| process.ended().is_some()).await;
    assert_eq!(process.ended(), Some(Ended::Exited(7)));
    assert!(is_gone(plugin.pids()[0]));
}

#[tokio::test]
async fn two_processes_are_two_proxies_and_two_answers_of_those_who_left_are_one() {
    let alive = Plugin::new().answers_with_proxy("unix:///s").hangs();
    assert_ne!(proxy(&alive).await, proxy(&alive).await);
    let left = Plugin::new().answers_with_proxy("unix:///s");
    assert_eq!(proxy(&left).await, proxy(&left).await);
}

#[test]
fn with_its_runtime_it_is_asked_to_end() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let plugin = Plugin::new().answers_with_proxy("unix:///s").closes(Stream::Stdout).hangs();
    let proxy = runtime.block_on(proxy(&plugin));
    drop(runtime);
    credlet_testkit::plugin::wait_for_end(plugin.pids()[0]);
    drop(proxy);
}
