use std::fs;
#[cfg(target_os = "linux")]
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;

use super::support::{CREDLET, CliSandbox};

/// A user with the plugin `credlet proxy` and these arguments.
fn user(args: &str) -> String {
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {CREDLET}, args: [proxy, {args}], \
         interactiveMode: Never, provideClusterInfo: true}}}}"
    )
}

/// Returns a sandbox with a header file that the server accepts as that of ada.
fn with_headers(more: &str) -> CliSandbox {
    let home = CliSandbox::empty();
    let token = home.watch.secret("token");
    home.server.accept_token_as(token.expose(), "ada");
    let file = home.path("headers");
    fs::write(&file, format!("Authorization: Bearer {}\nX-Mine: yes\n", token.expose())).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    home.write_config(&user(&format!("headers, --file, '{}'{more}", file.display())));
    home
}

#[test]
fn one_daemon_serves_several_commands_until_stopped() {
    let home = with_headers("");
    for _ in 0..3 {
        assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    }
    assert_eq!(home.server.last_request().header("x-mine"), Some("yes"));
    let listed: serde_json::Value = home.run(&["proxy", "ls", "-o", "json"]).json();
    let [proxy] = listed.as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert!(home.server.url().ends_with(proxy["server"].as_str().unwrap()), "{proxy}");
    let name = proxy["name"].as_str().unwrap();
    assert!(home.run(&["proxy", "status", &name[..6]]).data().contains(name));
    assert!(home.run(&["proxy", "metrics"]).data().contains("# TYPE "));
    assert!(home.run(&["proxy", "stop"]).data().contains(": stopped"));
    let again = home.run(&["proxy", "stop", name]);
    // The daemon exits asynchronously.
    assert!(again.code == Some(0) || again.stderr.contains("no running proxy named"), "{}", again.stderr);
}

#[test]
fn foreground_plugin_exits_with_its_client() {
    let home = with_headers(", --foreground");
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    // The proxy exits when the client releases its lock.
    for _ in 0..600 {
        if home.run(&["proxy", "ls"]).data().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("it is still there");
}

#[test]
fn foreground_plugin_exits_if_client_has_exited() {
    let home = with_headers("");
    let file = home.path("headers");
    let mut command = home.command(&["proxy", "headers", "--foreground", "--file", file.to_str().unwrap()]);
    let info = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {
            "interactive": false,
            "lockFilePath": home.path("no such lock"),
            "cluster": {"server": "https://127.0.0.1:1"},
        },
    });
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    assert_eq!(home.finish(command).data(), "");
}

#[test]
fn control_requests_do_not_load_system_roots() {
    let home = with_headers("");
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    let pipe = home.path("authorities");
    credlet_testkit::make_fifo(&pipe);
    let is_read = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Opening the pipe for writing blocks until it is read.
        scope.spawn(|| {
            let _written = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
            is_read.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let mut command = home.command(&["proxy", "status"]);
        command.env("SSL_CERT_FILE", &pipe);
        let status = home.finish(command);
        let was_read = is_read.load(std::sync::atomic::Ordering::SeqCst);
        // Unblocks the writer.
        if !was_read {
            fs::File::open(&pipe).unwrap();
        }
        assert!(status.data().contains("process"), "{status:?}");
        assert!(!was_read, "a socket of one's own needs none of them");
    });
    home.run(&["proxy", "stop"]);
}

#[test]
fn daemon_log_is_private_and_has_no_secrets() {
    for (more, each_request) in [("", false), (", -v, '3'", true)] {
        let home = with_headers(more);
        let query = home.watch.secret("query");
        home.run(&["get", &format!("/version?token={}", query.expose())]);
        let listed: serde_json::Value = home.run(&["proxy", "ls", "-o", "json"]).json();
        let log = std::path::Path::new(listed[0]["log"].as_str().unwrap());
        assert_eq!(fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(log).unwrap();
        home.watch.text(&text);
        assert!(text.contains("info: proxy listening"), "{text}");
        assert_eq!(text.contains("method=GET path=/version code=200"), each_request, "{text}");
        home.run(&["proxy", "stop"]);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn daemon_environment_has_no_secrets() {
    let home = with_headers("");
    let mut command = home.command(&["get", "/readyz"]);
    command.env("SOMEBODYS_TOKEN", "x").env("AWS_PROFILE", "mine");
    assert_eq!(home.finish(command).data(), "ok");
    let listed: serde_json::Value = home.run(&["proxy", "ls", "-o", "json"]).json();
    has_only_its_own_environment(&listed[0]["pid"]);
    home.run(&["proxy", "stop"]);
}

/// Checks that the environment has `AWS_PROFILE=mine` and no secrets of other programs.
#[cfg(target_os = "linux")]
fn has_only_its_own_environment(pid: &serde_json::Value) {
    // Only root can read it, because the process is not dumpable.
    match fs::read(format!("/proc/{pid}/environ")) {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            assert!(text.contains("AWS_PROFILE=mine") && !text.contains("SOMEBODYS_TOKEN"), "{text}");
        }
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
    }
}

#[test]
#[cfg(target_os = "linux")]
fn foreground_plugin_has_clean_environment_and_log() {
    let home = with_headers(", --foreground, -v, '3'");
    let mut command = home.command(&["get", "/watch?interval_ms=10"]);
    command.env("SOMEBODYS_TOKEN", "x").env("AWS_PROFILE", "mine").stdout(std::process::Stdio::piped());
    let mut client = command.spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let listed: serde_json::Value = home.run(&["proxy", "ls", "-o", "json"]).json();
    has_only_its_own_environment(&listed[0]["pid"]);
    let log = std::path::Path::new(listed[0]["log"].as_str().unwrap());
    let text = fs::read_to_string(log).unwrap();
    home.watch.text(&text);
    assert!(text.contains("info: proxy listening"), "{text}");
    assert!(text.contains("method=GET path=/watch code=200"), "{text}");
    client.kill().unwrap();
    client.wait().unwrap();
    for _ in 0..3_000 {
        if !log.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the log of a proxy that is gone stays");
}

/// The names of the running proxies.
fn names(home: &CliSandbox) -> Vec<String> {
    let listed: serde_json::Value = home.run(&["proxy", "ls", "-o", "json"]).json();
    listed.as_array().unwrap().iter().map(|proxy| proxy["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_policy_has_its_proxy_and_names_the_rule() {
    let home = with_headers("");
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    let headers = home.path("headers");
    let rules = ["--read-only", "--deny, 'exec,impersonate'", "--allow, 'get /readyz', --allow, discovery"];
    for (at, rule) in rules.iter().enumerate() {
        home.write_config(&user(&format!("headers, --file, '{}', {rule}", headers.display())));
        assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
        assert_eq!(names(&home).len(), at + 2, "another policy is another proxy");
    }
    let listed: serde_json::Value = home.run(&["proxy", "ls", "-o", "json"]).json();
    let policies: std::collections::BTreeSet<_> =
        listed.as_array().unwrap().iter().filter_map(|proxy| proxy["policy"].as_str()).collect();
    let expected = ["--allow 'get /readyz' --allow 'discovery'", "--deny exec --deny impersonate", "--read-only"];
    assert_eq!(policies.into_iter().collect::<Vec<_>>(), expected);

    let before = home.server.counts().requests;
    for (rule, args, by) in [
        (rules[0], &["request", "-X", "DELETE", "/api/v1/namespaces/shop"][..], "--read-only"),
        (rules[0], &["get", "/api/v1/namespaces/shop/pods/web/exec"], "--read-only"),
        (rules[1], &["get", "/api/v1/namespaces/shop/pods/web/%65xec"], "--deny exec"),
        (rules[1], &["get", "/readyz", "--as", "root"], "--deny impersonate"),
        (rules[2], &["get", "/api/v1/secrets"], "no matching --allow"),
        (rules[2], &["get", "/readyz/../api/v1/secrets"], "cannot be checked"),
    ] {
        home.write_config(&user(&format!("headers, --file, '{}', {rule}", headers.display())));
        let output = home.run(args);
        assert_ne!(output.code, Some(0), "{args:?}");
        let output = format!("{}{}", output.stdout, output.stderr);
        assert!(
            output.contains(by) && output.contains("set by the arguments of `credlet proxy`"),
            "{args:?}: {output:?}"
        );
    }
    assert_eq!(home.server.counts().requests, before, "none of them went on");
    home.run(&["proxy", "stop", "--all"]);
}

#[test]
fn root_proxy_is_shared_with_a_group() {
    // Only root can start processes of two users.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const GROUP: u32 = 64_001;
    let shared = tempfile::tempdir().unwrap();
    let open = |path: &std::path::Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    open(shared.path());
    let home = with_headers(&format!(
        ", --read-only, --socket-group, '{GROUP}', --socket-dir, '{}'",
        shared.path().join("here").display()
    ));
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    let listed: serde_json::Value = home.run(&["proxy", "ls", "-o", "json"]).json();
    let socket = listed[0]["shared"].as_str().unwrap().to_owned();
    assert!(home.run(&["proxy", "status"]).data().contains(&socket));

    // Another user with a copy of the program, because the original may be in a private directory.
    let theirs = tempfile::tempdir().unwrap();
    let program = theirs.path().join("program");
    // Written by another process: a child of another test could inherit the open file, and the program could not be executed (ETXTBSY).
    #[expect(clippy::disallowed_methods, reason = "a test plays the person at the shell")]
    let copied = std::process::Command::new("cp").arg(CREDLET).arg(&program).status().unwrap();
    assert!(copied.success());
    let user = user(&format!("join, '{socket}'")).replace(CREDLET, program.to_str().unwrap());
    let config = home
        .config(&user)
        .replace(home.path("ca.pem").to_str().unwrap(), theirs.path().join("ca.pem").to_str().unwrap());
    fs::write(theirs.path().join("config"), config).unwrap();
    fs::copy(home.path("ca.pem"), theirs.path().join("ca.pem")).unwrap();
    let ask = |uid: u32, gid: u32, args: &[&str]| {
        std::os::unix::fs::chown(theirs.path(), Some(uid), Some(gid)).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test plays the person at the shell")]
        let mut command = std::process::Command::new(&program);
        command.args(args).env_clear().env("HOME", theirs.path()).env("XDG_RUNTIME_DIR", theirs.path());
        command.env("KUBECONFIG", theirs.path().join("config")).current_dir("/").stdin(std::process::Stdio::null());
        std::os::unix::process::CommandExt::uid(&mut command, uid);
        std::os::unix::process::CommandExt::gid(&mut command, gid);
        let output = home.finish(command);
        let _ = fs::remove_dir_all(theirs.path().join("credlet"));
        output
    };
    for name in ["config", "ca.pem", "program"] {
        open(&theirs.path().join(name));
    }
    assert_eq!(ask(64_003, GROUP, &["get", "/readyz"]).data(), "ok");
    let refused = ask(64_003, GROUP, &["request", "-X", "DELETE", "/api/v1/namespaces/a"]);
    assert!(refused.stderr.contains("--read-only"), "{refused:?}");
    let stranger = ask(64_004, 64_002, &["get", "/readyz"]);
    assert_ne!(stranger.code, Some(0));
    assert!(stranger.stderr.to_lowercase().contains("permission denied"), "{stranger:?}");
    // A member of the group cannot share the proxy with others: the proxy of a member accepts only that member's clients.
    std::os::unix::fs::chown(&socket, Some(64_003), None).unwrap();
    let other = ask(64_004, GROUP, &["get", "/readyz"]);
    assert!(other.stderr.contains("belongs to another user"), "{other:?}");
    home.run(&["proxy", "stop"]);
}

#[test]
fn ls_skips_unresponsive_proxy() {
    let home = with_headers("");
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    let listed = |home: &CliSandbox| home.run(&["proxy", "ls", "-o", "json"]);
    let proxies: serde_json::Value = serde_json::from_str(listed(&home).data()).unwrap();
    let pid = i32::try_from(proxies[0]["pid"].as_i64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    home.write_config(&user(&format!("headers, --plain, --file, '{}'", home.path("headers").display())));
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let output = listed(&home);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let others: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(others.as_array().map(Vec::len), Some(1), "{output:?}");
    assert_ne!(others[0]["name"], proxies[0]["name"]);
    assert!(output.stderr.contains("timed out after") && output.stderr.contains("kill -CONT"), "{output:?}");
    home.run(&["proxy", "stop", "--all"]).data();
}

#[test]
fn reports_client_without_lock_file() {
    let home = with_headers("");
    let mut command = home.command(&["proxy", "headers", "--file", home.path("headers").to_str().unwrap()]);
    let info = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
        "spec":{"interactive":false,"cluster":{"server":"https://127.0.0.1:1"}}}"#;
    command.env("KUBERNETES_EXEC_INFO", info);
    let output = home.finish(command);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""));
    assert!(output.stderr.contains("does not support exec proxies"), "{}", output.stderr);
    assert!(output.stderr.contains("credlet bridge convert"), "{}", output.stderr);
}

#[test]
fn disabled_proxy_does_nothing() {
    let home = with_headers("");
    let mut command = home.command(&["get", "/readyz"]);
    command.env("CLIENT_EXEC_PROXY", "false");
    let output = home.finish(command);
    assert_ne!(output.code, Some(0));
    assert!(output.stderr.contains("disabled by CLIENT_EXEC_PROXY"), "{}", output.stderr);
    for args in [&["run", "--", "true"][..], &["bridge", "convert"]] {
        let mut command = home.command(args);
        command.env("CLIENT_EXEC_PROXY", "0");
        assert!(home.finish(command).stderr.contains("are disabled by"), "{args:?}");
    }
}

#[test]
fn reports_invalid_arguments_without_pin() {
    let home = CliSandbox::empty();
    let pin = home.watch.secret("pin");
    let with_pin = format!("pkcs11:token=a?pin-value={}", pin.expose());
    for (args, wanted) in [
        (vec!["proxy", "pkcs11"], "URI"),
        (vec!["proxy", "headers"], "--file"),
        (vec!["proxy", "exec"], "PLUGIN"),
        (vec!["proxy", "file", "--key", "/k"], "--certificate"),
        (vec!["proxy", "file", "--key", "k", "--certificate", "/c"], "must be an absolute path"),
        (vec!["proxy", "sigv4", "--linger", "soon"], "--linger"),
        (vec!["proxy", "sigv4", "--max-life", "0"], "must be greater than 0"),
        (vec!["proxy", "exec", "--deny", "exec,ecex", "--", "x"], "one of exec, attach"),
        (vec!["proxy", "exec", "--allow", "/api", "--", "x"], "verbs and a path"),
        (vec!["proxy", "exec", "--socket-group", "no such group", "--", "x"], "unknown group"),
        (vec!["proxy", "exec", "--socket-dir", "/x", "--", "x"], "--socket-group"),
        (vec!["proxy", "join", "s.sock"], "must be an absolute path"),
        (vec!["proxy", "stop", "nobody"], "no running proxy named"),
        (vec!["proxy", "status"], "no proxy is running"),
        (vec!["run"], "COMMAND"),
    ] {
        let output = home.run(&args);
        assert_eq!(output.code, Some(2), "{args:?}");
        assert!(output.stderr.contains(wanted), "{args:?}: {}", output.stderr);
    }
    for option in ["--linger", "--max-life"] {
        let output = home.run(&["proxy", "sigv4", option, "soon"]).stderr;
        assert!(output.contains("1m30s") && !output.contains("no limit"), "{output}");
    }
    for (uri, wanted) in [("pkcs12:", "must begin with `pkcs11:`"), (with_pin.as_str(), "`pin-value` is not allowed")] {
        let output = home.run(&["proxy", "pkcs11", uri]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
        assert!(output.stderr.contains(wanted) && !output.stderr.contains(pin.expose()), "{}", output.stderr);
        let output = home.run(&["bridge", "convert", "--", "pkcs11", uri]);
        assert!(!output.stderr.contains(pin.expose()), "{}", output.stderr);
    }
}

#[test]
fn reports_missing_cluster() {
    let home = with_headers("");
    let headers = home.path("headers");
    let plugin = ["proxy", "headers", "--file", headers.to_str().unwrap()];
    let output = |more: &[&str]| {
        let mut command = home.command(&[&plugin, more].concat());
        command.current_dir(home.dir()).env(
            "KUBERNETES_EXEC_INFO",
            r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}"#,
        );
        let output = home.finish(command);
        assert_eq!(output.code, Some(1));
        output.stderr
    };
    assert!(output(&[]).contains("provideClusterInfo: true"));
    let relative = output(&["--server", "https://a", "--certificate-authority", "ca.pem"]);
    assert!(relative.contains("ca.pem: must be an absolute path"), "{relative}");
}
