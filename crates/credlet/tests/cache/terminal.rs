//! Interactive plugins use the terminal.

use std::time::Duration;

use credlet_testkit::plugin::{TestPlugin, wait_for_end};
use credlet_testkit::pty::Pty;
use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{CacheSandbox, V1, runtime};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn plugin_prompts_through_the_cache() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::new().asks_for_a_password("Password: ").answers("for-{password}");
    let info = V1.replace("false", "true");
    let (command, path) = (plugin.command(), home.dir().to_str().unwrap().to_owned());
    let envs = [("HOME", &*path), ("CREDLET_TEST_ACCOUNT_HOME", &*path), ("KUBERNETES_EXEC_INFO", &*info)];
    let args = ["cache", "--", command.to_str().unwrap()];
    let mut pty = Pty::spawn(env!("CARGO_BIN_EXE_credlet"), args, envs);
    pty.read_until("Password: ", LIMIT);
    pty.send(b"sesame\n");
    pty.read_until("for-sesame", LIMIT);
    assert!(pty.wait().success());
}

#[test]
fn signals_and_exit_status_are_forwarded() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::new().waits_at("gate").answers("a-token");
    let mut call = home.cache(&[], &plugin).spawn().unwrap();
    runtime().block_on(plugin.reached("gate"));
    kill_process(Pid::from_child(&call), Signal::TERM).unwrap();
    let status = call.wait().unwrap();
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    wait_for_end(plugin.pids()[0]);
}
