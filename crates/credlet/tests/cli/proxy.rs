use std::fs;
#[cfg(target_os = "linux")]
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;

use super::support::{CREDLET, Home};

/// A user whose plugin is this very program, with these words after `proxy`.
fn user(words: &str) -> String {
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {CREDLET}, args: [proxy, {words}], \
         interactiveMode: Never, provideClusterInfo: true}}}}"
    )
}

/// With headers from a file, which the server takes for ada's.
fn with_headers(more: &str) -> Home {
    let home = Home::empty();
    let token = home.watch.secret("token");
    home.server.accept_token_as(token.expose(), "ada");
    let file = home.path("headers");
    fs::write(&file, format!("Authorization: Bearer {}\nX-Mine: yes\n", token.expose())).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    home.write_config(&user(&format!("headers, --file, '{}'{more}", file.display())));
    home
}

#[test]
fn one_daemon_signs_for_several_commands_and_ends_when_it_is_told() {
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
    assert!(home.run(&["proxy", "stop"]).data().contains("told to end"));
    let again = home.run(&["proxy", "stop", name]);
    // It may be there for a moment still.
    assert!(again.code == Some(0) || again.stderr.contains("no proxy is called"), "{}", again.stderr);
}

#[test]
fn a_plugin_in_the_foreground_is_the_proxy_and_goes_with_its_client() {
    let home = with_headers(", --foreground");
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    // The lock is free when the client is gone, and that ends it: there is nobody to list soon.
    for _ in 0..600 {
        if home.run(&["proxy", "ls"]).data().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("it is still there");
}

#[test]
fn a_plugin_in_the_foreground_whose_client_is_gone_already_ends_well_and_without_a_word() {
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
fn to_ask_a_proxy_something_takes_no_look_at_the_systems_authorities() {
    let home = with_headers("");
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    let pipe = home.path("authorities");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let is_read = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // It waits until somebody reads, who finds nothing there.
        scope.spawn(|| {
            let _written = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
            is_read.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let mut command = home.command(&["proxy", "status"]);
        command.env("SSL_CERT_FILE", &pipe);
        let status = home.finish(command);
        let was_read = is_read.load(std::sync::atomic::Ordering::SeqCst);
        // Lets the other one go.
        if !was_read {
            fs::File::open(&pipe).unwrap();
        }
        assert!(status.data().contains("process"), "{status:?}");
        assert!(!was_read, "a socket of one's own needs none of them");
    });
    home.run(&["proxy", "stop"]);
}

#[test]
fn a_daemon_keeps_a_log_for_its_user_alone_with_paths_and_without_queries_or_secrets() {
    for (more, each_request) in [("", false), (", -v, '3'", true)] {
        let home = with_headers(more);
        let query = home.watch.secret("query");
        home.run(&["get", &format!("/version?token={}", query.expose())]);
        let listed: serde_json::Value = home.run(&["proxy", "ls", "-o", "json"]).json();
        let log = std::path::Path::new(listed[0]["log"].as_str().unwrap());
        assert_eq!(fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(log).unwrap();
        home.watch.text(&text);
        assert!(text.contains("info: the proxy listens"), "{text}");
        assert_eq!(text.contains("method=GET path=/version code=200"), each_request, "{text}");
        home.run(&["proxy", "stop"]);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_daemon_is_not_left_with_secrets_of_others_in_its_environment() {
    let home = with_headers("");
    let mut command = home.command(&["get", "/readyz"]);
    command.env("SOMEBODYS_TOKEN", "x").env("AWS_PROFILE", "mine");
    assert_eq!(home.finish(command).data(), "ok");
    let listed: serde_json::Value = home.run(&["proxy", "ls", "-o", "json"]).json();
    has_only_its_own_environment(&listed[0]["pid"]);
    home.run(&["proxy", "stop"]);
}

/// That is, `AWS_PROFILE=mine` and nothing of somebody's.
#[cfg(target_os = "linux")]
fn has_only_its_own_environment(pid: &serde_json::Value) {
    // Only root can look into it, since it is closed to others.
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
fn a_plugin_in_the_foreground_has_no_secrets_of_others_and_a_log_for_as_long_as_it_lives() {
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
    assert!(text.contains("info: the proxy listens"), "{text}");
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

/// The names of the proxies that are running.
fn names(home: &Home) -> Vec<String> {
    let listed: serde_json::Value = home.run(&["proxy", "ls", "-o", "json"]).json();
    listed.as_array().unwrap().iter().map(|proxy| proxy["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_policy_is_held_by_a_proxy_of_its_own_and_whoever_is_refused_is_told_by_what() {
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
        (rules[2], &["get", "/api/v1/secrets"], "no --allow covers it"),
        (rules[2], &["get", "/readyz/../api/v1/secrets"], "cannot judge"),
    ] {
        home.write_config(&user(&format!("headers, --file, '{}', {rule}", headers.display())));
        let ran = home.run(args);
        assert_ne!(ran.code, Some(0), "{args:?}");
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(told.contains(by) && told.contains("set by the arguments of `credlet proxy`"), "{args:?}: {ran:?}");
    }
    assert_eq!(home.server.counts().requests, before, "none of them went on");
    home.run(&["proxy", "stop", "--all"]);
}

#[test]
fn a_proxy_of_roots_is_shared_with_a_group_whose_members_join_it() {
    // Only root can play two users.
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

    // Somebody else, at home elsewhere, with a copy of the program: ours may be where others do not get.
    let theirs = tempfile::tempdir().unwrap();
    let program = theirs.path().join("program");
    // By another process: what this one has open to write, if only for a moment, a program that another test starts just
    // then has as well, and then it cannot be run.
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
        let ran = home.finish(command);
        let _ = fs::remove_dir_all(theirs.path().join("credlet"));
        ran
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
    // Whoever listens sees each request: a member who shares one has no clients but its own.
    std::os::unix::fs::chown(&socket, Some(64_003), None).unwrap();
    let other = ask(64_004, GROUP, &["get", "/readyz"]);
    assert!(other.stderr.contains("belongs to another user"), "{other:?}");
    home.run(&["proxy", "stop"]);
}

#[test]
fn a_proxy_that_says_nothing_does_not_hide_the_others() {
    let home = with_headers("");
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    let listed = |home: &Home| home.run(&["proxy", "ls", "-o", "json"]);
    let proxies: serde_json::Value = serde_json::from_str(listed(&home).data()).unwrap();
    let pid = i32::try_from(proxies[0]["pid"].as_i64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    home.write_config(&user(&format!("headers, --plain, --file, '{}'", home.path("headers").display())));
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let ran = listed(&home);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let others: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(others.as_array().map(Vec::len), Some(1), "{ran:?}");
    assert_ne!(others[0]["name"], proxies[0]["name"]);
    assert!(ran.stderr.contains("did not answer") && ran.stderr.contains("kill -CONT"), "{ran:?}");
    home.run(&["proxy", "stop", "--all"]).data();
}

#[test]
fn a_client_without_locks_is_told_what_to_do() {
    let home = with_headers("");
    let mut command = home.command(&["proxy", "headers", "--file", home.path("headers").to_str().unwrap()]);
    let info = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
        "spec":{"interactive":false,"cluster":{"server":"https://127.0.0.1:1"}}}"#;
    command.env("KUBERNETES_EXEC_INFO", info);
    let ran = home.finish(command);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("knows nothing of exec proxies"), "{}", ran.stderr);
    assert!(ran.stderr.contains("credlet bridge convert"), "{}", ran.stderr);
}

#[test]
fn switched_off_it_does_nothing() {
    let home = with_headers("");
    let mut command = home.command(&["get", "/readyz"]);
    command.env("CLIENT_EXEC_PROXY", "false");
    let ran = home.finish(command);
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr.contains("switched off by CLIENT_EXEC_PROXY"), "{}", ran.stderr);
    for args in [&["run", "--", "true"][..], &["bridge", "convert"]] {
        let mut command = home.command(args);
        command.env("CLIENT_EXEC_PROXY", "0");
        assert!(home.finish(command).stderr.contains("switched off"), "{args:?}");
    }
}

#[test]
fn mistakes_in_the_words_are_said_and_no_pin_is_repeated() {
    let home = Home::empty();
    let pin = home.watch.secret("pin");
    let with_pin = format!("pkcs11:token=a?pin-value={}", pin.expose());
    for (args, wanted) in [
        (vec!["proxy", "pkcs11"], "URI"),
        (vec!["proxy", "headers"], "--file"),
        (vec!["proxy", "exec"], "PLUGIN"),
        (vec!["proxy", "file", "--key", "/k"], "--certificate"),
        (vec!["proxy", "file", "--key", "k", "--certificate", "/c"], "its full path"),
        (vec!["proxy", "sigv4", "--linger", "soon"], "--linger"),
        (vec!["proxy", "sigv4", "--max-life", "0"], "serves nobody"),
        (vec!["proxy", "exec", "--deny", "exec,ecex", "--", "x"], "one of exec, attach"),
        (vec!["proxy", "exec", "--allow", "/api", "--", "x"], "verbs and a path"),
        (vec!["proxy", "exec", "--socket-group", "no such group", "--", "x"], "there is no such group"),
        (vec!["proxy", "exec", "--socket-dir", "/x", "--", "x"], "--socket-group"),
        (vec!["proxy", "join", "s.sock"], "its full path"),
        (vec!["proxy", "stop", "nobody"], "no proxy is called"),
        (vec!["proxy", "status"], "no proxy is running"),
        (vec!["run"], "COMMAND"),
    ] {
        let ran = home.run(&args);
        assert_eq!(ran.code, Some(2), "{args:?}");
        assert!(ran.stderr.contains(wanted), "{args:?}: {}", ran.stderr);
    }
    for option in ["--linger", "--max-life"] {
        let told = home.run(&["proxy", "sigv4", option, "soon"]).stderr;
        assert!(told.contains("1m30s") && !told.contains("no limit"), "{told}");
    }
    for (uri, wanted) in [("pkcs12:", "begins with `pkcs11:`"), (with_pin.as_str(), "holds a PIN")] {
        let ran = home.run(&["proxy", "pkcs11", uri]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
        assert!(ran.stderr.contains(wanted) && !ran.stderr.contains(pin.expose()), "{}", ran.stderr);
        let ran = home.run(&["bridge", "convert", "--", "pkcs11", uri]);
        assert!(!ran.stderr.contains(pin.expose()), "{}", ran.stderr);
    }
}

#[test]
fn without_a_cluster_it_says_how_to_name_one() {
    let home = with_headers("");
    let headers = home.path("headers");
    let plugin = ["proxy", "headers", "--file", headers.to_str().unwrap()];
    let told = |more: &[&str]| {
        let mut command = home.command(&[&plugin, more].concat());
        command.current_dir(home.dir.path()).env(
            "KUBERNETES_EXEC_INFO",
            r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}"#,
        );
        let ran = home.finish(command);
        assert_eq!(ran.code, Some(1));
        ran.stderr
    };
    assert!(told(&[]).contains("provideClusterInfo: true"));
    let relative = told(&["--server", "https://a", "--certificate-authority", "ca.pem"]);
    assert!(relative.contains("ca.pem: it must be named by its full path"), "{relative}");
}
