use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use credlet_platform::dirs::DATA_IN_HOME;
use credlet_testkit::plugin::TestPlugin;

use super::support::{CREDLET, CliSandbox, exec_command};

/// Reads the kubeconfig.
fn text(home: &CliSandbox) -> String {
    fs::read_to_string(home.path(".kube/config")).unwrap()
}

/// Returns a sandbox with a plugin. The server accepts its token as that of ada.
fn with_plugin() -> (CliSandbox, TestPlugin) {
    let (home, plugin, _) = CliSandbox::with_token_plugin();
    (home, plugin)
}

#[test]
fn convert_and_revert_round_trip() {
    let (home, plugin) = with_plugin();
    let before = text(&home);
    let said = home.run(&["bridge", "convert", "--program", CREDLET]).data().to_owned();
    assert!(said.contains("config.before-credlet"), "{said}");
    let bridged = text(&home);
    assert!(bridged.contains("https://127.0.0.1:") && bridged.contains("proxy"), "{bridged}");
    // Clients, including credlet, now use the local port and the plugin.
    for _ in 0..2 {
        assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    }
    assert_eq!(plugin.runs(), 1, "the proxy keeps the token for all");
    home.run(&["bridge", "revert"]).data();
    assert_eq!(text(&home), before);
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    let left: Vec<_> = fs::read_dir(home.path(".kube")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["config"]);
}

#[test]
fn proxy_url_mode_keeps_the_server() {
    let (home, plugin) = with_plugin();
    let (before, server) = (text(&home), format!("\n    server: \"{}\"\n", home.server.url()));
    let convert = ["bridge", "convert", "--mode", "proxy-url", "--program", CREDLET];
    home.run(&convert).data();
    let bridged = text(&home);
    assert!(bridged.contains(&server) && bridged.contains("\n    proxy-url: \"http://127.0.0.1:"), "{bridged}");
    // Nothing listens on that port yet, and the certificate of the real server is not trusted: requests go through the proxy.
    let get = || {
        let mut command = home.command(&["get", "/readyz"]);
        command.env("HTTPS_PROXY", "http://127.0.0.1:1").env("NO_PROXY", "*");
        assert_eq!(home.finish(command).data(), "ok");
    };
    get();
    get();
    assert_eq!(plugin.runs(), 1, "the proxy keeps the token for all");
    home.run(&["proxy", "stop", "--all"]).data();
    get();
    assert_eq!(plugin.runs(), 2, "another proxy");
    assert_eq!(home.run(&["run", "--", CREDLET, "get", "/readyz"]).data(), "ok");

    // Another mode needs a new conversion.
    let kept = || fs::read_dir(home.path(format!("{DATA_IN_HOME}/credlet/bridges"))).unwrap().count();
    for mode in ["server", "proxy-url"] {
        let output = home.run(&["bridge", "convert", "--mode", mode]);
        assert_eq!(output.code, Some(2));
        assert!(output.stderr.contains("is converted already; run `credlet bridge revert`"), "{}", output.stderr);
        assert_eq!((text(&home), kept()), (bridged.clone(), 1));
    }
    home.run(&["bridge", "revert"]).data();
    assert_eq!((text(&home), kept()), (before, 0));
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
}

/// Starts an HTTP proxy that accepts every `CONNECT`. Returns its URL and the number of tunnels.
fn http_proxy() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, count) = (format!("http://{}", listener.local_addr().unwrap()), Arc::<AtomicUsize>::default());
    let seen = Arc::clone(&count);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut head) = (client.unwrap(), Vec::new());
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            let head = String::from_utf8(head).unwrap();
            let mut server = TcpStream::connect(head.split(' ').nth(1).unwrap()).unwrap();
            seen.fetch_add(1, Relaxed);
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            std::thread::spawn(move || std::io::copy(&mut client, &mut server));
        }
    });
    (url, count)
}

#[test]
fn keeps_the_proxy_of_the_cluster() {
    let (home, _plugin) = with_plugin();
    let (url, count) = http_proxy();
    let before =
        text(&home).replace("    certificate-authority:", &format!("    proxy-url: {url}\n    certificate-authority:"));
    fs::write(home.path(".kube/config"), &before).unwrap();
    for mode in ["server", "proxy-url"] {
        let had = count.load(Relaxed);
        home.run(&["bridge", "convert", "--mode", mode, "--program", CREDLET]).data();
        for _ in 0..2 {
            assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
        }
        assert_eq!(count.load(Relaxed), had + 1, "{mode}: the daemon's connection, and none of a client's");
        home.run(&["bridge", "revert"]).data();
        assert_eq!(text(&home), before);
    }
    // The port of the bridge must not be that of the cluster's proxy, which would be a loop.
    let port = url.rsplit(':').next().unwrap();
    home.run(&["bridge", "convert", "--mode", "proxy-url", "--port", port, "--program", CREDLET]).data();
    let output = home.run(&["get", "/readyz"]);
    assert!(output.stderr.contains("cannot be both this proxy and its upstream proxy"), "{}", output.stderr);
    home.run(&["bridge", "revert"]).data();
}

/// The environment of one terminal selects ada, that of the other bob.
#[test]
fn two_environments_share_a_port_with_two_proxies() {
    let home = CliSandbox::empty();
    let plugin = home.path("plugin");
    for name in ["ada", "bob"] {
        let token = home.watch.secret(name);
        home.server.accept_token_as(token.expose(), name);
        let answer = serde_json::json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"token": token.expose()}});
        fs::write(home.path(name), format!("{answer}\n")).unwrap();
    }
    fs::write(&plugin, "#!/bin/sh\nread -r answer <\"${0%/*}/$ROLE\"\necho \"$answer\"\n").unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o700)).unwrap();
    home.write_config(&exec_command(&plugin, "Never"));
    for mode in ["server", "proxy-url"] {
        home.run(&["bridge", "convert", "--mode", mode, "--program", CREDLET]).data();
        for _ in 0..4 {
            for name in ["ada", "bob"] {
                let mut command = home.command(&["whoami", "-o", "json"]);
                command.env("ROLE", name).env("SHLVL", name);
                let output = home.finish(command);
                assert_eq!(output.json()["server"]["username"], name, "{output:?}");
            }
        }
        assert_eq!(home.run(&["proxy", "ls"]).data().lines().count(), 2);
        home.run(&["bridge", "revert"]).data();
        while !home.run(&["proxy", "ls"]).data().is_empty() {}
    }
}

#[test]
fn dry_run_changes_nothing() {
    let (home, _plugin) = with_plugin();
    let before = text(&home);
    assert!(home.run(&["bridge", "convert", "--dry-run"]).data().contains("would convert"));
    assert_eq!(text(&home), before);
    assert!(!home.path(".local").exists() && !home.path("credlet").exists());
}

#[test]
fn rejects_unconvertible_kubeconfigs() {
    let home = CliSandbox::with_user("{token: hunter2-of-the-file}");
    home.watch.adopt("token", "hunter2-of-the-file");
    let before = text(&home);
    for (args, wanted) in [
        (vec!["bridge", "convert"], "neither an exec plugin nor certificate files"),
        (vec!["bridge", "convert", "--", "pkcs11"], "invalid arguments after `--`: the following required"),
        (
            vec!["bridge", "convert", "--", "file", "--certificate", "c.crt", "--key", "/c.key"],
            "must be an absolute path",
        ),
        (vec!["bridge", "convert", "--", "pkcs11", "pkcs11:?pin-value=1"], "`pin-value` is not allowed"),
        (vec!["bridge", "convert", "--context", "red", "--", "exec", "--", "x"], "red"),
        (vec!["bridge", "revert"], "is not converted"),
        (vec!["bridge", "convert", "--port", "0"], "--port"),
    ] {
        let output = home.run(&args);
        assert_eq!(output.code, Some(2), "{args:?}");
        assert!(output.stderr.contains(wanted), "{args:?}: {}", output.stderr);
    }
    assert_eq!(text(&home), before);
    let shared = before.replace("contexts:\n", "contexts:\n- {name: red, context: {cluster: blue, user: eve}}\n");
    fs::write(home.path(".kube/config"), &shared).unwrap();
    let output = home.run(&["bridge", "convert", "--", "exec", "--", "x"]);
    assert!(output.stderr.contains("\"red\" uses the cluster"), "{}", output.stderr);
    let output = home.run(&["bridge", "revert"]);
    assert!(output.stderr.contains("is not converted"), "{}", output.stderr);
    assert_eq!(text(&home), shared);
}

/// A context that uses the converted cluster with another user works again after the revert.
#[test]
fn reverts_although_the_cluster_is_shared_now() {
    let (home, _plugin) = with_plugin();
    let with_red =
        |text: String| text.replace("contexts:\n", "contexts:\n- {name: red, context: {cluster: blue, user: eve}}\n");
    let before = text(&home);
    home.run(&["bridge", "convert", "--program", CREDLET]).data();
    fs::write(home.path(".kube/config"), with_red(text(&home))).unwrap();
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    home.run(&["bridge", "revert"]).data();
    assert_eq!(text(&home), with_red(before));
}

#[test]
fn revert_removes_an_identical_backup() {
    let (home, _plugin) = with_plugin();
    let copy = home.path(".kube/config.before-credlet");
    home.run(&["bridge", "convert"]).data();
    home.run(&["bridge", "revert"]).data();
    assert!(!copy.exists());

    home.run(&["bridge", "convert"]).data();
    fs::write(home.path(".kube/config"), text(&home) + "preferences: {}\n").unwrap();
    let moved = copy.with_extension("elsewhere");
    fs::rename(&copy, &moved).unwrap();
    let output = home.run(&["bridge", "revert"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains(&home.server.url()), "it says where the bridge led: {}", output.stderr);
    fs::rename(&moved, &copy).unwrap();
    assert!(home.run(&["bridge", "revert"]).data().contains(" is kept"));
    assert!(text(&home).ends_with("preferences: {}\n"));
    assert!(copy.exists());
}

#[test]
fn converted_file_has_no_token() {
    let home = CliSandbox::empty();
    let token = home.watch.secret("token");
    home.write_config(&format!("{{token: {}}}", token.expose()));
    home.run(&["bridge", "convert", "--", "exec", "--", "some-plugin"]).data();
    assert!(!text(&home).contains(token.expose()));
    home.run(&["bridge", "revert"]).data();
    assert!(text(&home).contains(token.expose()));
}

#[test]
fn run_uses_a_temporary_kubeconfig() {
    let (home, plugin) = with_plugin();
    let config = home.run(&["run", "--", "/bin/sh", "-c", "/bin/cat \"$KUBECONFIG\""]).data().to_owned();
    assert!(config.contains("https://127.0.0.1:") && config.contains("client-key-data"), "{config}");
    let script = format!("{CREDLET} get /readyz && exit 7");
    let output = home.run(&["run", "--", "/bin/sh", "-c", &script]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(7), "ok"), "{}", output.stderr);
    assert!(plugin.runs() >= 1);
    assert_eq!(home.server.last_request().path, "/readyz");
    let processes = fs::read_dir(home.path("credlet")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = processes.filter(|name| name.to_string_lossy().starts_with("process")).collect();
    assert!(left.is_empty(), "{left:?}");
    let killed = home.run(&["run", "--", "/bin/sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.code, None, "a signal is a signal");
}

/// Like Rancher, whose API servers are below a path.
#[test]
fn keeps_the_path_of_the_server() {
    let (home, _plugin) = with_plugin();
    let config = text(&home).replace(&home.server.url(), &format!("{}/k8s/clusters/x", home.server.url()));
    fs::write(home.path(".kube/config"), &config).unwrap();
    let below = || home.server.last_request().path;
    home.run(&["get", "/readyz"]);
    assert_eq!(below(), "/k8s/clusters/x/readyz", "as it is without a proxy");
    home.run(&["run", "--", CREDLET, "get", "/one"]);
    assert_eq!(below(), "/k8s/clusters/x/one");
    home.run(&["bridge", "convert", "--program", CREDLET]).data();
    home.run(&["get", "/two"]);
    assert_eq!(below(), "/k8s/clusters/x/two");
    home.run(&["bridge", "revert"]).data();
    assert_eq!(text(&home), config);
    // The proxy shuts down asynchronously.
    while !home.run(&["proxy", "ls"]).data().is_empty() {}
}

/// For example a script around `credlet proxy`.
#[test]
fn uses_exec_proxy_of_the_original_plugin() {
    let home = CliSandbox::empty();
    let token = home.watch.secret("token");
    home.server.accept_token_as(token.expose(), "ada");
    let (headers, wrapper) = (home.path("headers"), home.path("wrapper"));
    fs::write(&headers, format!("Authorization: Bearer {}\n", token.expose())).unwrap();
    let script = format!("#!/bin/sh\nexec {CREDLET} proxy headers --file {}\n", headers.display());
    fs::write(&wrapper, script).unwrap();
    for (path, mode) in [(&headers, 0o600), (&wrapper, 0o700)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let user = exec_command(&wrapper, "Never").replace("exec: {", "exec: {provideClusterInfo: true, ");
    home.write_config(&user);
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    assert_eq!(home.run(&["run", "--", CREDLET, "get", "/readyz"]).data(), "ok");
    home.run(&["bridge", "convert", "--program", CREDLET]).data();
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    home.run(&["proxy", "stop", "--all"]).data();
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok", "both are started again");
    home.run(&["proxy", "stop", "--all"]);
}

#[test]
fn enforces_request_policies() {
    let (home, plugin) = with_plugin();
    let exec = "/api/v1/namespaces/shop/pods/web/exec";
    let plugin_words = ["--", plugin.command().to_str().unwrap()].map(str::to_owned);
    let script = format!("{CREDLET} get /readyz && {CREDLET} get {exec}");
    let output = home.run(&["run", "--deny", "exec", "--", "/bin/sh", "-c", &script]);
    assert_eq!(output.stdout, "ok", "{output:?}");
    assert!(output.stderr.contains("--deny exec (set by the arguments of `credlet run`)"), "{output:?}");

    let mut convert = vec!["bridge", "convert", "--program", CREDLET, "--", "exec", "--read-only"];
    convert.extend(plugin_words.iter().map(String::as_str));
    home.run(&convert).data();
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    let before = home.server.counts().requests;
    let output = home.run(&["request", "-X", "POST", "/api/v1/namespaces"]);
    assert!(output.stderr.contains("--read-only (set by the arguments of `credlet proxy`)"), "{output:?}");
    // `credlet run` with the same arguments does not bypass it.
    let script = format!("{CREDLET} get {exec}");
    let output = home.run(&["run", "--", "/bin/sh", "-c", &script]);
    assert!(output.stderr.contains("--read-only (set by the arguments of `credlet proxy`)"), "{output:?}");
    assert_eq!(home.server.counts().requests, before);
    home.run(&["bridge", "revert"]).data();
}

#[test]
fn run_works_with_an_existing_proxy_user() {
    let (home, plugin) = with_plugin();
    let token = home.watch.secret("another token");
    home.server.accept_token_as(token.expose(), "ada");
    let file = home.path("headers");
    fs::write(&file, format!("Authorization: Bearer {}\n", token.expose())).unwrap();
    let script = format!("{CREDLET} get /readyz");
    for args in
        [vec!["exec", "--", plugin.command().to_str().unwrap()], vec!["headers", "--file", file.to_str().unwrap()]]
    {
        let user = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {CREDLET}, args: [proxy, {}], \
             interactiveMode: Never, provideClusterInfo: true}}}}",
            args.join(", ")
        );
        home.write_config(&user);
        assert_eq!(home.run(&["run", "--", "/bin/sh", "-c", &script]).data(), "ok", "{args:?}");
        home.run(&["bridge", "convert", "--program", CREDLET]).data();
        assert_eq!(home.run(&["run", "--", "/bin/sh", "-c", &script]).data(), "ok", "bridged {args:?}");
        home.run(&["bridge", "revert"]).data();
    }
}

/// A user with the plugin `credlet proxy`, these arguments and further fields of `exec`.
fn proxy_user(args: &[&str], more: &str) -> String {
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {CREDLET}, args: {}, interactiveMode: Never, \
         provideClusterInfo: true{more}}}}}",
        serde_json::json!([&["proxy"], args].concat())
    )
}

fn script(home: &CliSandbox, name: &str, text: &str) -> String {
    let path = home.path(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn plugin_policy_applies_to_run_and_bridge() {
    let home = CliSandbox::empty();
    let trace = home.path("trace");
    let program = script(&home, "program", &format!("echo run >>{}", trace.display()));
    let deny = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n";
    let elsewhere = home.path("deny").to_str().unwrap().to_owned();
    fs::write(&elsewhere, deny).unwrap();
    for args in [["headers", "--", &program], ["exec", "--", &program]] {
        home.write_config(&proxy_user(&args, ""));
        for verb in [vec!["get", "/readyz"], vec!["run", "--", "/bin/true"], vec!["shell", "/bin/true"]] {
            let output = home.run(&[&["--kuberc", &elsewhere], &verb[..]].concat());
            assert_eq!(output.code, Some(4), "{args:?} {output:?}");
            assert!(output.stderr.contains("DenyAll"), "{args:?} {output:?}");
        }
    }
    // The policy allows the proxy, but not the plugin that it runs.
    let only = deny.replace("DenyAll", "Allowlist") + &format!("credentialPluginAllowlist: [{{command: {CREDLET}}}]\n");
    fs::write(&elsewhere, only).unwrap();
    let output = home.run(&["--kuberc", &elsewhere, "run", "--", CREDLET, "get", "/readyz"]);
    assert!(output.code != Some(0) && output.stderr.contains("allowlist"), "{output:?}");
    assert!(!trace.exists());
}

#[test]
fn exec_env_reaches_only_the_plugin() {
    let home = CliSandbox::empty();
    let token = home.watch.secret("token");
    home.server.accept_token_as(token.expose(), "ada");
    let program = script(&home, "program", r#"echo "Authorization: Bearer $WHOSE""#);
    let env = format!(", env: [{{name: WHOSE, value: '{}'}}]", token.expose());
    home.write_config(&proxy_user(&["headers", "--", &program], &env));
    let command = format!("{CREDLET} get /readyz; echo ${{WHOSE-none}}");
    assert_eq!(home.run(&["run", "--", "/bin/sh", "-c", &command]).data(), "oknone\n");

    // A PKCS#11 library reads the environment of the process, which `exec.env` does not change.
    home.write_config(&proxy_user(&["pkcs11", "pkcs11:token=t?module-path=/usr/lib/no.so"], &env));
    let output = home.run(&["run", "--", "/bin/true"]);
    assert!(output.stderr.contains("the variable WHOSE"), "{output:?}");
    let mut command = home.command(&["run", "--", "/bin/true"]);
    command.env("WHOSE", token.expose());
    let output = home.finish(command);
    assert!(output.stderr.contains("no.so") && !output.stderr.contains("WHOSE"), "{output:?}");
}

#[test]
fn run_accepts_proxy_arguments() {
    let (home, plugin) = with_plugin();
    let plugin = plugin.command().to_str().unwrap().to_owned();
    let verbose = ["exec", "-v", "3", "--", &plugin];
    home.write_config(&proxy_user(&verbose, ""));
    assert_eq!(home.run(&["run", "--", CREDLET, "get", "/readyz"]).data(), "ok");
    home.run(&["bridge", "convert", "--dry-run"]).data();
    home.run(&[&["bridge", "convert", "--dry-run", "--"], &verbose[..]].concat()).data();
    // `credlet proxy join` is run like any other plugin.
    home.write_config(&proxy_user(&["join", "/run/credlet-shared/x/s.sock"], ""));
    home.run(&["bridge", "convert", "--dry-run"]).data();
    let output = home.run(&["bridge", "convert", "--", "exec", "--foreground", "--", &plugin]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("--foreground cannot be used with a bridge"), "{output:?}");
}

#[test]
fn run_reports_missing_command() {
    let home = CliSandbox::with_user("{token: x}");
    let output = home.run(&["run", "--", "no-such-command"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("no-such-command"), "{}", output.stderr);
}
