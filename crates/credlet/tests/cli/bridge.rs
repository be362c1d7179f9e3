use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use credlet_testkit::plugin::Plugin;

use super::support::{CREDLET, Home, exec_command};

/// The text of the kubeconfig, as it is.
fn text(home: &Home) -> String {
    fs::read_to_string(home.path(".kube/config")).unwrap()
}

/// A plugin's token, which the server takes for ada's.
fn with_plugin() -> (Home, Plugin) {
    let (home, plugin, _) = Home::with_token_plugin();
    (home, plugin)
}

#[test]
fn a_kubeconfig_is_converted_used_and_put_back_to_the_byte() {
    let (home, plugin) = with_plugin();
    let before = text(&home);
    let said = home.run(&["bridge", "convert", "--program", CREDLET]).data().to_owned();
    assert!(said.contains("config.before-credlet"), "{said}");
    let bridged = text(&home);
    assert!(bridged.contains("https://127.0.0.1:") && bridged.contains("proxy"), "{bridged}");
    // Whoever comes next finds a cluster on this machine and a plugin that leads to it: this very command, too.
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
fn a_cluster_keeps_its_address_with_a_bridge_that_is_its_proxy() {
    let (home, plugin) = with_plugin();
    let (before, server) = (text(&home), format!("\n    server: \"{}\"\n", home.server.url()));
    let convert = ["bridge", "convert", "--mode", "proxy-url", "--program", CREDLET];
    home.run(&convert).data();
    let bridged = text(&home);
    assert!(bridged.contains(&server) && bridged.contains("\n    proxy-url: \"http://127.0.0.1:"), "{bridged}");
    // The file has the last word. Nobody listens at that port, and the real server would not be believed.
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

    // The other way is another bridge.
    let kept = || fs::read_dir(home.path(".local/share/credlet/bridges")).unwrap().count();
    for mode in ["server", "proxy-url"] {
        let ran = home.run(&["bridge", "convert", "--mode", mode]);
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains("has a bridge already; `credlet bridge revert`"), "{}", ran.stderr);
        assert_eq!((text(&home), kept()), (bridged.clone(), 1));
    }
    home.run(&["bridge", "revert"]).data();
    assert_eq!((text(&home), kept()), (before, 0));
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
}

/// Lets everybody through who asks by `CONNECT`, and counts them.
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
fn the_proxy_that_a_cluster_had_is_on_the_way_behind_the_bridge_and_there_again_afterwards() {
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
    // A port that is the cluster's proxy already would be its own way out.
    let port = url.rsplit(':').next().unwrap();
    home.run(&["bridge", "convert", "--mode", "proxy-url", "--port", port, "--program", CREDLET]).data();
    let ran = home.run(&["get", "/readyz"]);
    assert!(ran.stderr.contains("is also the proxy on its way to the API server"), "{}", ran.stderr);
    home.run(&["bridge", "revert"]).data();
}

/// In one terminal somebody is ada, in the other bob.
#[test]
fn two_environments_have_two_proxies_behind_one_port_and_neither_answers_for_the_other() {
    let home = Home::empty();
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
                let ran = home.finish(command);
                assert_eq!(ran.json()["server"]["username"], name, "{ran:?}");
            }
        }
        assert_eq!(home.run(&["proxy", "ls"]).data().lines().count(), 2);
        home.run(&["bridge", "revert"]).data();
        while !home.run(&["proxy", "ls"]).data().is_empty() {}
    }
}

#[test]
fn trying_it_out_changes_nothing() {
    let (home, _plugin) = with_plugin();
    let before = text(&home);
    assert!(home.run(&["bridge", "convert", "--dry-run"]).data().contains("would convert"));
    assert_eq!(text(&home), before);
}

#[test]
fn what_cannot_be_is_said_and_left_alone() {
    let home = Home::of("{token: hunter2-of-the-file}");
    home.watch.adopt("token", "hunter2-of-the-file");
    let before = text(&home);
    for (args, wanted) in [
        (vec!["bridge", "convert"], "neither a plugin nor the files"),
        (vec!["bridge", "convert", "--", "pkcs11"], "the words after `--` are wrong: the following required"),
        (vec!["bridge", "convert", "--", "file", "--certificate", "c.crt", "--key", "/c.key"], "its full path"),
        (vec!["bridge", "convert", "--", "pkcs11", "pkcs11:?pin-value=1"], "holds a PIN"),
        (vec!["bridge", "convert", "--context", "red", "--", "exec", "--", "x"], "red"),
        (vec!["bridge", "revert"], "has no bridge"),
        (vec!["bridge", "convert", "--port", "0"], "--port"),
    ] {
        let ran = home.run(&args);
        assert_eq!(ran.code, Some(2), "{args:?}");
        assert!(ran.stderr.contains(wanted), "{args:?}: {}", ran.stderr);
    }
    assert_eq!(text(&home), before);
    let shared = before.replace("contexts:\n", "contexts:\n- {name: red, context: {cluster: blue, user: eve}}\n");
    fs::write(home.path(".kube/config"), &shared).unwrap();
    let ran = home.run(&["bridge", "convert", "--", "exec", "--", "x"]);
    assert!(ran.stderr.contains("\"red\" shares the cluster"), "{}", ran.stderr);
    let ran = home.run(&["bridge", "revert"]);
    assert!(ran.stderr.contains("has no bridge"), "{}", ran.stderr);
    assert_eq!(text(&home), shared);
}

/// Whoever shares a section with a bridge has no way through it, and gets one back.
#[test]
fn a_context_that_has_come_to_share_the_cluster_does_not_keep_the_bridge() {
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
fn the_copy_of_before_goes_when_the_file_is_the_same_again_and_is_named_if_not() {
    let (home, _plugin) = with_plugin();
    let copy = home.path(".kube/config.before-credlet");
    home.run(&["bridge", "convert"]).data();
    home.run(&["bridge", "revert"]).data();
    assert!(!copy.exists());

    home.run(&["bridge", "convert"]).data();
    fs::write(home.path(".kube/config"), text(&home) + "preferences: {}\n").unwrap();
    let moved = copy.with_extension("elsewhere");
    fs::rename(&copy, &moved).unwrap();
    let ran = home.run(&["bridge", "revert"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains(&home.server.url()), "it says where the bridge led: {}", ran.stderr);
    fs::rename(&moved, &copy).unwrap();
    assert!(home.run(&["bridge", "revert"]).data().contains("is still "));
    assert!(text(&home).ends_with("preferences: {}\n"));
    assert!(copy.exists());
}

#[test]
fn a_token_in_the_file_is_gone_from_it_while_the_bridge_stands() {
    let home = Home::empty();
    let token = home.watch.secret("token");
    home.write_config(&format!("{{token: {}}}", token.expose()));
    home.run(&["bridge", "convert", "--", "exec", "--", "some-plugin"]).data();
    assert!(!text(&home).contains(token.expose()));
    home.run(&["bridge", "revert"]).data();
    assert!(text(&home).contains(token.expose()));
}

#[test]
fn a_command_gets_a_kubeconfig_of_its_own_and_leaves_nothing() {
    let (home, plugin) = with_plugin();
    let config = home.run(&["run", "--", "/bin/sh", "-c", "/bin/cat \"$KUBECONFIG\""]).data().to_owned();
    assert!(config.contains("https://127.0.0.1:") && config.contains("client-key-data"), "{config}");
    let script = format!("{CREDLET} get /readyz && exit 7");
    let ran = home.run(&["run", "--", "/bin/sh", "-c", &script]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(7), "ok"), "{}", ran.stderr);
    assert!(plugin.runs() >= 1);
    assert_eq!(home.server.last_request().path, "/readyz");
    let processes = fs::read_dir(home.path("credlet")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = processes.filter(|name| name.to_string_lossy().starts_with("process")).collect();
    assert!(left.is_empty(), "{left:?}");
    let killed = home.run(&["run", "--", "/bin/sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.code, None, "a signal is a signal");
}

/// As Rancher's: the API is below a path, which the client puts before its own.
#[test]
fn the_path_of_a_server_stays_before_those_of_requests_on_either_way() {
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
    // It found the proxy to end, which takes it a moment.
    while !home.run(&["proxy", "ls"]).data().is_empty() {}
}

/// A script of the user's own, say, around `credlet proxy`.
#[test]
fn a_plugin_that_answers_with_a_proxy_of_its_own_is_used_on_either_way() {
    let home = Home::empty();
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
fn a_policy_holds_behind_a_bridge_and_for_a_command_whoever_set_it() {
    let (home, plugin) = with_plugin();
    let exec = "/api/v1/namespaces/shop/pods/web/exec";
    let plugin_words = ["--", plugin.command().to_str().unwrap()].map(str::to_owned);
    let script = format!("{CREDLET} get /readyz && {CREDLET} get {exec}");
    let ran = home.run(&["run", "--deny", "exec", "--", "/bin/sh", "-c", &script]);
    assert_eq!(ran.stdout, "ok", "{ran:?}");
    assert!(ran.stderr.contains("--deny exec (set by the arguments of `credlet run`)"), "{ran:?}");

    let mut convert = vec!["bridge", "convert", "--program", CREDLET, "--", "exec", "--read-only"];
    convert.extend(plugin_words.iter().map(String::as_str));
    home.run(&convert).data();
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    let before = home.server.counts().requests;
    let told = home.run(&["request", "-X", "POST", "/api/v1/namespaces"]);
    assert!(told.stderr.contains("--read-only (set by the arguments of `credlet proxy`)"), "{told:?}");
    // One command in its place is no way around it.
    let script = format!("{CREDLET} get {exec}");
    let ran = home.run(&["run", "--", "/bin/sh", "-c", &script]);
    assert!(ran.stderr.contains("--read-only (set by the arguments of `credlet proxy`)"), "{ran:?}");
    assert_eq!(home.server.counts().requests, before);
    home.run(&["bridge", "revert"]).data();
}

#[test]
fn a_command_gets_through_where_the_user_is_a_proxy_already_bridged_or_not() {
    let (home, plugin) = with_plugin();
    let token = home.watch.secret("another token");
    home.server.accept_token_as(token.expose(), "ada");
    let file = home.path("headers");
    fs::write(&file, format!("Authorization: Bearer {}\n", token.expose())).unwrap();
    let script = format!("{CREDLET} get /readyz");
    for words in
        [vec!["exec", "--", plugin.command().to_str().unwrap()], vec!["headers", "--file", file.to_str().unwrap()]]
    {
        let user = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {CREDLET}, args: [proxy, {}], \
             interactiveMode: Never, provideClusterInfo: true}}}}",
            words.join(", ")
        );
        home.write_config(&user);
        assert_eq!(home.run(&["run", "--", "/bin/sh", "-c", &script]).data(), "ok", "{words:?}");
        home.run(&["bridge", "convert", "--program", CREDLET]).data();
        assert_eq!(home.run(&["run", "--", "/bin/sh", "-c", &script]).data(), "ok", "bridged {words:?}");
        home.run(&["bridge", "revert"]).data();
    }
}

/// A user whose plugin is `credlet proxy` with these words, and more of what stands beside them.
fn signing(words: &[&str], more: &str) -> String {
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {CREDLET}, args: {}, interactiveMode: Never, \
         provideClusterInfo: true{more}}}}}",
        serde_json::json!([&["proxy"], words].concat())
    )
}

fn script(home: &Home, name: &str, text: &str) -> String {
    let path = home.path(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_the_plugin_policy_forbids_is_not_run_in_its_place_either() {
    let home = Home::empty();
    let trace = home.path("trace");
    let program = script(&home, "program", &format!("echo run >>{}", trace.display()));
    let deny = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n";
    let elsewhere = home.path("deny").to_str().unwrap().to_owned();
    fs::write(&elsewhere, deny).unwrap();
    for words in [["headers", "--", &program], ["exec", "--", &program]] {
        home.write_config(&signing(&words, ""));
        for verb in [vec!["get", "/readyz"], vec!["run", "--", "/bin/true"], vec!["shell", "/bin/true"]] {
            let ran = home.run(&[&["--kuberc", &elsewhere], &verb[..]].concat());
            assert_eq!(ran.code, Some(4), "{words:?} {ran:?}");
            assert!(ran.stderr.contains("DenyAll"), "{words:?} {ran:?}");
        }
    }
    // The proxy may be run, and what it runs may not.
    let only = deny.replace("DenyAll", "Allowlist") + &format!("credentialPluginAllowlist: [{{command: {CREDLET}}}]\n");
    fs::write(&elsewhere, only).unwrap();
    let ran = home.run(&["--kuberc", &elsewhere, "run", "--", CREDLET, "get", "/readyz"]);
    assert!(ran.code != Some(0) && ran.stderr.contains("allowlist"), "{ran:?}");
    assert!(!trace.exists());
}

#[test]
fn a_plugin_has_the_variables_of_the_kubeconfig_and_the_command_has_not() {
    let home = Home::empty();
    let token = home.watch.secret("token");
    home.server.accept_token_as(token.expose(), "ada");
    let program = script(&home, "program", r#"echo "Authorization: Bearer $WHOSE""#);
    let env = format!(", env: [{{name: WHOSE, value: '{}'}}]", token.expose());
    home.write_config(&signing(&["headers", "--", &program], &env));
    let command = format!("{CREDLET} get /readyz; echo ${{WHOSE-none}}");
    assert_eq!(home.run(&["run", "--", "/bin/sh", "-c", &command]).data(), "oknone\n");

    // A library looks at those of the process, where nobody can put any.
    home.write_config(&signing(&["pkcs11", "pkcs11:token=t?module-path=/usr/lib/no.so"], &env));
    let ran = home.run(&["run", "--", "/bin/true"]);
    assert!(ran.stderr.contains("the variable WHOSE"), "{ran:?}");
    let mut command = home.command(&["run", "--", "/bin/true"]);
    command.env("WHOSE", token.expose());
    let ran = home.finish(command);
    assert!(ran.stderr.contains("no.so") && !ran.stderr.contains("WHOSE"), "{ran:?}");
}

#[test]
fn words_that_a_plugin_takes_are_taken_by_all() {
    let (home, plugin) = with_plugin();
    let plugin = plugin.command().to_str().unwrap().to_owned();
    let verbose = ["exec", "-v", "3", "--", &plugin];
    home.write_config(&signing(&verbose, ""));
    assert_eq!(home.run(&["run", "--", CREDLET, "get", "/readyz"]).data(), "ok");
    home.run(&["bridge", "convert", "--dry-run"]).data();
    home.run(&[&["bridge", "convert", "--dry-run", "--"], &verbose[..]].concat()).data();
    // Whoever joins another's proxy is a plugin like any other.
    home.write_config(&signing(&["join", "/run/credlet-shared/x/s.sock"], ""));
    home.run(&["bridge", "convert", "--dry-run"]).data();
    let ran = home.run(&["bridge", "convert", "--", "exec", "--foreground", "--", &plugin]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("leave out --foreground"), "{ran:?}");
}

#[test]
fn a_command_that_is_not_there_is_said() {
    let home = Home::of("{token: x}");
    let ran = home.run(&["run", "--", "no-such-command"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("no-such-command"), "{}", ran.stderr);
}
