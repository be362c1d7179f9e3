//! Interactive plugins in a pseudo terminal. Each test runs itself again inside of one.

use std::time::Duration;

use credlet_api::exec::InteractiveMode;
use credlet_exec::{Error, ExecOptions, ExecPlugin, FixedEnv, NotInteractive, Platform, ProcessExit, RunLimits};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::pty::{self, Pty};

use crate::{HANG, config, exec_plugin, fetch, platform};

/// Runs a plugin inside the terminal, then prints one line with the result.
async fn run_inside(plugin: &TestPlugin, options: ExecOptions) {
    let outcome = fetch(&exec_plugin(config(plugin), None, options)).await;
    let ours = rustix::termios::tcgetpgrp(std::io::stdin()) == Ok(rustix::process::getpgrp());
    let said = match outcome {
        Ok(fetched) => format!("token of {} characters", fetched.value.token.unwrap().expose().len()),
        Err(error) => format!("error: {error}"),
    };
    println!("<<{said}; terminal {}>>", if ours { "ours" } else { "lost" });
}

#[tokio::test]
async fn prompts_for_a_password_in_the_terminal() {
    if pty::inside() {
        let plugin = TestPlugin::new().reports().asks_for_a_password("Password: ").answers("{password}");
        run_inside(&plugin, ExecOptions::default()).await;
        let report = plugin.report();
        assert!(report.exec_info.unwrap().contains(r#""interactive":true"#));
        assert!(report.stdin_is_terminal && report.stderr_is_terminal && !report.stdout_is_terminal);
        return;
    }
    let watch = LeakCheck::new();
    let password = watch.secret("password");
    let mut pty = Pty::rerun("terminal::prompts_for_a_password_in_the_terminal", []);
    pty.read_until("Password: ", HANG);
    assert!(!pty.echoes());
    assert_ne!(pty.foreground_group(), Some(pty.pid().try_into().unwrap()), "the plugin has the terminal");
    pty.send(format!("{}\n", password.expose()).as_bytes());
    let expected = format!("<<token of {} characters; terminal ours>>", password.expose().len());
    pty.read_until(&expected, HANG);
    assert!(pty.echoes());
    assert!(pty.wait().success(), "{}", pty.screen());
    // The input was not echoed.
    watch.text(pty.screen());
}

#[tokio::test]
async fn ctrl_c_kills_plugin_and_restores_terminal() {
    if pty::inside() {
        let plugin = TestPlugin::new().asks_for_a_password("Password: ").answers("{password}");
        return run_inside(&plugin, ExecOptions::default()).await;
    }
    let mut pty = Pty::rerun("terminal::ctrl_c_kills_plugin_and_restores_terminal", []);
    pty.read_until("Password: ", HANG);
    assert!(!pty.echoes());
    pty.send(b"\x03");
    pty.read_until("was killed by SIGINT; terminal ours>>", HANG);
    assert!(pty.echoes());
    assert!(pty.wait().success(), "{}", pty.screen());
}

#[tokio::test]
async fn ctrl_z_without_a_shell_does_not_block() {
    if pty::inside() {
        let plugin = TestPlugin::new().asks_for_a_password("Password: ").answers("{password}");
        return run_inside(&plugin, ExecOptions::default()).await;
    }
    // Without a shell that could continue the job, the plugin is resumed at once.
    let mut pty = Pty::rerun("terminal::ctrl_z_without_a_shell_does_not_block", []);
    pty.read_until("Password: ", HANG);
    pty.send(b"\x1a");
    pty.send(b"correct horse\n");
    pty.read_until("<<token of 13 characters; terminal ours>>", HANG);
    assert!(pty.wait().success(), "{}", pty.screen());
}

#[tokio::test]
async fn interactive_run_times_out() {
    if pty::inside() {
        let plugin = TestPlugin::new().asks_for_a_password("Password: ").answers("{password}");
        let interactive_limits = RunLimits { timeout: Duration::from_millis(500), ..RunLimits::INTERACTIVE };
        return run_inside(&plugin, ExecOptions { interactive_limits, ..ExecOptions::default() }).await;
    }
    let mut pty = Pty::rerun("terminal::interactive_run_times_out", []);
    pty.read_until("timed out after 500ms; terminal ours>>", HANG);
    assert!(pty.echoes());
    assert!(pty.wait().success(), "{}", pty.screen());
}

#[tokio::test]
async fn non_interactive_plugin_does_not_get_the_terminal() {
    if pty::inside() {
        let plugin = TestPlugin::answering("token").reports_with_stdin();
        let never = config(&plugin).interactive_mode(InteractiveMode::Never);
        fetch(&exec_plugin(never, None, ExecOptions::default())).await.unwrap();
        let report = plugin.report();
        assert!(report.exec_info.unwrap().contains(r#""interactive":false"#));
        assert!(!report.stdin_is_terminal && !report.stderr_is_terminal);
        return;
    }
    let mut pty = Pty::rerun("terminal::non_interactive_plugin_does_not_get_the_terminal", []);
    assert!(pty.wait().success(), "{}", pty.screen());
}

/// Whether the plugin would run interactively, without running it.
async fn is_interactive(mode: InteractiveMode, terminal: bool, stdin_unavailable: Option<&str>) -> Result<bool, Error> {
    use credlet_exec::{CommandSpec, CompletedProcess, ProcessRunner, RunError, StdinSource};
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};

    #[derive(Debug, Default)]
    struct Noted(Mutex<Option<bool>>);

    impl ProcessRunner for Noted {
        fn run(
            &self,
            program: CommandSpec,
        ) -> Pin<Box<dyn Future<Output = Result<CompletedProcess, RunError>> + Send + '_>> {
            *self.0.lock().unwrap() = Some(matches!(program.stdin, StdinSource::Terminal));
            let stdout = br#"{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}"#.to_vec();
            Box::pin(async {
                Ok(CompletedProcess { exit: ProcessExit::Exited(0), stdout: stdout.into(), stderr: Vec::new().into() })
            })
        }
    }

    let noted = Arc::new(Noted::default());
    let env = FixedEnv::new([("PATH", "/usr/bin:/bin")]).terminal(terminal);
    let platform = Platform { env: Arc::new(env), runner: Arc::clone(&noted) as _, ..platform() };
    let config = credlet_api::exec::ExecConfig::new("sh", credlet_api::exec::ApiVersion::V1).interactive_mode(mode);
    let options = ExecOptions { stdin_unavailable: stdin_unavailable.map(Into::into), ..ExecOptions::default() };
    fetch(&ExecPlugin::new(config, None, options, platform).unwrap()).await?;
    let interactive = *noted.0.lock().unwrap();
    Ok(interactive.unwrap())
}

#[tokio::test]
async fn interactive_mode_and_terminal_decide() {
    use InteractiveMode::{Always, IfAvailable, Never};
    for (mode, terminal, unavailable, interactive) in [
        (Never, false, None, false),
        (Never, true, None, false),
        (Never, true, Some(""), false),
        (IfAvailable, false, None, false),
        (IfAvailable, false, Some(""), false),
        (IfAvailable, true, None, true),
        (IfAvailable, true, Some(""), false),
        (Always, true, None, true),
    ] {
        let result = is_interactive(mode, terminal, unavailable).await;
        assert_eq!(result.ok(), Some(interactive), "{mode} {terminal} {unavailable:?}");
    }
    for (terminal, unavailable, reason, text) in [
        (false, None, NotInteractive::NotATerminal, "standard input is not a terminal"),
        (false, Some("x"), NotInteractive::NotATerminal, "standard input is not a terminal"),
        (true, Some(""), NotInteractive::StdinUnavailable("".into()), "standard input is in use"),
        (
            true,
            Some("a manifest is read from it"),
            NotInteractive::StdinUnavailable("a manifest is read from it".into()),
            "standard input is in use: a manifest is read from it",
        ),
    ] {
        let error = is_interactive(Always, terminal, unavailable).await.unwrap_err();
        assert!(error.to_string().ends_with(text), "{error}");
        assert!(matches!(error, Error::NotInteractive { reason: found, .. } if found == reason));
    }
}
