//! What the key of an entry depends on.

use std::fs::File;
use std::time::Duration;

use credlet_testkit::plugin::TestPlugin;

use crate::rejection::shell;
use crate::sandbox::{CacheSandbox, V1};

fn plugin() -> TestPlugin {
    TestPlugin::answering("first").expiring_in(HOUR).on_the_next_run().answers("second").expiring_in(HOUR)
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn changed_identity_file_changes_the_key() {
    for name in
        [".aws/config", ".aws/credentials", ".azure/azureProfile.json", ".oci/config", ".config/gcloud/active_config"]
    {
        let (home, plugin) = (CacheSandbox::new(), plugin());
        let path = home.file(name, "[default]\n");
        assert_eq!(home.token(&[], &plugin), "first");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(file.metadata().unwrap().modified().unwrap() + Duration::from_secs(1)).unwrap();
        assert_eq!(home.token(&[], &plugin), "second", "{name}");
    }
}

#[test]
fn watched_file_changes_the_key() {
    let (home, plugin) = (CacheSandbox::new(), plugin());
    let path = home.path("mine");
    let options = ["--watch", path.to_str().unwrap()];
    assert_eq!(home.token(&options, &plugin), "first");
    home.file("mine", "now it is there");
    assert_eq!(home.token(&options, &plugin), "second");
}

#[test]
fn session_variables_do_not_change_the_key() {
    for (variable, options, expected) in [
        ("AWS_PROFILE", &[][..], "second"),
        ("KUBECONFIG", &[], "second"),
        ("MY_USER", &[], "second"),
        ("KRB5CCNAME", &[], "second"),
        ("XDG_CONFIG_HOME", &[], "second"),
        ("TERM", &[], "first"),
        ("SSH_CONNECTION", &[], "first"),
        ("TERM", &["--env", "TERM"], "second"),
    ] {
        let (home, plugin) = (CacheSandbox::new(), plugin());
        assert_eq!(home.token(options, &plugin), "first");
        let mut call = home.cache(options, &plugin);
        call.env(variable, "another");
        assert_eq!(home.run(call).token(), expected, "{variable}");
    }
}

#[test]
fn all_kinds_of_sessions_share_one_entry() {
    let (home, plugin) = (CacheSandbox::new(), plugin());
    let sessions: [&[(&str, &str)]; 6] = [
        &[("USER", "ada"), ("TERM", "xterm-256color"), ("DISPLAY", ":0"), ("LANG", "de_DE.UTF-8"), ("SHLVL", "1")],
        &[("USER", "ada"), ("TERM", "xterm"), ("WINDOWID", "7"), ("PWD", "/srv"), ("OLDPWD", "/"), ("PAGER", "less")],
        &[("USER", "ada"), ("TERM", "tmux-256color"), ("TMUX", "/tmp/tmux-0/default,1,0"), ("TMUX_PANE", "%1")],
        &[("USER", "ada"), ("SSH_CLIENT", "192.0.2.1 1 22"), ("SSH_CONNECTION", "x"), ("SSH_TTY", "/dev/pts/1")],
        &[("SHELL", "/bin/sh"), ("MAILTO", "ada")],
        &[("USER", "ada"), ("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("EDITOR", "vi")],
    ];
    for session in sessions {
        let mut call = home.cache(&[], &plugin);
        call.env("LOGNAME", "ada").envs(session.iter().copied());
        // A separate client process: the third call of one would mean that the token was rejected.
        let args: Vec<_> = std::iter::once(call.get_program()).chain(call.get_args()).collect();
        let ran = home.run(shell(&call, "\"$@\"; exit $?", &args));
        assert_eq!(ran.token(), "first", "{session:?}");
    }
    assert_eq!((plugin.runs(), home.keys().len()), (1, 1));
}

const TWO_USERS: &str = "\
apiVersion: v1
kind: Config
current-context: prod
contexts:
- {name: prod, context: {cluster: c, user: prod}}
- {name: dev, context: {cluster: c, user: dev}}
clusters:
- {name: c, cluster: {server: 'https://127.0.0.1:1'}}
users:
- name: prod
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: PLUGIN
      env:
      - {name: OS_USERNAME, value: prod-admin}
      interactiveMode: Never
- name: dev
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: PLUGIN
      env:
      - {name: OS_USERNAME, value: dev-intern}
      interactiveMode: Never
";

#[test]
fn users_with_other_exec_env_have_own_entries() {
    let home = CacheSandbox::new();
    let status = r#""status":{"token":"token-of-$OS_USERNAME","expirationTimestamp":"2099-01-01T00:00:00Z"}"#;
    let answer = format!(r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",{status}}}"#);
    let answer = answer.replace('"', "\\\"");
    let plugin = home.script("plugin", &format!("echo x >> {}/runs\necho \"{answer}\"", home.dir().display()));
    home.file(".kube/config", TWO_USERS.replace("PLUGIN", plugin.to_str().unwrap()));
    let wrapped = home.run(home.credlet(&["cache", "wrap", "--all", "--program", env!("CARGO_BIN_EXE_credlet")]));
    assert!(wrapped.stdout.contains("wrapped prod"), "{wrapped:?}");
    for _ in 0..2 {
        for (context, token) in [("prod", "token-of-prod-admin"), ("dev", "token-of-dev-intern")] {
            let ran = home.run(home.credlet(&["token", "--context", context, "-o", "raw"]));
            assert_eq!(ran.stdout.trim(), token, "{}", ran.stderr);
        }
    }
    assert_eq!(std::fs::read_to_string(home.path("runs")).unwrap().lines().count(), 2);
    assert_eq!(home.keys().len(), 2);
}

#[test]
fn explain_lists_differing_variables() {
    let home = CacheSandbox::new();
    let (one, other) = (home.watch.secret("one"), home.watch.secret("other"));
    let plugin = plugin();
    let mut call = home.cache(&[], &plugin);
    call.env("OS_PASSWORD", one.expose()).env("ONLY_THERE", "1234");
    home.run(call).token();
    for file in std::fs::read_dir(home.entries()).unwrap() {
        home.watch.text(String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap()));
    }
    let mut explain = home.credlet(&["cache", "explain", "--"]);
    explain.arg(plugin.command()).env("KUBERNETES_EXEC_INFO", V1).env("OS_PASSWORD", other.expose());
    let explained = home.run(explain);
    home.watch.text(&explained.stdout);
    let key = home.entry().file_name().unwrap().to_str().unwrap()[..12].to_owned();
    let (_, differences) = explained.stdout.split_once(&format!("differs from entry {key} in\n")).unwrap();
    let lines: Vec<_> = differences.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines, ["variable OS_PASSWORD another value", "variable ONLY_THERE not in this call"]);
}

#[test]
fn replaced_plugin_is_run_again() {
    let home = CacheSandbox::new();
    let print = |token: &str| {
        let status = format!(r#"{{"token":"{token}","expirationTimestamp":"2099-01-01T00:00:00Z"}}"#);
        format!("echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{status}}}'")
    };
    let plugin = home.script("plugin", &print("old"));
    let token = || {
        let mut call = home.credlet(&["cache", "--"]);
        call.arg(&plugin).env("KUBERNETES_EXEC_INFO", V1);
        home.run(call).token()
    };
    assert_eq!(token(), "old");
    let new = home.script("new", &print("new"));
    std::fs::rename(new, &plugin).unwrap();
    assert_eq!(token(), "new");
}

#[test]
fn relative_argument_depends_on_working_dir() {
    let home = CacheSandbox::new();
    let status = r#"{\"token\":\"$(cat "$1")\",\"expirationTimestamp\":\"2099-01-01T00:00:00Z\"}"#;
    let text =
        format!("echo \"{{\\\"apiVersion\\\":\\\"client.authentication.k8s.io/v1\\\",\\\"status\\\":{status}}}\"");
    let plugin = home.script("plugin", &text);
    for argument in ["./who", "who"] {
        for name in ["prod", "dev", "prod"] {
            home.file(format!("{name}/who"), name);
            let mut call = home.credlet(&["cache", "--"]);
            call.arg(&plugin).arg(argument).env("KUBERNETES_EXEC_INFO", V1).current_dir(home.path(name));
            assert_eq!(home.run(call).token(), name, "{argument}");
        }
    }
    assert_eq!(home.keys().len(), 4);
}

#[test]
fn clusters_have_separate_entries() {
    let (home, plugin) = (CacheSandbox::new(), plugin());
    let token = |server: &str| {
        let cluster = format!("\"spec\":{{\"cluster\":{{\"server\":\"{server}\"}},");
        let mut call = home.cache(&[], &plugin);
        call.env("KUBERNETES_EXEC_INFO", V1.replace("\"spec\":{", &cluster));
        home.run(call).token()
    };
    assert_eq!(token("https://a"), "first");
    assert_eq!(token("https://b"), "second");
    assert_eq!(token("https://a"), "first");
}
