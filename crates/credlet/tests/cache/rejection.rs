//! Clients that call again after a 401.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use credlet_testkit::plugin::TestPlugin;

use crate::faults::rewrite;
use crate::sandbox::{CacheSandbox, V1};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn third_call_of_a_client_gets_a_new_token() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("refused").expiring_in(HOUR).on_the_next_run().answers("good").expiring_in(HOUR);
    let tokens: Vec<_> = (0..7).map(|_| home.token(&[], &plugin)).collect();
    assert_eq!(tokens, ["refused", "refused", "good", "good", "good", "good", "good"]);
    assert_eq!(plugin.runs(), 2);
}

#[test]
fn second_call_makes_the_next_client_refresh() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("refused").expiring_in(HOUR).on_the_next_run().answers("good").expiring_in(HOUR);
    // A shell plays a client that calls several times.
    let client = |calls: usize| {
        let call = home.cache(&[], &plugin);
        let args: Vec<_> = std::iter::once(call.get_program()).chain(call.get_args()).collect();
        let ran = home.run(shell(&call, &format!("for i in $(seq {calls}); do \"$@\"; done"), &args));
        let answers = serde_json::Deserializer::from_str(&ran.stdout).into_iter::<serde_json::Value>();
        answers.map(|answer| answer.unwrap()["status"]["token"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!([client(1), client(2), client(1)].concat(), ["refused"; 4], "the entry is new");
    rewrite(&home.entry(), "created", |then| (then.parse::<i64>().unwrap() - 60_000).to_string());
    assert_eq!([client(1), client(2)].concat(), ["refused"; 3]);
    assert_eq!(client(1), ["good"]);
    rewrite(&home.entry(), "created", |then| (then.parse::<i64>().unwrap() - 60_000).to_string());
    assert_eq!([client(2), client(1)].concat(), ["good"; 3], "within the cooldown");
    assert_eq!(plugin.runs(), 2);
}

#[test]
fn unchanged_token_does_not_cause_repeated_runs() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("refused").expiring_in(HOUR);
    for _ in 0..12 {
        assert_eq!(home.token(&[], &plugin), "refused");
    }
    assert_eq!(plugin.runs(), 2);
}

#[test]
fn reported_401_refreshes_at_once() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("refused").expiring_in(HOUR).on_the_next_run().answers("good").expiring_in(HOUR);
    let told = V1.replace("k8s.io/v1", "k8s.io/v1alpha1");
    let call = |info: &str| {
        let mut call = home.cache(&[], &plugin);
        call.env("KUBERNETES_EXEC_INFO", info);
        home.run(call).token()
    };
    assert_eq!(call(&told), "refused");
    assert_eq!(call(&told.replace("\"spec\":{", "\"spec\":{\"response\":{\"code\":401},")), "good");
    let mut switched = home.cache(&[], &plugin);
    switched.env("CREDLET_CACHE", "refresh");
    assert_eq!(home.run(switched).token(), "good");
    assert_eq!(plugin.runs(), 3);
}

/// Returns a shell that runs `script` with `args`, in the environment of `like`.
#[expect(clippy::disallowed_methods, reason = "a test plays the client")]
pub(crate) fn shell(like: &Command, script: &str, args: &[&OsStr]) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.env_clear().envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.args(["-c", script, "sh"]).args(args);
    shell
}
