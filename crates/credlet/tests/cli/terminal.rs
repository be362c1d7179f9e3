use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use credlet_testkit::plugin::{Plugin, wait_for_end};
use credlet_testkit::pty::Pty;

use super::support::{CREDLET, Home, exec};

const SOON: Duration = Duration::from_secs(60);
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

fn at_a_terminal(home: &Home, args: &[&str], more: &[(&str, &str)]) -> Pty {
    let env = home.env();
    let env = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(more.iter().copied());
    Pty::spawn(CREDLET, args.iter().copied(), env)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn on_a_terminal_the_prompt_comes_on_its_own_line() {
    let home = Home::of("{token: t}");
    let mut pty = at_a_terminal(&home, &["get", "/readyz"], &[]);
    assert!(pty.wait().success());
    assert_eq!(pty.screen(), "ok\r\n");
}

#[test]
fn errors_have_colours_on_a_terminal_unless_somebody_minds() {
    let home = Home::of("{token: t}");
    let mut pty = at_a_terminal(&home, &["get", "/nothing"], &[]);
    assert_eq!(pty.wait().code(), Some(1));
    assert!(pty.screen().starts_with("\u{1b}[31;1merror:\u{1b}[0m the server"), "{:?}", pty.screen());
    for more in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut pty = at_a_terminal(&home, &["get", "/nothing"], &[more]);
        assert_eq!(pty.wait().code(), Some(1));
        assert!(pty.screen().starts_with("error: the server said 404"), "{:?}", pty.screen());
    }
}

#[test]
fn ctrl_c_ends_a_plugin_that_hangs_and_all_it_started() {
    let home = Home::empty();
    let plugin = Plugin::new().leaves_a_grandchild(&[], SOON).waits_at("for ever");
    home.write_config(&exec(&plugin, "Never"));
    let mut pty = at_a_terminal(&home, &["get", "/readyz"], &[]);
    runtime().block_on(plugin.reached("for ever"));
    pty.send(b"\x03");
    assert_eq!(pty.wait().signal(), Some(SIGINT), "a shell looks for that");
    plugin.pids().into_iter().chain(plugin.grandchildren()).for_each(wait_for_end);
    assert_eq!(home.server.counts().requests, 0);
}

#[test]
fn a_request_to_end_ends_the_plugin_too() {
    let home = Home::empty();
    let plugin = Plugin::new().ignores_termination().waits_at("for ever");
    home.write_config(&exec(&plugin, "Never"));
    let mut child = home.spawn(&["whoami"]);
    runtime().block_on(plugin.reached("for ever"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(SIGTERM));
    plugin.pids().into_iter().for_each(wait_for_end);
}

#[test]
fn a_plugin_that_talks_has_the_terminal() {
    let home = Home::empty();
    let password = home.watch.secret("password");
    home.server.accept_token_as(password.expose(), "ada");
    let plugin = Plugin::new().asks_for_a_password("Password: ").answers("{password}");
    home.write_config(&exec(&plugin, "Always"));
    for verb in [&["get", "/readyz"][..], &["doctor"]] {
        let mut pty = at_a_terminal(&home, verb, &[]);
        pty.read_until("Password: ", SOON);
        assert!(!pty.echoes());
        pty.send(format!("{}\n", password.expose()).as_bytes());
        let status = pty.wait();
        home.watch.text(pty.screen());
        assert!(pty.screen().contains("ok") || pty.screen().contains("takes you for \"ada\""), "{:?}", pty.screen());
        // Where the tests lie may be somebody else's, which the doctor tells.
        assert!(status.success() || verb == ["doctor"], "{status} {:?}", pty.screen());
        assert!(pty.echoes());
    }
}

#[test]
fn ctrl_c_at_a_plugins_prompt_is_ctrl_c() {
    let home = Home::empty();
    let plugin = Plugin::new().asks_for_a_password("Password: ").answers("{password}");
    home.write_config(&exec(&plugin, "IfAvailable"));
    let mut pty = at_a_terminal(&home, &["get", "/readyz"], &[]);
    pty.read_until("Password: ", SOON);
    pty.send(b"\x03");
    assert_eq!(pty.wait().signal(), Some(SIGINT), "{:?}", pty.screen());
    assert!(pty.echoes(), "the terminal is as it was");
}

#[test]
fn a_plugin_cannot_have_the_input_that_is_the_data() {
    let home = Home::empty();
    let plugin = Plugin::new().asks_for_a_password("Password: ").answers("{password}");
    home.write_config(&exec(&plugin, "Always"));
    let mut pty = at_a_terminal(&home, &["request", "-d", "@-", "/echo"], &[]);
    pty.send(b"{}\n\x04");
    assert_eq!(pty.wait().code(), Some(3), "{:?}", pty.screen());
    assert!(pty.screen().contains("standard input is not free: the data of the request is read"), "{:?}", pty.screen());
    assert_eq!(plugin.runs(), 0);
}

#[test]
fn progress_is_shown_to_a_person_and_taken_away_again() {
    let home = Home::of("{token: t}");
    let mut pty = at_a_terminal(&home, &["doctor"], &[]);
    assert!(pty.wait().success(), "{:?}", pty.screen());
    let screen = pty.screen();
    assert!(screen.contains("… user \"ada\" in context \"blue\"\r\u{1b}[K"), "{screen:?}");
    assert!(screen.ends_with("All is well.\r\n"), "{screen:?}");
}
