//! Dispatch before the command line is parsed.
//!
//! kubectl starts a credential plugin for every command, so the built-in plugins run before clap, the async runtime and the TLS stack
//! are initialised.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// Program that docker runs if its configuration has `"credsStore": "credlet"`.
const DOCKER_CREDENTIAL_HELPER: &str = "docker-credential-credlet";

/// Name prefix of links that run one plugin behind the cache.
const CACHE_LINK: &str = "credlet-cache-";

/// Published programs that a link to credlet can replace, so that neither a kubeconfig nor a kubelet configuration changes.
const REPLACED_PROGRAMS: [(&str, &str); 5] = [
    ("gke-gcloud-auth-plugin", "gke"),
    ("kubelogin", "aks"),
    ("ecr-credential-provider", "ecr"),
    ("auth-provider-gcp", "gar"),
    ("acr-credential-provider", "acr"),
];

/// Returns the command line with the subcommand that the name of the program stands for: `credlet-eks …` becomes
/// `credlet-eks plugin eks …`, and `docker-credential-credlet …` becomes `docker-credential-credlet image docker-credential …`.
pub(crate) fn expand_argv0(mut args: Vec<OsString>) -> Vec<OsString> {
    let name = args.first().and_then(|first| Path::new(first).file_name()).and_then(OsStr::to_str).unwrap_or_default();
    let verbs: Vec<OsString> = match name.strip_prefix("credlet-") {
        // The link runs only this plugin, so a plugin allowlist can name the link.
        _ if name.strip_prefix(CACHE_LINK).is_some_and(|plugin| !plugin.is_empty()) => {
            vec!["cache".into(), "--".into(), name[CACHE_LINK.len()..].into()]
        }
        Some("cache") => vec!["cache".into()],
        // Other names are ignored: a downloaded binary may be called `credlet-linux-amd64`.
        Some(plugin) if crate::commands::plugin::exists(plugin) => vec!["plugin".into(), plugin.into()],
        _ if name == DOCKER_CREDENTIAL_HELPER => vec!["image".into(), "docker-credential".into()],
        _ => match REPLACED_PROGRAMS.iter().find(|(known, _)| *known == name) {
            // Azure's and int128's programs have the same name.
            Some(("kubelogin", _)) if args.iter().any(|arg| is_oidc_flag(arg)) => {
                vec!["plugin".into(), "oidc".into()]
            }
            Some((_, plugin)) => vec!["plugin".into(), plugin.into()],
            None => Vec::new(),
        },
    };
    let at = args.len().min(1);
    args.splice(at..at, verbs);
    args
}

/// Whether a flag belongs to int128's kubelogin; Azure's kubelogin has no flags with this prefix.
fn is_oidc_flag(arg: &OsStr) -> bool {
    arg.as_encoded_bytes().starts_with(b"--oidc-")
}

/// Returns `argv[0]` if it is a link that runs one plugin behind the cache (`credlet-cache-aws`).
pub(crate) fn cache_link() -> Option<OsString> {
    let name = std::env::args_os().next()?;
    let file = Path::new(&name).file_name().and_then(OsStr::to_str)?;
    let is_link = file.strip_prefix(CACHE_LINK).is_some_and(|plugin| !plugin.is_empty());
    is_link.then_some(name)
}

/// The arguments of this process, expanded by [`expand_argv0`].
pub(crate) fn args() -> Vec<OsString> {
    expand_argv0(std::env::args_os().collect())
}

/// Runs a subcommand that does not need clap. Returns `None` if the command line must be parsed.
///
/// [`CliArgs`](crate::args::CliArgs) defines these subcommands too, for help, completions and man pages. A command line with other
/// arguments than the expected ones (`--help`, a mistake) is left to clap.
pub(crate) fn run(args: &[OsString]) -> Option<ExitCode> {
    match args.get(1)?.to_str()? {
        "cache" => crate::commands::cache::early(args),
        "plugin" if args.get(2).is_some_and(|name| name == "cache") => crate::commands::cache::early(args),
        "--version" | "-V" if args.len() == 2 => Some(version()),
        "plugin" => crate::commands::plugin::early(args),
        "proxy-daemon" => Some(crate::commands::proxy::daemon(args)),
        crate::commands::run::EXEC_COMMAND_VERB => Some(crate::commands::run::exec_command(args)),
        _ => None,
    }
}

fn version() -> ExitCode {
    let mut printer = crate::printer::Printer::default();
    printer.line(concat!("credlet ", env!("CARGO_PKG_VERSION")));
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(args: &[&str]) -> Vec<String> {
        let args = expand_argv0(args.iter().map(OsString::from).collect());
        args.into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn expands_plugin_links() {
        assert_eq!(
            expanded(&["/usr/bin/credlet-eks", "--region", "x"]),
            ["/usr/bin/credlet-eks", "plugin", "eks", "--region", "x"]
        );
        assert_eq!(
            expanded(&["docker-credential-credlet", "get"]),
            ["docker-credential-credlet", "image", "docker-credential", "get"]
        );
    }

    #[test]
    fn expands_links_of_replaced_programs() {
        assert_eq!(expanded(&["gke-gcloud-auth-plugin"]), ["gke-gcloud-auth-plugin", "plugin", "gke"]);
        let azures = ["/bin/kubelogin", "get-token", "--server-id", "x"];
        assert_eq!(expanded(&azures)[1..4], ["plugin", "aks", "get-token"]);
        assert_eq!(expanded(&["kubelogin", "get-token", "--oidc-issuer-url=x"])[1..3], ["plugin", "oidc"]);
        for (published, plugin) in
            [("ecr-credential-provider", "ecr"), ("auth-provider-gcp", "gar"), ("acr-credential-provider", "acr")]
        {
            let path = format!("/opt/bin/{published}");
            assert_eq!(expanded(&[&path, "get-credentials"]), [&path, "plugin", plugin, "get-credentials"]);
        }
    }

    #[test]
    fn expands_cache_links() {
        assert_eq!(expanded(&["credlet-cache", "ls"]), ["credlet-cache", "cache", "ls"]);
        assert_eq!(expanded(&["credlet-cache-aws", "eks"]), ["credlet-cache-aws", "cache", "--", "aws", "eks"]);
    }

    #[test]
    fn leaves_other_names_unchanged() {
        for name in ["credlet", "./credlet", "kubectl-credlet", "credlet-", "credlet-linux-amd64", "", "/"] {
            assert_eq!(expanded(&[name, "get", "/"]), [name, "get", "/"]);
        }
        assert_eq!(expanded(&[]), [""; 0]);
    }
}
