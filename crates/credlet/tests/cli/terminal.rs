use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use credlet_testkit::plugin::{OutputStream, TestPlugin, wait_for_end};
use credlet_testkit::pty::Pty;
use credlet_testkit::server::FakeApiServer;
use http_body_util::{BodyExt as _, Full};

use super::support::{CREDLET, CliSandbox, exec};

const TIMEOUT: Duration = Duration::from_secs(60);
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

fn run_in_terminal(home: &CliSandbox, args: &[&str], more: &[(&str, &str)]) -> Pty {
    let env = home.env();
    let env = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(more.iter().copied());
    Pty::spawn(CREDLET, args.iter().copied(), env)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn adds_a_newline_on_a_terminal() {
    let home = CliSandbox::with_user("{token: t}");
    let mut pty = run_in_terminal(&home, &["get", "/readyz"], &[]);
    assert!(pty.wait().success());
    assert_eq!(pty.screen(), "ok\r\n");
}

#[test]
fn colours_errors_unless_disabled() {
    let home = CliSandbox::with_user("{token: t}");
    let mut pty = run_in_terminal(&home, &["get", "/nothing"], &[]);
    assert_eq!(pty.wait().code(), Some(1));
    assert!(pty.screen().starts_with("\u{1b}[31;1merror:\u{1b}[0m the server"), "{:?}", pty.screen());
    for more in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut pty = run_in_terminal(&home, &["get", "/nothing"], &[more]);
        assert_eq!(pty.wait().code(), Some(1));
        assert!(pty.screen().starts_with("error: the server returned 404"), "{:?}", pty.screen());
    }
}

#[test]
fn ctrl_c_kills_plugin_and_descendants() {
    let home = CliSandbox::empty();
    let plugin = TestPlugin::new().leaves_a_grandchild(&[], TIMEOUT).waits_at("for ever");
    home.write_config(&exec(&plugin, "Never"));
    let mut pty = run_in_terminal(&home, &["get", "/readyz"], &[]);
    runtime().block_on(plugin.reached("for ever"));
    pty.send(b"\x03");
    assert_eq!(pty.wait().signal(), Some(SIGINT), "a shell looks for that");
    plugin.pids().into_iter().chain(plugin.grandchildren()).for_each(wait_for_end);
    assert_eq!(home.server.counts().requests, 0);
}

#[test]
fn sigterm_kills_the_plugin() {
    let home = CliSandbox::empty();
    let plugin = TestPlugin::new().ignores_termination().waits_at("for ever");
    home.write_config(&exec(&plugin, "Never"));
    let mut child = home.spawn(&["whoami"]);
    runtime().block_on(plugin.reached("for ever"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(SIGTERM));
    plugin.pids().into_iter().for_each(wait_for_end);
}

#[test]
fn interactive_plugin_has_the_terminal() {
    let home = CliSandbox::empty();
    let password = home.watch.secret("password");
    home.server.accept_token_as(password.expose(), "ada");
    let plugin = TestPlugin::new().asks_for_a_password("Password: ").answers("{password}");
    home.write_config(&exec(&plugin, "Always"));
    for verb in [&["get", "/readyz"][..], &["doctor"]] {
        let mut pty = run_in_terminal(&home, verb, &[]);
        pty.read_until("Password: ", TIMEOUT);
        assert!(!pty.echoes());
        pty.send(format!("{}\n", password.expose()).as_bytes());
        let status = pty.wait();
        home.watch.text(pty.screen());
        assert!(pty.screen().contains("ok") || pty.screen().contains("authenticated as \"ada\""), "{:?}", pty.screen());
        // The directory of the tests may belong to another user, which fails the check of the permissions.
        assert!(status.success() || verb == ["doctor"], "{status} {:?}", pty.screen());
        assert!(pty.echoes());
    }
}

#[test]
fn ctrl_c_at_a_plugin_prompt_ends_by_sigint() {
    let home = CliSandbox::empty();
    let plugin = TestPlugin::new().asks_for_a_password("Password: ").answers("{password}");
    home.write_config(&exec(&plugin, "IfAvailable"));
    let mut pty = run_in_terminal(&home, &["get", "/readyz"], &[]);
    pty.read_until("Password: ", TIMEOUT);
    pty.send(b"\x03");
    assert_eq!(pty.wait().signal(), Some(SIGINT), "{:?}", pty.screen());
    assert!(pty.echoes(), "the terminal is as it was");
}

#[test]
fn plugin_cannot_read_the_request_body() {
    let home = CliSandbox::empty();
    let plugin = TestPlugin::new().asks_for_a_password("Password: ").answers("{password}");
    home.write_config(&exec(&plugin, "Always"));
    let mut pty = run_in_terminal(&home, &["request", "-d", "@-", "/echo"], &[]);
    pty.send(b"{}\n\x04");
    assert_eq!(pty.wait().code(), Some(3), "{:?}", pty.screen());
    assert!(pty.screen().contains("standard input is in use: the request body is read"), "{:?}", pty.screen());
    assert_eq!(plugin.runs(), 0);
}

#[test]
fn clears_the_progress_line() {
    let home = CliSandbox::with_user("{token: t}");
    let mut pty = run_in_terminal(&home, &["doctor"], &[]);
    assert!(pty.wait().success(), "{:?}", pty.screen());
    let screen = pty.screen();
    assert!(screen.contains("… user \"ada\" in context \"blue\"\r\u{1b}[K"), "{screen:?}");
    assert!(screen.ends_with("All checks passed.\r\n"), "{screen:?}");
}

/// Text that would move the cursor, clear the screen, set the title, hide itself and reorder what follows.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;t\u{7}\rOK\u{8}\u{b}\u{c}\u{7f}\u{9b}31m\u{202e}x\u{2066}y\u{200b}\u{2028}z";

/// Fails if the screen received control characters other than newlines and credlet's colours.
fn assert_no_control_sequences(screen: &str) {
    let text = screen.replace("\r\n", "\n");
    let is_text = |c: char| matches!(c, '\n' | '\t') || credlet_api::is_displayable(c);
    assert!(text.chars().all(is_text), "{screen:?}");
}

/// Returns a double-quoted YAML string.
fn quoted(text: &str) -> String {
    credlet_api::escape_yaml(&serde_json::to_string(text).unwrap())
}

fn sandbox_with_response(status: u16, body: &'static [u8]) -> CliSandbox {
    let mut home = CliSandbox::empty();
    home.server = FakeApiServer::setup(&home.ca)
        .answering(move |_| {
            let response = http::Response::builder().status(status).body(Full::from(body).boxed_unsync()).unwrap();
            ControlFlow::Break(Box::pin(async { response }))
        })
        .start_in_thread();
    home.write_config("{token: t}");
    home
}

#[test]
fn escapes_server_responses() {
    let body: &[u8] = HOSTILE.as_bytes();
    let home = sandbox_with_response(200, body);
    let mut pty = run_in_terminal(&home, &["get", "/x"], &[]);
    assert!(pty.wait().success());
    assert_no_control_sequences(&pty.screen());
    assert!(pty.screen().contains("U+001B[2J") && pty.screen().contains("U+000DOK"), "{:?}", pty.screen());
    // A pipe receives the bytes unchanged.
    assert_eq!(home.run(&["get", "/x"]).data().as_bytes(), body);
}

#[test]
fn indents_server_messages() {
    let body = br#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,
        "message":"no\rOK \u001b[2J\u009b\u202e\nerror: x\r\nhint: run sudo x\u2028error: y"}"#;
    let home = sandbox_with_response(403, body);
    let mut pty = run_in_terminal(&home, &["get", "/x"], &[("TERM", "dumb")]);
    assert_eq!(pty.wait().code(), Some(1));
    let screen = pty.screen();
    assert_no_control_sequences(&screen);
    let forged = |line: &&str| line.starts_with("error: x") || line.starts_with("hint: run sudo");
    assert_eq!(screen.lines().find(forged), None, "{screen:?}");
    assert!(screen.contains("noU+000DOK U+001B[2JU+009BU+202E"), "{screen:?}");
}

#[test]
fn escapes_plugin_stderr() {
    let home = CliSandbox::empty();
    let text = format!("{HOSTILE}\nsecond line\n");
    let plugin = TestPlugin::new().prints_to(OutputStream::Stderr, text.clone()).answers("a token");
    home.write_config(&exec(&plugin, "Never"));
    let mut pty = run_in_terminal(&home, &["get", "/readyz"], &[]);
    assert!(pty.wait().success());
    assert_no_control_sequences(&pty.screen());
    assert!(
        pty.screen().contains("z\r\nsecond line\r\nok") || pty.screen().contains("second line"),
        "{:?}",
        pty.screen()
    );
    assert_eq!(home.run(&["get", "/readyz"]).stderr, text, "a pipe gets the bytes as they are");

    let failing = TestPlugin::failing(1, text);
    home.write_config(&exec(&failing, "Never"));
    for verb in [&["get", "/readyz"][..], &["doctor"], &["token"], &["whoami"], &["-v", "9", "get", "/readyz"]] {
        let mut pty = run_in_terminal(&home, verb, &[("TERM", "dumb")]);
        assert!(!pty.wait().success());
        // `doctor` clears its progress line.
        assert_no_control_sequences(&pty.screen().replace("\r\u{1b}[K", ""));
    }
}

#[test]
fn escapes_kubeconfig_names() {
    let home = CliSandbox::empty();
    let name = quoted(&format!("{HOSTILE}\r\nerror: forged"));
    let exec = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {name}, installHint: {name}, args: [{name}]}}}}"
    );
    let config = home.config(&exec).replace("ada", &name).replace("blue", &name);
    std::fs::write(home.path(".kube/config"), config).unwrap();
    for verb in [
        &["config", "resolve"][..],
        &["config", "resolve", "-o", "json"],
        &["config", "resolve", "-o", "yaml"],
        &["config", "check"],
        &["doctor"],
        &["doctor", "-o", "json"],
        &["get", "/readyz"],
        &["whoami"],
        &["token"],
        &["cache", "wrap", "--all", "--dry-run"],
    ] {
        let mut pty = run_in_terminal(&home, verb, &[("TERM", "dumb")]);
        pty.wait();
        let screen = pty.screen().replace("\r\u{1b}[K", "");
        assert_no_control_sequences(&screen);
        assert!(!screen.contains("invalid JSON or YAML"), "{screen:?}");
        assert!(!screen.lines().any(|line| line.starts_with("error: forged")), "{verb:?}: {screen:?}");
    }
    // With and without colours, which clap uses on a capable terminal and wherever `CI` is set.
    for env in [[("TERM", "dumb"), ("NO_COLOR", "1")], [("TERM", "xterm"), ("CI", "true")]] {
        for verb in [&["--\u{1b}[2J"][..], &["\r\u{9b}"], &["plugin", "eks", "--\u{1b}[2J"], &["get", "/\u{202e}\r"]] {
            let mut pty = run_in_terminal(&home, verb, &env);
            assert!(!pty.wait().success());
            // The printer's own colours of `error:`.
            assert_no_control_sequences(&pty.screen().replace("\u{1b}[31;1merror:\u{1b}[0m", "error:"));
        }
    }
}

#[test]
fn documents_parse_to_the_same_strings() {
    let home = CliSandbox::empty();
    let name = quoted(HOSTILE);
    std::fs::write(home.path(".kube/config"), home.config("{token: t}").replace("ada", &name)).unwrap();
    for format in ["json", "yaml"] {
        let output = home.run(&["config", "resolve", "-o", format]);
        let data = output.data();
        assert!(data.chars().all(|c| c == '\n' || credlet_api::is_displayable(c)), "{data:?}");
        let document: serde_json::Value = match format {
            "json" => serde_json::from_str(data).unwrap(),
            _ => serde_saphyr::from_str(data).unwrap(),
        };
        assert_eq!(document["user"]["value"], HOSTILE);
    }
}

/// `credlet plugin eks` at its prompt for an MFA code.
fn start_mfa_prompt(home: &CliSandbox) -> Pty {
    let config = "[profile x]\nrole_arn = arn:r\nmfa_serial = arn:mfa/ada\ncredential_source = Environment\n";
    std::fs::write(home.path("aws"), config).unwrap();
    let file = home.path("aws").to_str().unwrap().to_owned();
    let env = [
        ("AWS_CONFIG_FILE", file.as_str()),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("AWS_REGION", "eu-west-3"),
        // Nothing listens there.
        ("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1"),
    ];
    let mut pty = run_in_terminal(home, &["plugin", "eks", "token", "-i", "demo", "--profile", "x"], &env);
    pty.read_until("MFA code of arn:mfa/ada for arn:r: ", TIMEOUT);
    assert!(!pty.echoes());
    pty
}

#[test]
fn ctrl_c_at_a_code_prompt_ends_by_sigint() {
    let home = CliSandbox::empty();
    let mut pty = start_mfa_prompt(&home);
    pty.send(b"12\x03");
    assert_eq!(pty.wait().signal(), Some(SIGINT), "{:?}", pty.screen());
    assert!(pty.echoes(), "the terminal is as before");
}

#[test]
fn control_characters_are_not_part_of_a_code() {
    let home = CliSandbox::empty();
    let mut pty = start_mfa_prompt(&home);
    pty.send(b"12\x1b[A3456\n");
    pty.read_until("control characters are not accepted, try again", TIMEOUT);
    pty.read_until("MFA code of", TIMEOUT);
    pty.send(b"123456\n");
    // STS is unreachable.
    assert_eq!(pty.wait().code(), Some(1));
    assert!(!pty.screen().contains("123456"), "{:?}", pty.screen());
    assert!(pty.echoes());
}

#[test]
fn end_of_file_at_a_code_prompt_cancels() {
    let home = CliSandbox::empty();
    let mut pty = start_mfa_prompt(&home);
    pty.send(b"\x04");
    assert_eq!(pty.wait().code(), Some(1), "{:?}", pty.screen());
    assert!(pty.echoes());
}
