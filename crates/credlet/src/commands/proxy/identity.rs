//! Identity of a daemon: plugins with the same identity share one.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use credlet_api::exec::{Cluster, EXEC_INFO_ENV};
use credlet_exec::{Env, EnvInheritance};
use credlet_platform::fs::FileFingerprint;
use credlet_platform::session_env::is_session_variable;
use credlet_proxy::client::EXEC_PROXY_ENV;

/// Prefixes of variables that signers and their programs read. `--env` adds others.
const PREFIXES: [&str; 25] = [
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
    // Trust anchors for clusters without a certificate authority.
    "SSL_CERT_",
];

/// Variables that a daemon needs and that do not distinguish its clients.
const SHARED_VARIABLES: [&str; 14] = [
    EXEC_INFO_ENV,
    EXEC_PROXY_ENV,
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

/// Variables that a daemon inherits: those of its identity and few others. Other variables may be secrets, which would
/// stay in its memory for hours.
pub(super) fn inherited(more: &[String]) -> EnvInheritance {
    let proxies = ["NO_PROXY", "https_proxy", "http_proxy", "no_proxy"].map(str::to_owned);
    let known = PREFIXES.iter().map(|begin| format!("{begin}*"));
    let others = SHARED_VARIABLES.iter().map(|&name| name.to_owned());
    EnvInheritance::Only(known.chain(others).chain(proxies).chain(more.iter().cloned()).collect())
}

/// Variables that are part of a daemon's identity.
#[derive(Clone, Copy, Debug)]
pub(super) enum IdentityScope<'a> {
    /// Those that signers read, and these.
    Named(&'a [String]),
    /// All except session variables, because a program that the signer runs may depend on any of them.
    FullEnv,
}

impl IdentityScope<'_> {
    fn includes(self, name: &str, value: &OsStr) -> bool {
        match self {
            Self::FullEnv => name != EXEC_INFO_ENV && !is_session_variable(name.as_ref(), value),
            Self::Named(more) => {
                let is_named = more.iter().any(|named| named == name);
                PREFIXES.iter().any(|begin| name.starts_with(begin)) || name == "HOME" || is_named
            }
        }
    }
}

/// Returns the identity of the daemon for this cluster, these arguments and this environment.
pub(super) fn name(
    cluster: &Cluster,
    args: &[OsString],
    scope: IdentityScope<'_>,
    program: &Path,
    env: &dyn Env,
) -> String {
    let mut own: Vec<(String, Vec<u8>)> = Vec::new();
    own.extend(args.iter().skip(1).map(|arg| ("word".to_owned(), arg.as_encoded_bytes().to_vec())));
    let mut vars: Vec<_> =
        env.vars().into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
    vars.sort();
    for (name, value) in vars {
        if scope.includes(&name, &value) {
            own.push((name, value.into_encoded_bytes()));
        }
    }
    // A different build gets a different daemon, so that an upgrade takes effect.
    let build = std::fs::metadata(program).map_or_else(
        |_| String::new(),
        |about| {
            let FileFingerprint { inode, size, modified, .. } = FileFingerprint::new(&about);
            let [seconds, nanos] = modified.map(u64::cast_signed);
            format!("{inode} {size} {seconds}.{nanos}")
        },
    );
    own.push(("build".to_owned(), [env!("CARGO_PKG_VERSION"), &build].join(" ").into_bytes()));
    credlet_proxy::dir::identity(cluster, env, own.iter().map(|(name, value)| (name.as_str(), value.as_slice())))
}

#[cfg(test)]
mod tests {
    use credlet_exec::FixedEnv;

    use super::*;

    #[test]
    fn daemon_inherits_only_identity_env() {
        let inherited = inherited(&["MINE".to_owned()]);
        let passes = |name: &str| inherited.allows(name.as_ref());
        for name in PREFIXES.into_iter().chain(["MINE", "HOME", "https_proxy", "NO_PROXY", "KUBERNETES_EXEC_INFO"]) {
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
    fn identity_depends_on_args_env_and_build() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("credlet");
        std::fs::write(&program, "one").unwrap();
        let cluster = Cluster { server: "https://a".into(), ..Cluster::default() };
        let of = |args: &[&str], vars: &[(&str, &str)], more: &[&str]| {
            let args: Vec<_> = ["credlet"].iter().chain(args).map(OsString::from).collect();
            let more: Vec<_> = more.iter().map(|name| (*name).to_owned()).collect();
            name(&cluster, &args, IdentityScope::Named(&more), &program, &FixedEnv::new(vars.iter().copied()))
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
    fn exec_proxy_identity_has_full_env() {
        let cluster = Cluster { server: "https://a".into(), ..Cluster::default() };
        let of = |vars: &[(&str, &str)]| {
            name(&cluster, &[], IdentityScope::FullEnv, Path::new("/none"), &FixedEnv::new(vars.iter().copied()))
        };
        assert_ne!(of(&[("VAULT_ROLE", "one")]), of(&[("VAULT_ROLE", "two")]));
        assert_ne!(of(&[("VAULT_ROLE", "one")]), of(&[]));
        assert_eq!(
            of(&[("TERM", "xterm"), ("PWD", "/a"), (EXEC_INFO_ENV, "{}"), ("GNOME_TERMINAL_SCREEN", "/a/1")]),
            of(&[("TERM", "dumb"), ("SHLVL", "2"), ("TMUX_PANE", "%1"), ("PLUGIN_CLIENT_CERT", "…")])
        );
    }
}
