//! Opening a page in the user's browser.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use credlet_api::exec::{ApiVersion, EXEC_INFO_ENV, ExecCredentialSpec};
use credlet_exec::{CommandSpec, Platform, PluginPolicy, ProgramError, RunLimits, StdinSource, program_policy};

/// For the shell, which exits as soon as it has started the browser.
const LIMITS: RunLimits = RunLimits { timeout: Duration::from_secs(10), max_stdout: 4096 };

/// The shell that starts the browser. An absolute path, because a kubeconfig can set PATH.
const SHELL: &str = "/bin/sh";

/// Programs that open a page, if neither the flag nor `$BROWSER` names one.
#[cfg(target_os = "macos")]
const OPENERS: [&str; 1] = ["open"];
#[cfg(not(target_os = "macos"))]
const OPENERS: [&str; 4] = ["xdg-open", "wslview", "x-www-browser", "www-browser"];

/// Variable with the browser: commands separated by `:`.
const BROWSER: &str = "BROWSER";

/// Variables by which a shell runs code: bash evaluates `PS4` for each command if `SHELLOPTS` has `xtrace`. The browser is
/// started by a shell and is often a script itself.
const SHELL_HOOKS: [&str; 6] = ["SHELLOPTS", "BASHOPTS", "PS4", "ENV", "BASH_ENV", "PROMPT_COMMAND"];

/// Starts a browser for `url`. Returns whether one was started; whether it shows the page is unknown.
///
/// In a plugin run the user's policy must allow the program, whether the flag, `$BROWSER` or [`OPENERS`] names it: a
/// kubeconfig can set the first two, and by the environment what the third ones start.
///
/// The browser must outlive this process. The runner kills what it has started when the run is dropped, so a shell starts
/// the browser in the background and exits.
pub(super) async fn open(url: &str, command: Option<&str>, platform: &Platform) -> bool {
    let policy = match program_policy(None, &*platform.env) {
        Ok(policy) => policy,
        Err(error) => {
            tracing::warn!(%error, "browser not started");
            return false;
        }
    };
    let Some(args) = opener(url, command, &policy, platform) else { return false };
    let script = r#"exec </dev/null >/dev/null 2>&1; "$@" &"#;
    let args = ["-c", script, "sh"].map(str::to_owned).into_iter().chain(args).collect();
    let program = CommandSpec {
        path: PathBuf::from(SHELL),
        args,
        env: environment(platform),
        stdin: StdinSource::Null,
        limits: LIMITS,
    };
    platform.runner.run(program).await.is_ok_and(|finished| finished.exit.is_success())
}

/// The environment without [`SHELL_HOOKS`] and without credlet's own variables. In a plugin run the variable that marks one
/// stays, without the request's data, so that the restrictions of a plugin run apply to programs that the browser starts.
/// `$BROWSER` is dropped, because `xdg-open` would run it without consulting the policy.
fn environment(platform: &Platform) -> Vec<(OsString, OsString)> {
    let is_dropped = |name: &str| {
        name == BROWSER
            || SHELL_HOOKS.contains(&name)
            || ["CREDLET_", "BASH_FUNC_"].iter().any(|start| name.starts_with(start))
    };
    let vars = platform.env.vars().into_iter().filter(|(name, _)| !name.to_str().is_some_and(is_dropped));
    vars.map(|(name, value)| if name == EXEC_INFO_ENV { (name, plugin_run_mark()) } else { (name, value) }).collect()
}

fn plugin_run_mark() -> OsString {
    ExecCredentialSpec::default().encode(ApiVersion::V1).into()
}

/// The command line of the first program that exists and is allowed: that of the flag, one of `$BROWSER`, or one of
/// [`OPENERS`].
fn opener(url: &str, command: Option<&str>, policy: &PluginPolicy, platform: &Platform) -> Option<Vec<String>> {
    let command_line = |command: &str| {
        let mut args: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let resolved = policy.resolve(args.first()?, &*platform.env);
        if let Err(error @ ProgramError::Denied(_)) = &resolved {
            tracing::warn!(%error, "browser not started");
        }
        args[0] = resolved.ok()?.to_str()?.to_owned();
        if args.iter().any(|arg| arg.contains("%s")) {
            args = args.into_iter().map(|arg| arg.replace("%s", url)).collect();
        } else {
            args.push(url.to_owned());
        }
        Some(args)
    };
    if let Some(command) = command {
        return command_line(command);
    }
    let chosen = platform.env.var(BROWSER).and_then(|browsers| browsers.into_string().ok()).unwrap_or_default();
    chosen.split(':').chain(OPENERS).find_map(command_line)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::sync::Arc;

    use credlet_exec::{Env as _, FixedEnv};

    use super::*;

    const URL: &str = "http://127.0.0.1:8000/";

    /// The account's home directory with programs in `bin`, and a kuberc file that allows these.
    fn account_allowing(allowed: &[&str]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for dir in ["bin", ".kube"] {
            fs::create_dir(home.path().join(dir)).unwrap();
        }
        for name in ["sh", "firefox", "xdg-open"] {
            let path = home.path().join("bin").join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let entries: String = allowed.iter().map(|name| format!("- command: {name}\n")).collect();
        let kuberc = format!(
            "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: Allowlist\n\
             credentialPluginAllowlist:\n{entries}"
        );
        fs::write(home.path().join(".kube/kuberc"), kuberc).unwrap();
        home
    }

    fn platform(account: &Path, vars: &[(&str, &str)]) -> Platform {
        let path = account.join("bin");
        let usual = [("PATH", path.to_str().unwrap())];
        let env = FixedEnv::new(usual.into_iter().chain(vars.iter().copied())).with_account_home(account);
        Platform { env: Arc::new(env), ..Platform::system() }
    }

    /// The name of the program that would be started.
    fn chosen(platform: &Platform, command: Option<&str>) -> Option<String> {
        let policy = program_policy(None, &*platform.env).unwrap();
        let args = opener(URL, command, &policy, platform)?;
        assert_eq!(args.last().unwrap(), URL);
        Some(Path::new(&args[0]).file_name().unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn plugin_run_starts_only_an_allowed_browser() {
        let account = account_allowing(&["credlet-oidc", "firefox"]);
        let evil = "sh -c touch";
        let marked = |vars: &[(&'static str, &'static str)]| {
            platform(account.path(), &[vars, &[(EXEC_INFO_ENV, "{}"), ("KUBERC", "off")]].concat())
        };
        assert_eq!(chosen(&marked(&[]), Some(evil)), None);
        assert_eq!(chosen(&marked(&[]), Some("./bin/sh")), None);
        assert_eq!(chosen(&marked(&[]), Some("firefox")).as_deref(), Some("firefox"));
        assert_eq!(chosen(&marked(&[("BROWSER", evil)]), None), None);
        assert_eq!(chosen(&marked(&[("BROWSER", "sh -c touch:firefox")]), None).as_deref(), Some("firefox"));
        // `xdg-open` starts what its environment says, so it needs permission as well.
        assert_eq!(chosen(&marked(&[]), None), None);
        let account = account_allowing(&["xdg-open"]);
        let listed = platform(account.path(), &[(EXEC_INFO_ENV, "{}"), ("BROWSER", evil)]);
        assert_eq!(chosen(&listed, None).as_deref(), Some("xdg-open"));
    }

    #[test]
    fn user_chooses_the_browser_on_the_command_line() {
        let account = account_allowing(&["other"]);
        assert_eq!(chosen(&platform(account.path(), &[]), Some("firefox")).as_deref(), Some("firefox"));
        assert_eq!(chosen(&platform(account.path(), &[("BROWSER", "firefox")]), None).as_deref(), Some("firefox"));
        assert_eq!(chosen(&platform(account.path(), &[]), None).as_deref(), Some("xdg-open"));
    }

    #[tokio::test]
    async fn unreadable_policy_starts_no_browser() {
        let account = account_allowing(&["firefox"]);
        fs::write(account.path().join(".kube/kuberc"), "credentialPluginPolicy: [").unwrap();
        assert!(!open(URL, Some("firefox"), &platform(account.path(), &[(EXEC_INFO_ENV, "{}")])).await);
    }

    #[test]
    fn browser_inherits_plugin_run_marker_only() {
        let dropped =
            ["CREDLET_X", "BROWSER", "SHELLOPTS", "PS4", "BASH_ENV", "BASH_FUNC_ls%%"].map(|name| (name, "x"));
        let vars = [&dropped[..], &[("LANG", "C"), (EXEC_INFO_ENV, "about the cluster")]].concat();
        let env = FixedEnv::new(environment(&platform(Path::new("/none"), &vars)));
        assert!(dropped.iter().all(|(name, _)| env.var(name).is_none()), "{env:?}");
        assert_eq!(env.var("LANG").unwrap(), "C");
        assert!(credlet_exec::is_plugin_run(&env));
        assert!(!env.var(EXEC_INFO_ENV).unwrap().to_str().unwrap().contains("cluster"));
        assert!(!credlet_exec::is_plugin_run(&FixedEnv::new(environment(&platform(Path::new("/none"), &[])))));
    }
}
