//! What an observer is told: rules 52, 87 and 88.

use std::sync::{Arc, Mutex};

use credlet_api::exec::InteractiveMode;
use credlet_core::{CallStatus, Event, ExecOptions, ExecPlugin, Flight, Observer, Patience, PluginPolicy, World};
use credlet_testkit::plugin::Plugin;

use crate::{config, world};

#[derive(Debug, Default)]
struct Noted(Mutex<Vec<Event>>);

impl Observer for Noted {
    fn observe(&self, event: &Event) {
        self.0.lock().unwrap().push(*event);
    }
}

impl Noted {
    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// Status and code of the calls, leaving out how long they took.
    fn calls(&self) -> Vec<(CallStatus, i32)> {
        let call = |event: Event| match event {
            Event::Called { status, code, .. } => Some((status, code)),
            _ => None,
        };
        self.take().into_iter().filter_map(call).collect()
    }
}

async fn called(config: credlet_api::exec::ExecConfig) -> Vec<(CallStatus, i32)> {
    let noted = Arc::new(Noted::default());
    let world = World { observer: Arc::clone(&noted) as _, ..world() };
    let plugin = ExecPlugin::new(config, None, ExecOptions::default(), world).unwrap();
    let _ = crate::fetch(&plugin).await;
    noted.calls()
}

#[tokio::test]
async fn each_run_is_counted_by_how_it_went() {
    let plugin = Plugin::answering("token");
    assert_eq!(called(config(&plugin)).await, [(CallStatus::NoError, 0)]);
    assert_eq!(called(config(&Plugin::new().prints("nonsense"))).await, [(CallStatus::NoError, 0)]);
    assert_eq!(called(config(&Plugin::new().exits(10))).await, [(CallStatus::PluginExecutionError, 10)]);
    assert_eq!(called(config(&Plugin::new().dies_by(9))).await, [(CallStatus::PluginExecutionError, -1)]);
    for missing in ["no-such-plugin", "./no/such", "/no/such", "/etc/passwd", "/"] {
        let mut config = config(&plugin);
        config.command = missing.to_owned();
        assert_eq!(called(config).await, [(CallStatus::PluginNotFoundError, 1)], "{missing}");
    }
    let too_long = config(&plugin).args(["x".repeat(200_000)]);
    assert_eq!(called(too_long).await, [(CallStatus::ClientInternalError, 1)]);
    // Nobody to talk to: nothing was tried.
    assert_eq!(called(config(&plugin).interactive_mode(InteractiveMode::Always)).await, []);
}

#[tokio::test]
async fn a_refusal_by_policy_counts_as_that_and_not_as_a_run() {
    let plugin = Plugin::answering("token");
    let noted = Arc::new(Noted::default());
    let world = World { observer: Arc::clone(&noted) as _, ..world() };
    let policy = PluginPolicy::DENY_ALL;
    let denied = ExecPlugin::new(config(&plugin), None, ExecOptions { policy, ..Default::default() }, world).unwrap();
    assert!(crate::fetch(&denied).await.is_err());
    assert_eq!(noted.take(), [Event::PolicyChecked { allowed: false }]);
}

#[tokio::test]
async fn callers_turned_away_while_backing_off_are_counted() {
    let plugin = Plugin::new().exits(1);
    let noted = Arc::new(Noted::default());
    let world = World { observer: Arc::clone(&noted) as _, ..world() };
    let source = ExecPlugin::new(config(&plugin), None, ExecOptions::default(), world.clone()).unwrap();
    let flight = Flight::new(source, world.clock, Patience::default());
    for _ in 0..4 {
        assert!(flight.get().await.is_err());
    }
    let events = noted.take();
    assert_eq!(events.iter().filter(|event| **event == Event::BackedOff).count(), 3);
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Called { .. })).count(), 1);
}
