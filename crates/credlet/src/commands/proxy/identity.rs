//! Which proxies two plugins may share.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use credlet_api::exec::{Cluster, EXEC_INFO_ENV};
use credlet_core::{Env, Inherit};
use credlet_proxy::client::SWITCH;

/// Variables that signers and the programs behind them look at. Others can be named with `--env`.
const BEGINNINGS: [&str; 25] = [
    "AWS_",
    "AZURE_",
    "ARM_",
    "AAD_",
    "GOOGLE_",
    "CLOUDSDK_",
    "OIDC_",
    "KUBECONFIG",
    "KUBERC",
    "SOFTHSM2_",
    "OPENSC_",
    "TPM2_",
    "PKCS11_",
    "P11_",
    "YKCS11_",
    "PCSCLITE_",
    "TSS2_",
    "NFAST_",
    "CKNFAST_",
    "CS_PKCS11_",
    "KMS_PKCS11_",
    "ChrystokiConfigurationPath",
    "LD_LIBRARY_PATH",
    "XDG_CONFIG_HOME",
    // Whom it believes to be the API server, where the cluster does not say.
    "SSL_CERT_",
];

/// Variables that a daemon needs to find its way, and that are the same for all of its clients as far as it is concerned.
const OTHERS: [&str; 14] = [
    EXEC_INFO_ENV,
    SWITCH,
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "DBUS_SESSION_BUS_ADDRESS",
    "HTTPS_PROXY",
    "HTTP_PROXY",
];

/// Variables that differ from one terminal to the next, or from one client to the next, and that no program makes a
/// credential of. Those whose names begin with one of [`TERMINALS`] are others.
const OF_TERMINALS: [&str; 25] = [
    EXEC_INFO_ENV,
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "TERM",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "WINDOWID",
    "DISPLAY",
    "SSH_TTY",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_AUTH_SOCK",
    "GPG_TTY",
    "STY",
    "PS1",
    "LS_COLORS",
    "PROMPT_COMMAND",
    "XDG_SESSION_ID",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    // A certificate of the moment and a directory, which a plugin of Terraform's is given when it is started.
    "PLUGIN_CLIENT_CERT",
    "PLUGIN_UNIX_SOCKET_DIR",
];

/// The programs that put such variables there.
const TERMINALS: [&str; 11] = [
    "TERM_",
    "TMUX",
    "ZELLIJ",
    "VTE_",
    "GNOME_TERMINAL_",
    "KONSOLE_",
    "KITTY_",
    "WEZTERM_",
    "ALACRITTY_",
    "ITERM_",
    "WT_",
];

/// What a daemon gets of the environment: what it is known by, and little else. The rest, which may be anybody's secret,
/// would stay in its memory for hours.
pub(super) fn inherited(more: &[String]) -> Inherit {
    let proxies = ["NO_PROXY", "https_proxy", "http_proxy", "no_proxy"].map(str::to_owned);
    let known = BEGINNINGS.iter().map(|begin| format!("{begin}*"));
    let others = OTHERS.iter().map(|&name| name.to_owned());
    Inherit::Only(known.chain(others).chain(proxies).chain(more.iter().cloned()).collect())
}

/// Which variables a proxy is known by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known<'a> {
    /// Those that signers look at, and these.
    By(&'a [String]),
    /// All: nobody knows what a program looks at that the signer runs, and it must not answer in another one's place.
    ByAll,
}

impl Known<'_> {
    fn matters(self, name: &str) -> bool {
        match self {
            Self::ByAll => {
                !OF_TERMINALS.contains(&name) && !TERMINALS.iter().any(|terminal| name.starts_with(terminal))
            }
            Self::By(more) => {
                let is_named = more.iter().any(|named| named == name);
                BEGINNINGS.iter().any(|begin| name.starts_with(begin)) || name == "HOME" || is_named
            }
        }
    }
}

/// The name of the proxy for this cluster, these words and this surrounding.
pub(super) fn name(cluster: &Cluster, words: &[OsString], known: Known<'_>, program: &Path, env: &dyn Env) -> String {
    let mut own: Vec<(String, Vec<u8>)> = Vec::new();
    own.extend(words.iter().skip(1).map(|word| ("word".to_owned(), word.as_encoded_bytes().to_vec())));
    let mut vars: Vec<_> =
        env.vars().into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
    vars.sort();
    for (name, value) in vars {
        if known.matters(&name) {
            own.push((name, value.into_encoded_bytes()));
        }
    }
    // Another build is another proxy, so that an upgrade does not leave the old one in charge.
    let build = std::fs::metadata(program).map_or_else(
        |_| String::new(),
        |about| format!("{} {} {}.{}", about.ino(), about.len(), about.mtime(), about.mtime_nsec()),
    );
    own.push(("build".to_owned(), [env!("CARGO_PKG_VERSION"), &build].join(" ").into_bytes()));
    credlet_proxy::dir::identity(cluster, env, own.iter().map(|(name, value)| (name.as_str(), value.as_slice())))
}

#[cfg(test)]
mod tests {
    use credlet_core::FixedEnv;

    use super::*;

    #[test]
    fn a_daemon_gets_what_it_is_known_by_and_nobody_elses_secrets() {
        let inherited = inherited(&["MINE".to_owned()]);
        let passes = |name: &str| inherited.passes(name.as_ref());
        for name in BEGINNINGS.into_iter().chain(["MINE", "HOME", "https_proxy", "NO_PROXY", "KUBERNETES_EXEC_INFO"]) {
            assert!(passes(name), "{name}");
        }
        for name in ["XDG_RUNTIME_DIR", "TMPDIR", "LC_ALL", "CLIENT_EXEC_PROXY"] {
            assert!(passes(name), "{name}");
        }
        for name in ["GITHUB_TOKEN", "DATABASE_URL", "LD_PRELOAD", "MINE_TOO", "SSH_AUTH_SOCK", "VAULT_TOKEN"] {
            assert!(!passes(name), "{name}");
        }
    }

    #[test]
    fn other_words_variables_that_matter_and_another_build_are_another_proxy() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("credlet");
        std::fs::write(&program, "one").unwrap();
        let cluster = Cluster { server: "https://a".into(), ..Cluster::default() };
        let of = |words: &[&str], vars: &[(&str, &str)], more: &[&str]| {
            let words: Vec<_> = ["credlet"].iter().chain(words).map(OsString::from).collect();
            let more: Vec<_> = more.iter().map(|name| (*name).to_owned()).collect();
            name(&cluster, &words, Known::By(&more), &program, &FixedEnv::new(vars.iter().copied()))
        };
        let plain = of(&["a"], &[], &[]);
        assert_eq!(plain, of(&["a"], &[("TERM", "xterm"), ("SHLVL", "3")], &[]));
        assert_ne!(plain, of(&["b"], &[], &[]));
        assert_ne!(plain, of(&["a"], &[("AWS_PROFILE", "x")], &[]));
        assert_ne!(plain, of(&["a"], &[("SSL_CERT_FILE", "/x")], &[]));
        assert_ne!(of(&["a"], &[("MINE", "1")], &["MINE"]), of(&["a"], &[("MINE", "2")], &["MINE"]));
        std::fs::write(&program, "another").unwrap();
        assert_ne!(plain, of(&["a"], &[], &[]));
    }

    #[test]
    fn a_proxy_that_runs_programs_is_known_by_all_that_they_may_look_at() {
        let cluster = Cluster { server: "https://a".into(), ..Cluster::default() };
        let of = |vars: &[(&str, &str)]| {
            name(&cluster, &[], Known::ByAll, Path::new("/none"), &FixedEnv::new(vars.iter().copied()))
        };
        assert_ne!(of(&[("VAULT_ROLE", "one")]), of(&[("VAULT_ROLE", "two")]));
        assert_ne!(of(&[("VAULT_ROLE", "one")]), of(&[]));
        assert_eq!(
            of(&[("TERM", "xterm"), ("PWD", "/a"), (EXEC_INFO_ENV, "{}"), ("GNOME_TERMINAL_SCREEN", "/a/1")]),
            of(&[("TERM", "dumb"), ("SHLVL", "2"), ("TMUX_PANE", "%1"), ("PLUGIN_CLIENT_CERT", "…")])
        );
    }
}
