//! A client that was refused calls again and does not say why.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use credlet_testkit::plugin::Plugin;

use crate::faults::rewrite;
use crate::stand::{Home, V1};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn the_third_call_of_one_client_gets_another_token_and_the_fourth_that_one_again() {
    let home = Home::new();
    let plugin = Plugin::answering("refused").expiring_in(HOUR).on_the_next_run().answers("good").expiring_in(HOUR);
    let tokens: Vec<_> = (0..7).map(|_| home.token(&[], &plugin)).collect();
    assert_eq!(tokens, ["refused", "refused", "good", "good", "good", "good", "good"]);
    assert_eq!(plugin.runs(), 2);
}

#[test]
fn a_client_that_calls_twice_and_is_gone_makes_the_next_one_get_another_token() {
    let home = Home::new();
    let plugin = Plugin::answering("refused").expiring_in(HOUR).on_the_next_run().answers("good").expiring_in(HOUR);
    // A shell is the client: each line is a process that calls so often.
    let client = |calls: usize| {
        let call = home.cache(&[], &plugin);
        let words: Vec<_> = std::iter::once(call.get_program()).chain(call.get_args()).collect();
        let ran = home.run(shell(&call, &format!("for i in $(seq {calls}); do \"$@\"; done"), &words));
        let answers = serde_json::Deserializer::from_str(&ran.stdout).into_iter::<serde_json::Value>();
        answers.map(|answer| answer.unwrap()["status"]["token"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!([client(1), client(2), client(1)].concat(), ["refused"; 4], "it is new");
    rewrite(&home.entry(), "created", |then| (then.parse::<i64>().unwrap() - 60_000).to_string());
    assert_eq!([client(1), client(2)].concat(), ["refused"; 3]);
    assert_eq!(client(1), ["good"]);
    rewrite(&home.entry(), "created", |then| (then.parse::<i64>().unwrap() - 60_000).to_string());
    assert_eq!([client(2), client(1)].concat(), ["good"; 3], "one run in a while");
    assert_eq!(plugin.runs(), 2);
}

#[test]
fn a_plugin_that_insists_on_its_token_is_not_asked_in_a_circle() {
    let home = Home::new();
    let plugin = Plugin::answering("refused").expiring_in(HOUR);
    for _ in 0..12 {
        assert_eq!(home.token(&[], &plugin), "refused");
    }
    assert_eq!(plugin.runs(), 2);
}

#[test]
fn a_client_that_can_say_so_is_believed_at_once() {
    let home = Home::new();
    let plugin = Plugin::answering("refused").expiring_in(HOUR).on_the_next_run().answers("good").expiring_in(HOUR);
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

/// The same environment, but a shell in the command's place, which is given the command's words.
#[expect(clippy::disallowed_methods, reason = "a test plays the client")]
fn shell(like: &Command, script: &str, words: &[&OsStr]) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.env_clear().envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.args(["-c", script, "sh"]).args(words);
    shell
}
