//! Plugins that talk to a person, in a real terminal: each test runs itself again inside one.

use std::time::Duration;

use credlet_api::exec::InteractiveMode;
use credlet_core::{Ended, Error, ExecOptions, ExecPlugin, FixedEnv, Limits, Obstacle, World};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;
use credlet_testkit::pty::{self, Pty};

use crate::{HANG, config, exec_plugin, fetch, world};

/// What runs inside the terminal: a plugin, and then one line about how that went.
async fn run_inside(plugin: &Plugin, options: ExecOptions) {
    let outcome = fetch(&exec_plugin(config(plugin), None, options)).await;
    let ours = rustix::termios::tcgetpgrp(std::io::stdin()) == Ok(rustix::process::getpgrp());
    let said = match outcome {
        Ok(fetched) => format!("token of {} characters", fetched.value.token.unwrap().expose().len()),
        Err(error) => format!("error: {error}"),
    };
    println!("<<{said}; terminal {}>>", if ours { "ours" } else { "lost" });
}

#[tokio::test]
async fn a_password_is_asked_for_in_the_terminal() {
    if pty::inside() {
        let plugin = Plugin::new().reports().asks_for_a_password("Password: ").answers("{password}");
        run_inside(&plugin, ExecOptions::default()).await;
        let report = plugin.report();
        assert!(report.exec_info.unwrap().contains(r#""interactive":true"#));
        assert!(report.stdin_is_terminal && report.stderr_is_terminal && !report.stdout_is_terminal);
        return;
    }
    let watch = Watch::new();
    let password = watch.secret("password");
    let mut pty = Pty::rerun("terminal::a_password_is_asked_for_in_the_terminal", []);
    pty.read_until("Password: ", HANG);
    assert!(!pty.echoes());
    assert_ne!(pty.foreground_group(), Some(pty.pid().try_into().unwrap()), "the plugin has the terminal");
    pty.send(format!("{}\n", password.expose()).as_bytes());
    let expected = format!("<<token of {} characters; terminal ours>>", password.expose().len());
    pty.read_until(&expected, HANG);
    assert!(pty.echoes());
    assert!(pty.wait().success(), "{}", pty.screen());
    // What was typed was not shown.
    watch.text(pty.screen());
}

#[tokio::test]
async fn ctrl_c_ends_the_plugin_and_the_terminal_is_as_before() {
    if pty::inside() {
        let plugin = Plugin::new().asks_for_a_password("Password: ").answers("{password}");
        return run_inside(&plugin, ExecOptions::default()).await;
    }
    let mut pty = Pty::rerun("terminal::ctrl_c_ends_the_plugin_and_the_terminal_is_as_before", []);
    pty.read_until("Password: ", HANG);
    assert!(!pty.echoes());
    pty.send(b"\x03");
    pty.read_until("was ended by SIGINT; terminal ours>>", HANG);
    assert!(pty.echoes());
    assert!(pty.wait().success(), "{}", pty.screen());
}

#[tokio::test]
async fn ctrl_z_does_not_leave_a_terminal_that_nobody_has() {
    if pty::inside() {
        let plugin = Plugin::new().asks_for_a_password("Password: ").answers("{password}");
        return run_inside(&plugin, ExecOptions::default()).await;
    }
    // There is no shell in here that could wake a stopped job, so the plugin is woken at once.
    let mut pty = Pty::rerun("terminal::ctrl_z_does_not_leave_a_terminal_that_nobody_has", []);
    pty.read_until("Password: ", HANG);
    pty.send(b"\x1a");
    pty.send(b"correct horse\n");
    pty.read_until("<<token of 13 characters; terminal ours>>", HANG);
    assert!(pty.wait().success(), "{}", pty.screen());
}

#[tokio::test]
async fn a_person_who_does_not_answer_is_not_waited_for_for_ever() {
    if pty::inside() {
        let plugin = Plugin::new().asks_for_a_password("Password: ").answers("{password}");
        let limits_with_person = Limits { time: Duration::from_millis(500), ..Limits::WITH_PERSON };
        return run_inside(&plugin, ExecOptions { limits_with_person, ..ExecOptions::default() }).await;
    }
    let mut pty = Pty::rerun("terminal::a_person_who_does_not_answer_is_not_waited_for_for_ever", []);
    pty.read_until("it did not finish within 500ms; terminal ours>>", HANG);
    assert!(pty.echoes());
    assert!(pty.wait().success(), "{}", pty.screen());
}

#[tokio::test]
async fn a_plugin_that_never_asks_does_not_get_the_terminal() {
    if pty::inside() {
        let plugin = Plugin::answering("token").reports_with_stdin();
        let never = config(&plugin).interactive_mode(InteractiveMode::Never);
        fetch(&exec_plugin(never, None, ExecOptions::default())).await.unwrap();
        let report = plugin.report();
        assert!(report.exec_info.unwrap().contains(r#""interactive":false"#));
        assert!(!report.stdin_is_terminal && !report.stderr_is_terminal);
        return;
    }
    let mut pty = Pty::rerun("terminal::a_plugin_that_never_asks_does_not_get_the_terminal", []);
    assert!(pty.wait().success(), "{}", pty.screen());
}

/// Rules 46 to 48, without running anything: `true` if the plugin would have the terminal.
async fn would_talk(mode: InteractiveMode, terminal: bool, stdin_unavailable: Option<&str>) -> Result<bool, Error> {
    use credlet_core::{Finished, Program, RunError, Runner, Stdin};
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};

    #[derive(Debug, Default)]
    struct Noted(Mutex<Option<bool>>);

    impl Runner for Noted {
        fn run(&self, program: Program) -> Pin<Box<dyn Future<Output = Result<Finished, RunError>> + Send + '_>> {
            *self.0.lock().unwrap() = Some(matches!(program.stdin, Stdin::Terminal));
            let stdout = br#"{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}"#.to_vec();
            Box::pin(async {
                Ok(Finished { ended: Ended::Exited(0), stdout: stdout.into(), stderr: Vec::new().into() })
            })
        }
    }

    let noted = Arc::new(Noted::default());
    let env = FixedEnv::new([("PATH", "/usr/bin:/bin")]).terminal(terminal);
    let world = World { env: Arc::new(env), runner: Arc::clone(&noted) as _, ..world() };
    let config = credlet_api::exec::ExecConfig::new("sh", credlet_api::exec::ApiVersion::V1).interactive_mode(mode);
    let options = ExecOptions { stdin_unavailable: stdin_unavailable.map(Into::into), ..ExecOptions::default() };
    fetch(&ExecPlugin::new(config, None, options, world).unwrap()).await?;
    let talks = *noted.0.lock().unwrap();
    Ok(talks.unwrap())
}

#[tokio::test]
async fn the_mode_and_the_terminal_decide() {
    use InteractiveMode::{Always, IfAvailable, Never};
    for (mode, terminal, unavailable, talks) in [
        (Never, false, None, false),
        (Never, true, None, false),
        (Never, true, Some(""), false),
        (IfAvailable, false, None, false),
        (IfAvailable, false, Some(""), false),
        (IfAvailable, true, None, true),
        (IfAvailable, true, Some(""), false),
        (Always, true, None, true),
    ] {
        let result = would_talk(mode, terminal, unavailable).await;
        assert_eq!(result.ok(), Some(talks), "{mode} {terminal} {unavailable:?}");
    }
    for (terminal, unavailable, obstacle, text) in [
        (false, None, Obstacle::NotATerminal, "standard input is not a terminal"),
        (false, Some("x"), Obstacle::NotATerminal, "standard input is not a terminal"),
        (true, Some(""), Obstacle::StdinUnavailable("".into()), "standard input is not free"),
        (
            true,
            Some("a manifest is read from it"),
            Obstacle::StdinUnavailable("a manifest is read from it".into()),
            "standard input is not free: a manifest is read from it",
        ),
    ] {
        let error = would_talk(Always, terminal, unavailable).await.unwrap_err();
        assert!(error.to_string().ends_with(text), "{error}");
        assert!(matches!(error, Error::NeedsPerson { obstacle: found, .. } if found == obstacle));
    }
}
