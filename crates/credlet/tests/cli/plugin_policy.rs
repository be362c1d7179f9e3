//! A kubeconfig must not disable or bypass the user's plugin policy. Each test is a malicious kubeconfig.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use credlet_platform::dirs::CONFIG_IN_HOME;
use serde_json::json;

use super::support::{CREDLET, CliSandbox, CommandOutput};

const EXEC_INFO: &str =
    r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;

/// A user that allows `credlet` and links to it in kuberc, and `aws` behind the cache.
struct PolicySandbox {
    home: CliSandbox,
}

impl PolicySandbox {
    fn new() -> Self {
        let victim = Self { home: CliSandbox::empty() };
        let links = ["credlet-cache-aws", "credlet-oidc"].map(|name| victim.home.path(name));
        for link in &links {
            symlink(CREDLET, link).unwrap();
        }
        victim.allow(&[CREDLET, links[0].to_str().unwrap(), links[1].to_str().unwrap()]);
        victim.write(&format!("{CONFIG_IN_HOME}/credlet/cache-allowlist"), "aws\n");
        // Files that come with the malicious kubeconfig.
        victim.write(&format!("evil/{CONFIG_IN_HOME}/credlet/cache-allowlist"), "/bin/sh\nsh\n");
        victim.write("evil/credlet/cache-allowlist", "/bin/sh\nsh\n");
        victim.write("evil/kuberc", &preference("AllowAll"));
        victim.write("evil/.kube/kuberc", &preference("AllowAll"));
        victim
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.home.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn program(&self, name: &str, text: &str) -> String {
        let path = self.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Allows only these commands.
    fn allow(&self, commands: &[&str]) {
        let entries: String = commands.iter().map(|command| format!("- command: {command}\n")).collect();
        let list = format!("credentialPluginAllowlist:\n{entries}");
        self.write(".kube/kuberc", &(preference("Allowlist") + &list));
    }

    fn path(&self, name: &str) -> String {
        self.home.path(name).to_str().unwrap().to_owned()
    }

    /// The path of a file that exists if a program of the kubeconfig was run.
    fn trace(&self) -> String {
        self.path("trace")
    }

    /// A command line that creates the trace file.
    fn attack(&self) -> [String; 3] {
        ["/bin/sh".to_owned(), "-c".to_owned(), format!("echo run >{}", self.trace())]
    }

    /// Sends a request with a kubeconfig that runs this plugin.
    fn connect(&self, command: &str, args: &[&str], env: &[(&str, &str)]) -> CommandOutput {
        let env: Vec<_> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let user = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never",
            "provideClusterInfo": true,
            "command": command,
            "args": args,
            "env": env,
        }});
        self.home.write_config(&user.to_string());
        self.home.run(&["get", "/readyz"])
    }

    /// Runs `command` as a client would run the plugin of a kubeconfig.
    fn plugin_run(&self, args: &[&str], env: &[(&str, &str)]) -> CommandOutput {
        let mut command = self.home.command(args);
        command.env("KUBERNETES_EXEC_INFO", EXEC_INFO).envs(env.iter().copied());
        self.home.finish(command)
    }

    /// Like [`plugin_run`](Self::plugin_run) for a link to the command, by a client without a policy.
    #[expect(clippy::disallowed_methods, reason = "a test plays the client")]
    fn link_run(&self, link: &str, args: &[&str]) -> CommandOutput {
        let usual = self.home.command(&[]);
        let mut command = Command::new(link);
        command.args(args).env_clear().envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("KUBERNETES_EXEC_INFO", EXEC_INFO).stdin(Stdio::null());
        self.home.finish(command)
    }

    #[track_caller]
    fn refused(&self, output: &CommandOutput, reason: &str) {
        assert_ne!(output.code, Some(0), "{output:?}");
        assert!(output.stderr.contains(reason), "{output:?}");
        assert!(!Path::new(&self.trace()).exists(), "{output:?}");
    }
}

fn preference(policy: &str) -> String {
    format!("apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: {policy}\n")
}

/// Values of `exec.env` that try to disable the lists.
fn overrides(victim: &PolicySandbox) -> Vec<Vec<(&'static str, String)>> {
    let evil = || victim.path("evil");
    vec![
        vec![],
        vec![("XDG_CONFIG_HOME", "/nonexistent".to_owned())],
        vec![("XDG_CONFIG_HOME", evil())],
        vec![("HOME", victim.path("missing-home"))],
        vec![("HOME", evil())],
        vec![("HOME", evil()), ("XDG_CONFIG_HOME", evil()), ("KUBERC", "off".to_owned())],
        vec![("KUBERC", victim.path("evil/kuberc"))],
        vec![("KUBERNETES_EXEC_INFO", String::new())],
    ]
}

fn borrowed<'a>(env: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    env.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

#[test]
fn a_plugin_behind_the_cache_needs_permission() {
    let victim = PolicySandbox::new();
    let [sh, c, script] = &victim.attack();
    for env in overrides(&victim) {
        let output = victim.connect(CREDLET, &["cache", "--", sh, c, script], &borrowed(&env));
        victim.refused(&output, "cache-allowlist");
    }
    // Without the list kuberc applies.
    fs::remove_file(victim.path(&format!("{CONFIG_IN_HOME}/credlet/cache-allowlist"))).unwrap();
    for env in overrides(&victim) {
        let output = victim.connect(CREDLET, &["cache", "--", sh, c, script], &borrowed(&env));
        victim.refused(&output, "allowlist");
    }
}

#[test]
fn a_command_that_prints_headers_needs_permission() {
    let victim = PolicySandbox::new();
    let [sh, c, script] = &victim.attack();
    for env in overrides(&victim) {
        for life in [&["--"][..], &["--foreground", "--"]] {
            let output =
                victim.connect(CREDLET, &[&["proxy", "headers"], life, &[sh, c, script]].concat(), &borrowed(&env));
            victim.refused(&output, "it is not on the plugin allowlist");
        }
    }
    let printing = victim.program("printing", "echo 'Authorization: Bearer t'");
    victim.home.server.accept_token_as("t", "ada");
    victim.allow(&[CREDLET, &printing]);
    assert_eq!(victim.connect(CREDLET, &["proxy", "headers", "--", &printing], &[]).data(), "ok");
    victim.home.run(&["proxy", "stop", "--all"]);
}

#[test]
fn a_plugin_behind_a_proxy_needs_permission() {
    let victim = PolicySandbox::new();
    let [sh, c, script] = &victim.attack();
    let permissive = victim.path("evil/kuberc");
    for env in overrides(&victim) {
        for flags in [&[][..], &["--kuberc", &permissive], &["--kuberc", ""]] {
            let args = [&["proxy", "exec"], flags, &["--", sh, c, script]].concat();
            victim.refused(&victim.connect(CREDLET, &args, &borrowed(&env)), "it is not on the plugin allowlist");
        }
    }
}

#[test]
fn verbs_heed_the_accounts_policy_in_a_plugin_run() {
    let victim = PolicySandbox::new();
    let [sh, c, script] = victim.attack();
    let user = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": sh, "args": [c, script],
    }});
    let other = victim.write("evil/config", &victim.home.config(&user.to_string()));
    let permissive = victim.path("evil/kuberc");
    for env in overrides(&victim) {
        for verb in [&["token"][..], &["get", "/readyz"], &["whoami"], &["doctor"]] {
            let args = [verb, &["--kubeconfig", &other, "--kuberc", &permissive]].concat();
            let output = victim.plugin_run(&args, &borrowed(&env));
            assert_ne!(output.code, Some(0), "{output:?}");
            assert!(!Path::new(&victim.trace()).exists(), "{output:?}");
        }
    }
}

#[test]
fn run_and_shell_are_not_plugins() {
    let victim = PolicySandbox::new();
    let [sh, c, script] = &victim.attack();
    let server = victim.home.server.url();
    for args in [
        vec!["run", "--server", &server, "--", sh, c, script],
        vec!["shell", "--server", &server, sh, "--", c, script],
        vec!["shell", "--server", &server],
    ] {
        let output = victim.connect(CREDLET, &args, &[("SHELL", &victim.program("evil/shell", script))]);
        victim.refused(&output, "cannot be credential plugins");
        assert_eq!(victim.plugin_run(&args, &[]).code, Some(4));
    }
}

#[test]
fn restrictions_hold_for_what_a_plugin_starts() {
    let victim = PolicySandbox::new();
    let [sh, c, script] = &victim.attack();
    let server = victim.home.server.url();
    victim.write(&format!("{CONFIG_IN_HOME}/credlet/cache-allowlist"), &format!("{CREDLET}\n"));
    for inner in [
        vec!["run", "--server", &server, "--", sh, c, script],
        vec!["cache", "--", sh, c, script],
        vec!["cache", "--", CREDLET, "cache", "--", sh, c, script],
    ] {
        for outer in
            [&["cache", "--", CREDLET][..], &["proxy", "exec", "--", CREDLET], &["proxy", "headers", "--", CREDLET]]
        {
            let output = victim.connect(
                CREDLET,
                &[outer, &inner].concat(),
                &[("KUBERC", "off"), ("HOME", &victim.path("missing-home"))],
            );
            assert_ne!(output.code, Some(0), "{output:?}");
            assert!(!Path::new(&victim.trace()).exists(), "{outer:?} {inner:?} {output:?}");
        }
    }
}

#[test]
fn a_credential_process_needs_permission() {
    let victim = PolicySandbox::new();
    let keys = r#"{"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "x"}"#;
    let program = victim.program("evil/process", &format!("echo run >{}; echo '{keys}'", victim.trace()));
    let profile = victim.write("evil/aws", &format!("[default]\nregion = x\ncredential_process = {program}\n"));
    let args = ["plugin", "eks", "get-token", "--cluster-name", "blue"];
    for mut env in overrides(&victim) {
        env.push(("AWS_CONFIG_FILE", profile.clone()));
        victim.refused(&victim.connect(CREDLET, &args, &borrowed(&env)), "it is not on the plugin allowlist");
    }
    victim.allow(&[CREDLET, &program]);
    let output = victim.plugin_run(&args, &[("AWS_CONFIG_FILE", &profile)]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(Path::new(&victim.trace()).exists());
}

#[test]
fn a_module_needs_the_accounts_list() {
    let victim = PolicySandbox::new();
    let module = victim.write("evil/evil.so", "code");
    victim.write("evil/credlet/pkcs11-modules", &format!("{module}\n"));
    victim.write(&format!("evil/{CONFIG_IN_HOME}/credlet/pkcs11-modules"), &format!("{module}\n"));
    let uri = format!("pkcs11:token=t?module-path={module}");
    // The daemon of this signer inherits only some of the variables.
    let args = ["proxy", "pkcs11", "--env", "CREDLET_TEST_ACCOUNT_HOME", &uri];
    for env in overrides(&victim) {
        let output = victim.connect(CREDLET, &args, &borrowed(&env));
        victim.refused(&output, &victim.path(&format!("{CONFIG_IN_HOME}/credlet/pkcs11-modules")));
    }
    victim.write(&format!("{CONFIG_IN_HOME}/credlet/pkcs11-modules"), &format!("{module}\n"));
    let output = victim.connect(CREDLET, &args, &[]);
    assert!(output.code != Some(0) && !output.stderr.contains("pkcs11-modules"), "{output:?}");
}

#[test]
fn an_image_provider_needs_permission_in_a_plugin_run() {
    let victim = PolicySandbox::new();
    let config = "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\nproviders:\n- name: provider\n  \
                  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 1h\n  matchImages: ['*.io']\n";
    let config = victim.write("evil/providers", config);
    victim.program("evil/provider", &format!("echo run >{}", victim.trace()));
    let args = ["image", "get", "--config", &config, "--bin-dir", &victim.path("evil"), "a.io/b"];
    let output = victim.plugin_run(&args, &[("KUBERC", "off")]);
    assert!(output.stderr.contains("it is not on the plugin allowlist"), "{output:?}");
    assert!(!Path::new(&victim.trace()).exists());
    // A command in a terminal needs no permission.
    victim.home.run(&args);
    assert!(Path::new(&victim.trace()).exists());
}

#[test]
fn a_docker_helper_needs_permission_in_a_plugin_run() {
    let victim = PolicySandbox::new();
    victim.program("docker-credential-evil", &format!("echo run >{}", victim.trace()));
    let request =
        r#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"a.io/b"}"#;
    let input = victim.write("request", request);
    let run = |env: &[(&str, &str)]| {
        let mut command = victim.home.command(&["plugin", "docker-helper", "--helper", "evil"]);
        command.stdin(fs::File::open(&input).unwrap()).envs(env.iter().copied());
        victim.home.finish(command)
    };
    victim.refused(&run(&[("KUBERNETES_EXEC_INFO", EXEC_INFO), ("KUBERC", "off")]), "plugin allowlist");
    run(&[]);
    assert!(Path::new(&victim.trace()).exists());
}

#[test]
fn a_link_for_one_plugin_runs_the_listed_file() {
    let victim = PolicySandbox::new();
    let link = victim.path("credlet-cache-aws");
    let token = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}"#;
    let good = victim.program("aws", &format!("echo '{token}'"));
    victim.program("evil/bin/aws", &format!("echo run >{}", victim.trace()));
    victim.home.server.accept_token_as("t", "ada");
    let evil = victim.path("evil/bin");
    // By a path on the list.
    victim.write(&format!("{CONFIG_IN_HOME}/credlet/cache-allowlist"), &format!("{good}\n"));
    victim.refused(&victim.connect(&link, &["eks"], &[("PATH", &evil)]), "cache-allowlist");
    assert_eq!(victim.connect(&link, &["eks"], &[]).data(), "ok");
    // By kuberc alone, which allows the link and not the plugin.
    fs::remove_file(victim.path(&format!("{CONFIG_IN_HOME}/credlet/cache-allowlist"))).unwrap();
    assert_eq!(victim.connect(&link, &["ec2"], &[]).data(), "ok");
    victim.allow(&[CREDLET]);
    victim.refused(&victim.link_run(&link, &["s3"]), "plugin allowlist");
}

#[test]
fn a_list_that_cannot_be_used_allows_nothing() {
    let victim = PolicySandbox::new();
    let good = victim.program("aws", "echo run");
    let run = || victim.plugin_run(&["cache", "--", &good], &[]);
    let list = victim.path(&format!("{CONFIG_IN_HOME}/credlet/cache-allowlist"));
    fs::write(&list, format!("{good}\n")).unwrap();
    fs::set_permissions(&list, fs::Permissions::from_mode(0o666)).unwrap();
    victim.refused(&run(), "can be changed by other users");
    fs::set_permissions(&list, fs::Permissions::from_mode(0o600)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&list, Some(4242), None).unwrap();
        victim.refused(&run(), "can be changed by other users");
    }
    fs::remove_file(&list).unwrap();
    credlet_testkit::make_fifo(&list);
    victim.refused(&run(), "is not a regular file");
}

/// `credlet run` runs the signer of a `credlet proxy` plugin itself, so the policy applies to the same programs.
#[test]
fn programs_of_a_kubeconfig_need_permission_in_credlet_run() {
    let victim = PolicySandbox::new();
    let [sh, c, script] = &victim.attack();
    let profile = victim.program("evil/process", &format!("echo run >{}", victim.trace()));
    let profile = victim.write("evil/aws", &format!("[default]\nregion = x\ncredential_process = {profile}\n"));
    let home = victim.path("missing-home");
    let env = [("KUBERC", "off"), ("HOME", &*home), ("AWS_CONFIG_FILE", &*profile)];
    for args in [
        vec!["proxy", "headers", "--", sh, c, script],
        vec!["proxy", "exec", "--", sh, c, script],
        vec!["proxy", "sigv4", "--region", "x"],
    ] {
        victim.connect(CREDLET, &args, &env);
        let output = victim.home.run(&["run", "--", CREDLET, "get", "/readyz"]);
        victim.refused(&output, "credentialPluginAllowlist");
    }
}
