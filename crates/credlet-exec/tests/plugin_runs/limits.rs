use std::time::Duration;

use credlet_exec::{Error, ExecOptions, Platform, RunError, RunLimits, StderrSink, SystemRunner};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::{OutputStream, TestPlugin, is_running};

use crate::{HANG, config, exec_plugin, fetch, is_gone, options, platform, run, until};

#[tokio::test]
async fn timeout_kills_the_process_group() {
    let plugin = TestPlugin::new()
        .prints_to(OutputStream::Stderr, "waiting for the moon\n")
        .leaves_a_grandchild(&[OutputStream::Stdout, OutputStream::Stderr], HANG * 10)
        .hangs();
    let limit = Duration::from_secs(3);
    let error = fetch(&exec_plugin(config(&plugin), None, options(limit))).await.unwrap_err();
    assert_eq!(error.time_limit(), Some(limit));
    assert_eq!(error.stderr(), "waiting for the moon\n");
    assert!(error.hints()[0].contains("by hand"));
    assert!(is_gone(plugin.pids()[0]), "no zombie is left");
    until(|| plugin.grandchildren().iter().all(|pid| !is_running(*pid))).await;
}

#[tokio::test]
async fn kills_plugin_that_ignores_sigterm() {
    let plugin = TestPlugin::new().ignores_termination().hangs();
    let error = fetch(&exec_plugin(config(&plugin), None, options(Duration::from_secs(3)))).await.unwrap_err();
    assert!(error.time_limit().is_some());
    assert!(is_gone(plugin.pids()[0]));
}

#[tokio::test]
async fn dropping_the_run_kills_the_plugin() {
    let plugin = TestPlugin::new().leaves_a_grandchild(&[OutputStream::Stdout], HANG * 10).waits_at("gate");
    let source = exec_plugin(config(&plugin), None, ExecOptions::default());
    tokio::select! {
        _ = fetch(&source) => panic!("the plugin is still waiting"),
        () = plugin.reached("gate") => {}
    }
    until(|| plugin.pids().iter().chain(&plugin.grandchildren()).all(|pid| !is_running(*pid))).await;
}

#[tokio::test]
async fn grandchild_with_open_pipe_does_not_block_the_run() {
    for keeping in [&[OutputStream::Stdout, OutputStream::Stderr][..], &[OutputStream::Stderr], &[OutputStream::Stdout]]
    {
        let plugin = TestPlugin::new().leaves_a_daemon(keeping, HANG * 10).answers("token");
        assert!(run(&plugin).await.is_ok());
        // A daemon of the plugin is left running.
        let daemon = plugin.grandchildren()[0];
        assert!(is_running(daemon));
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(daemon.try_into().unwrap()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
    }
}

#[tokio::test]
async fn background_helper_survives_a_successful_run() {
    let plugin =
        TestPlugin::new().leaves_a_grandchild(&[OutputStream::Stdout], Duration::from_secs(20)).answers("token");
    assert!(run(&plugin).await.is_ok());
    assert!(is_running(plugin.grandchildren()[0]));
}

#[tokio::test]
async fn stdout_is_limited() {
    let too_much = |error: Error| matches!(error, Error::LimitExceeded { reason: RunError::OutputTooLarge { .. }, .. });
    for plugin in [
        TestPlugin::new().floods(OutputStream::Stdout, 100 << 20),
        TestPlugin::new().floods_endlessly(OutputStream::Stdout),
    ] {
        assert!(too_much(run(&plugin).await.unwrap_err()));
        assert!(is_gone(plugin.pids()[0]));
    }
    let small =
        ExecOptions { limits: RunLimits { max_stdout: 50, ..RunLimits::NON_INTERACTIVE }, ..ExecOptions::default() };
    let plugin = TestPlugin::answering("token");
    assert!(too_much(fetch(&exec_plugin(config(&plugin), None, small)).await.unwrap_err()));
}

#[tokio::test]
async fn forwards_stderr_and_retains_its_tail() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    let watch = LeakCheck::new();
    let passed = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&passed);
    let sink = StderrSink::Custom(Arc::new(move |bytes| {
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }));
    let platform = Platform { runner: Arc::new(SystemRunner::with_stderr(sink)), ..platform() };
    let plugin =
        TestPlugin::new().floods(OutputStream::Stderr, 1 << 30).prints_to(OutputStream::Stderr, "\nthe end\n").exits(3);
    let source = credlet_exec::ExecPlugin::new(config(&plugin), None, ExecOptions::default(), platform).unwrap();
    let error = fetch(&source).await.unwrap_err();
    watch.error(&error);
    assert!(error.to_string().ends_with("exited with code 3: the end"), "{error}");
    assert!(error.stderr().len() <= 4 << 10);
    assert_eq!(passed.load(Ordering::Relaxed), (1 << 30) + "\nthe end\n".len() as u64);
}

#[tokio::test]
async fn waits_for_plugin_that_closed_its_output() {
    let plugin =
        TestPlugin::answering("token").closes(OutputStream::Stdout).sleeps(Duration::from_millis(300)).exits(7);
    let error = run(&plugin).await.unwrap_err();
    assert!(error.to_string().contains("exited with code 7"), "{error}");
}
