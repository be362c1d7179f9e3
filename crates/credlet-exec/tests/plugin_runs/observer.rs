//! Events of a `PluginObserver`.

use std::sync::{Arc, Mutex};

use credlet_api::exec::InteractiveMode;
use credlet_exec::{
    CallStatus, ExecOptions, ExecPlugin, Platform, PluginEvent, PluginObserver, PluginPolicy, RefreshPolicy,
    RefreshingCache,
};
use credlet_testkit::plugin::TestPlugin;

use crate::{config, platform};

#[derive(Debug, Default)]
struct RecordingObserver(Mutex<Vec<PluginEvent>>);

impl PluginObserver for RecordingObserver {
    fn observe(&self, event: &PluginEvent) {
        self.0.lock().unwrap().push(*event);
    }
}

impl RecordingObserver {
    fn take(&self) -> Vec<PluginEvent> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// Returns status and code of the calls, without their duration.
    fn calls(&self) -> Vec<(CallStatus, i32)> {
        let call = |event: PluginEvent| match event {
            PluginEvent::Called { status, code, .. } => Some((status, code)),
            _ => None,
        };
        self.take().into_iter().filter_map(call).collect()
    }
}

async fn called(config: credlet_api::exec::ExecConfig) -> Vec<(CallStatus, i32)> {
    let observer = Arc::new(RecordingObserver::default());
    let platform = Platform { observer: Arc::clone(&observer) as _, ..platform() };
    let plugin = ExecPlugin::new(config, None, ExecOptions::default(), platform).unwrap();
    let _ = crate::fetch(&plugin).await;
    observer.calls()
}

#[tokio::test]
async fn counts_runs_by_status() {
    let plugin = TestPlugin::answering("token");
    assert_eq!(called(config(&plugin)).await, [(CallStatus::NoError, 0)]);
    assert_eq!(called(config(&TestPlugin::new().prints("nonsense"))).await, [(CallStatus::NoError, 0)]);
    assert_eq!(called(config(&TestPlugin::new().exits(10))).await, [(CallStatus::PluginExecutionError, 10)]);
    assert_eq!(called(config(&TestPlugin::new().dies_by(9))).await, [(CallStatus::PluginExecutionError, -1)]);
    for missing in ["no-such-plugin", "./no/such", "/no/such", "/etc/passwd", "/"] {
        let mut config = config(&plugin);
        config.command = missing.to_owned();
        assert_eq!(called(config).await, [(CallStatus::PluginNotFoundError, 1)], "{missing}");
    }
    let too_long = config(&plugin).args(["x".repeat(200_000)]);
    assert_eq!(called(too_long).await, [(CallStatus::ClientInternalError, 1)]);
    // Without a terminal the plugin is not run.
    assert_eq!(called(config(&plugin).interactive_mode(InteractiveMode::Always)).await, []);
}

#[tokio::test]
async fn policy_denial_is_not_counted_as_a_run() {
    let plugin = TestPlugin::answering("token");
    let observer = Arc::new(RecordingObserver::default());
    let platform = Platform { observer: Arc::clone(&observer) as _, ..platform() };
    let policy = PluginPolicy::DENY_ALL;
    let denied =
        ExecPlugin::new(config(&plugin), None, ExecOptions { policy, ..Default::default() }, platform).unwrap();
    assert!(crate::fetch(&denied).await.is_err());
    assert_eq!(observer.take(), [PluginEvent::PolicyChecked { allowed: false }]);
}

#[tokio::test]
async fn counts_callers_during_backoff() {
    let plugin = TestPlugin::new().exits(1);
    let observer = Arc::new(RecordingObserver::default());
    let platform = Platform { observer: Arc::clone(&observer) as _, ..platform() };
    let source = ExecPlugin::new(config(&plugin), None, ExecOptions::default(), platform.clone()).unwrap();
    let cache = RefreshingCache::new(source, platform.clock, RefreshPolicy::default());
    for _ in 0..4 {
        assert!(cache.get().await.is_err());
    }
    let events = observer.take();
    assert_eq!(events.iter().filter(|event| **event == PluginEvent::BackedOff).count(), 3);
    assert_eq!(events.iter().filter(|event| matches!(event, PluginEvent::Called { .. })).count(), 1);
}
