//! Which proxies two plugins may share.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use credlet_api::exec::Cluster;
use credlet_core::Env;

/// Variables that signers and the programs behind them look at. Others can be named with `--env`.
const BEGINNINGS: [&str; 15] = [
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
    "XDG_CONFIG_HOME",
];

/// The name of the proxy for this cluster, these words and this surrounding.
pub(super) fn name(cluster: &Cluster, words: &[OsString], more: &[String], program: &Path, env: &dyn Env) -> String {
    let mut own: Vec<(String, Vec<u8>)> = Vec::new();
    own.extend(words.iter().skip(1).map(|word| ("word".to_owned(), word.as_encoded_bytes().to_vec())));
    let mut vars: Vec<_> =
        env.vars().into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
    vars.sort();
    for (name, value) in vars {
        if BEGINNINGS.iter().any(|begin| name.starts_with(begin)) || name == "HOME" || more.contains(&name) {
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
    fn other_words_variables_that_matter_and_another_build_are_another_proxy() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("credlet");
        std::fs::write(&program, "one").unwrap();
        let cluster = Cluster { server: "https://a".into(), ..Cluster::default() };
        let of = |words: &[&str], vars: &[(&str, &str)], more: &[&str]| {
            let words: Vec<_> = ["credlet"].iter().chain(words).map(OsString::from).collect();
            let more: Vec<_> = more.iter().map(|name| (*name).to_owned()).collect();
            name(&cluster, &words, &more, &program, &FixedEnv::new(vars.iter().copied()))
        };
        let plain = of(&["a"], &[], &[]);
        assert_eq!(plain, of(&["a"], &[("TERM", "xterm"), ("SHLVL", "3")], &[]));
        assert_ne!(plain, of(&["b"], &[], &[]));
        assert_ne!(plain, of(&["a"], &[("AWS_PROFILE", "x")], &[]));
        assert_ne!(of(&["a"], &[("MINE", "1")], &["MINE"]), of(&["a"], &[("MINE", "2")], &["MINE"]));
        std::fs::write(&program, "another").unwrap();
        assert_ne!(plain, of(&["a"], &[], &[]));
    }
}
