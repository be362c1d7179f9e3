//! What cannot wait for the rest of the program: credential plugins are started for every kubectl command, so those of
//! ours get to work before arguments are parsed, and without a runtime or a TLS stack unless they need one.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// The name that docker looks for when a configuration says `"credsStore": "credlet"`.
const DOCKER_CREDENTIAL_HELPER: &str = "docker-credential-credlet";

/// Programs whose place a link to this one can take, so that neither a kubeconfig nor a kubelet's configuration changes.
const IN_PLACE_OF: [(&str, &str); 5] = [
    ("gke-gcloud-auth-plugin", "gke"),
    ("kubelogin", "aks"),
    ("ecr-credential-provider", "ecr"),
    ("auth-provider-gcp", "gar"),
    ("acr-credential-provider", "acr"),
];

/// Plugins can be called by a name of their own, a link to this program: `credlet-eks …` is `credlet plugin eks …`, and
/// `docker-credential-credlet …` is `credlet image docker-credential …`. Gives the words that a person would type.
pub(crate) fn spelled_out(mut words: Vec<OsString>) -> Vec<OsString> {
    let name = words.first().and_then(|first| Path::new(first).file_name()).and_then(OsStr::to_str).unwrap_or_default();
    let verbs: Vec<OsString> = match name.strip_prefix("credlet-") {
        Some("cache") => vec!["cache".into()],
        // One that runs this plugin and no other, so that it can be put on a list of allowed ones.
        Some(name) if name.len() > "cache-".len() && name.starts_with("cache-") => {
            vec!["cache".into(), "--".into(), name["cache-".len()..].into()]
        }
        // Only names of plugins are: a download may well be called `credlet-linux-amd64`.
        Some(plugin) if crate::commands::plugin::exists(plugin) => vec!["plugin".into(), plugin.into()],
        _ if name == DOCKER_CREDENTIAL_HELPER => vec!["image".into(), "docker-credential".into()],
        _ => match IN_PLACE_OF.iter().find(|(known, _)| *known == name) {
            // There are two programs of this name.
            Some(("kubelogin", _)) if words.iter().any(|word| is_for_oidc(word)) => {
                vec!["plugin".into(), "oidc".into()]
            }
            Some((_, plugin)) => vec!["plugin".into(), plugin.into()],
            None => Vec::new(),
        },
    };
    let at = words.len().min(1);
    words.splice(at..at, verbs);
    words
}

/// The flags of int128's kubelogin, which Azure's does not have.
fn is_for_oidc(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"--oidc-")
}

/// The words of this process.
pub(crate) fn words() -> Vec<OsString> {
    spelled_out(std::env::args_os().collect())
}

/// Runs what must not be held up, if that is what was asked for. `None`: the usual way.
///
/// A verb that is done here is in [`Args`](crate::args::Args) as well, for help, completions and man pages; here it
/// looks only at the words it knows, and leaves anything unusual (`--help`, a mistake) to the usual way.
pub(crate) fn run(words: &[OsString]) -> Option<ExitCode> {
    match words.get(1)?.to_str()? {
        "cache" => crate::commands::cache::early(words),
        "plugin" if words.get(2).is_some_and(|name| name == "cache") => crate::commands::cache::early(words),
        "--version" | "-V" if words.len() == 2 => Some(version()),
        "plugin" => crate::commands::plugin::early(words),
        "proxy-daemon" => Some(crate::commands::proxy::daemon(words)),
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

    fn spelled(words: &[&str]) -> Vec<String> {
        let words = spelled_out(words.iter().map(OsString::from).collect());
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn a_link_named_after_a_plugin_is_that_plugin() {
        assert_eq!(
            spelled(&["/usr/bin/credlet-eks", "--region", "x"]),
            ["/usr/bin/credlet-eks", "plugin", "eks", "--region", "x"]
        );
        assert_eq!(
            spelled(&["docker-credential-credlet", "get"]),
            ["docker-credential-credlet", "image", "docker-credential", "get"]
        );
    }

    #[test]
    fn a_link_can_take_another_programs_place() {
        assert_eq!(spelled(&["gke-gcloud-auth-plugin"]), ["gke-gcloud-auth-plugin", "plugin", "gke"]);
        let azures = ["/bin/kubelogin", "get-token", "--server-id", "x"];
        assert_eq!(spelled(&azures)[1..4], ["plugin", "aks", "get-token"]);
        assert_eq!(spelled(&["kubelogin", "get-token", "--oidc-issuer-url=x"])[1..3], ["plugin", "oidc"]);
        for (published, plugin) in
            [("ecr-credential-provider", "ecr"), ("auth-provider-gcp", "gar"), ("acr-credential-provider", "acr")]
        {
            let path = format!("/opt/bin/{published}");
            assert_eq!(spelled(&[&path, "get-credentials"]), [&path, "plugin", plugin, "get-credentials"]);
        }
    }

    #[test]
    fn a_link_can_name_the_plugin_behind_the_cache() {
        assert_eq!(spelled(&["credlet-cache", "ls"]), ["credlet-cache", "cache", "ls"]);
        assert_eq!(spelled(&["credlet-cache-aws", "eks"]), ["credlet-cache-aws", "cache", "--", "aws", "eks"]);
    }

    #[test]
    fn other_names_are_the_command_itself() {
        for name in ["credlet", "./credlet", "kubectl-credlet", "credlet-", "credlet-linux-amd64", "", "/"] {
            assert_eq!(spelled(&[name, "get", "/"]), [name, "get", "/"]);
        }
        assert_eq!(spelled(&[]), [""; 0]);
    }
}
