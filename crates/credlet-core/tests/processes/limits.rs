use std::time::Duration;

use credlet_core::{Error, ExecOptions, Limits, RunError, StderrSink, SystemRunner, World};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::{Plugin, Stream};

use crate::{HANG, config, exec_plugin, fetch, is_gone, is_running, options, run, until, world};

#[tokio::test]
async fn a_plugin_that_hangs_is_ended_with_all_that_it_started() {
    let plugin = Plugin::new()
        .prints_to(Stream::Stderr, "waiting for the moon\n")
        .leaves_a_grandchild(&[Stream::Stdout, Stream::Stderr], HANG * 10)
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
async fn a_plugin_that_does_not_listen_is_ended_all_the_same() {
    let plugin = Plugin::new().ignores_termination().hangs();
    let error = fetch(&exec_plugin(config(&plugin), None, options(Duration::from_secs(3)))).await.unwrap_err();
    assert!(error.time_limit().is_some());
    assert!(is_gone(plugin.pids()[0]));
}

#[tokio::test]
async fn a_caller_that_drops_the_run_ends_the_plugin() {
    let plugin = Plugin::new().leaves_a_grandchild(&[Stream::Stdout], HANG * 10).waits_at("gate");
    let source = exec_plugin(config(&plugin), None, ExecOptions::default());
    tokio::select! {
        _ = fetch(&source) => panic!("the gate is closed"),
        () = plugin.reached("gate") => {}
    }
    until(|| plugin.pids().iter().chain(&plugin.grandchildren()).all(|pid| !is_running(*pid))).await;
}

#[tokio::test]
async fn a_grandchild_that_keeps_the_pipe_does_not_hold_us() {
    for keeping in [&[Stream::Stdout, Stream::Stderr][..], &[Stream::Stderr], &[Stream::Stdout]] {
        let plugin = Plugin::new().leaves_a_daemon(keeping, HANG * 10).answers("token");
        assert!(run(&plugin).await.is_ok());
        // It is somebody's daemon and none of our business.
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
async fn a_helper_in_the_plugins_own_group_outlives_a_good_answer() {
    let plugin = Plugin::new().leaves_a_grandchild(&[Stream::Stdout], Duration::from_secs(20)).answers("token");
    assert!(run(&plugin).await.is_ok());
    assert!(is_running(plugin.grandchildren()[0]));
}

#[tokio::test]
async fn output_has_a_limit() {
    let too_much = |error: Error| matches!(error, Error::Ended { reason: RunError::TooMuchOutput { .. }, .. });
    for plugin in [Plugin::new().floods(Stream::Stdout, 100 << 20), Plugin::new().floods_endlessly(Stream::Stdout)] {
        assert!(too_much(run(&plugin).await.unwrap_err()));
        assert!(is_gone(plugin.pids()[0]));
    }
    let small = ExecOptions { limits: Limits { stdout: 50, ..Limits::ALONE }, ..ExecOptions::default() };
    let plugin = Plugin::answering("token");
    assert!(too_much(fetch(&exec_plugin(config(&plugin), None, small)).await.unwrap_err()));
}

#[tokio::test]
async fn a_gigabyte_of_complaints_is_passed_on_and_only_its_end_is_kept() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    let watch = Watch::new();
    let passed = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&passed);
    let sink = StderrSink::Custom(Arc::new(move |bytes| {
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }));
    let world = World { runner: Arc::new(SystemRunner::with_stderr(sink)), ..world() };
    let plugin = Plugin::new().floods(Stream::Stderr, 1 << 30).prints_to(Stream::Stderr, "\nthe end\n").exits(3);
    let source = credlet_core::ExecPlugin::new(config(&plugin), None, ExecOptions::default(), world).unwrap();
    let error = fetch(&source).await.unwrap_err();
    watch.error(&error);
    assert!(error.to_string().ends_with("exited with code 3: the end"), "{error}");
    assert!(error.stderr().len() <= 4 << 10);
    assert_eq!(passed.load(Ordering::Relaxed), (1 << 30) + "\nthe end\n".len() as u64);
}

#[tokio::test]
async fn a_plugin_that_closes_its_output_and_lives_on_is_waited_for() {
    let plugin = Plugin::answering("token").closes(Stream::Stdout).sleeps(Duration::from_millis(300)).exits(7);
    let error = run(&plugin).await.unwrap_err();
    assert!(error.to_string().contains("exited with code 7"), "{error}");
}
