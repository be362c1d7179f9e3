//! What makes two calls the same.

use std::fmt;
use std::path::Path;

use credlet_api::exec::Cluster;
use credlet_core::{Env, Inherit};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::{Options, Question, identity};

/// Variables that say who is asking, or for what.
const VARIABLES: [&str; 10] = [
    "AWS_*",
    "AZURE_*",
    "AAD_*",
    "ARM_*",
    "CLOUDSDK_*",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "OCI_*",
    "VAULT_*",
    "KUBECONFIG",
    "HOME",
];

/// The name of an entry: a digest of everything that the plugin's answer may depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// As a file's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Of an entry that is there.
    pub(super) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Over parts with their lengths, so that no two lists of parts look the same.
    pub(super) fn of(inputs: &[Input]) -> Self {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        for input in inputs {
            part(input.what.as_bytes());
            part(&input.bytes);
        }
        Self(hex(&hash.finalize()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// One thing that the answer may depend on.
pub struct Input {
    /// What it is.
    pub what: String,
    /// What may be shown of it: variables and arguments are often secrets.
    pub shown: String,
    bytes: Zeroizing<Vec<u8>>,
}

impl Input {
    fn new(what: impl Into<String>, shown: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { what: what.into(), shown: shown.into(), bytes: Zeroizing::new(bytes.into()) }
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.shown)
    }
}

/// All of them, in an order that does not change.
pub(super) fn inputs(options: &Options, question: &Question, program: &Path, env: &dyn Env) -> Vec<Input> {
    let program = program.to_string_lossy();
    let user = rustix::process::geteuid().as_raw();
    let version = question.version.map_or("none", |version| version.as_str());
    let mut inputs = vec![
        Input::new("user", user.to_string(), user.to_le_bytes()),
        Input::new("program", &*program, program.as_bytes()),
        Input::new("version", version, version),
        Input::new("encrypted", options.encrypt.to_string(), [u8::from(options.encrypt)]),
        // A client that can be sent through a proxy may be given another answer.
        Input::new(
            "proxies",
            question.spec.lock_file_path.is_some().to_string(),
            [u8::from(question.spec.lock_file_path.is_some())],
        ),
    ];
    for (index, arg) in options.args.iter().enumerate() {
        inputs.push(Input::new(format!("argument {}", index + 1), format!("{} bytes", arg.len()), arg.as_bytes()));
    }
    if let Some(cluster) = &question.spec.cluster {
        add_cluster(&mut inputs, cluster);
    }
    let configured = options.env.iter().map(String::as_str);
    let wanted = Inherit::Only(VARIABLES.into_iter().chain(configured).map(str::to_owned).collect());
    let mut variables: Vec<_> = env.vars().into_iter().filter(|(name, _)| wanted.passes(name)).collect();
    variables.sort();
    for (name, value) in variables {
        let what = format!("variable {}", name.to_string_lossy());
        inputs.push(Input::new(what, format!("{} bytes", value.len()), value.into_encoded_bytes()));
    }
    for place in identity::places(&options.watch, env) {
        let print = identity::fingerprint(&place);
        let shown = if print == b"missing" { "missing".to_owned() } else { hex(&Sha256::digest(&print)[..6]) };
        inputs.push(Input::new(format!("file {}", place.display()), shown, print));
    }
    inputs
}

fn add_cluster(inputs: &mut Vec<Input>, cluster: &Cluster) {
    let authorities = Sha256::digest(&cluster.certificate_authority_data);
    let insecure = cluster.insecure_skip_tls_verify;
    let config = cluster.config.as_ref().map(|config| config.as_json()).unwrap_or_default();
    let proxy = cluster.proxy_url.expose();
    inputs.extend([
        Input::new("cluster server", &*cluster.server, cluster.server.as_bytes()),
        Input::new("cluster tls-server-name", &*cluster.tls_server_name, cluster.tls_server_name.as_bytes()),
        Input::new("cluster authorities", hex(&authorities[..6]), authorities.to_vec()),
        Input::new("cluster insecure", insecure.to_string(), [u8::from(insecure)]),
        Input::new("cluster proxy", format!("{} bytes", proxy.len()), proxy.as_bytes()),
        Input::new("cluster config", format!("{} bytes", config.len()), config.as_bytes()),
    ]);
}

#[cfg(test)]
mod tests {
    use credlet_api::exec::{ApiVersion, ExecCredentialSpec, Extension};
    use credlet_core::FixedEnv;

    use super::*;

    fn key(options: &Options, question: &Question, vars: &[(&str, &str)]) -> Key {
        Key::of(&inputs(options, question, Path::new("/bin/plugin"), &FixedEnv::new(vars.iter().copied())))
    }

    #[test]
    fn everything_that_the_answer_may_depend_on_makes_another_key() {
        let plain = Options::around("plugin", ["a", "b"]);
        let asked = |version, cluster| Question {
            version: Some(version),
            spec: ExecCredentialSpec { cluster, ..ExecCredentialSpec::default() },
        };
        let v1 = asked(ApiVersion::V1, None);
        let cluster = Cluster { server: "https://a".into(), ..Cluster::default() };
        let with = |change: fn(&mut Cluster)| {
            let mut cluster = cluster.clone();
            change(&mut cluster);
            asked(ApiVersion::V1, Some(cluster))
        };
        let watching = Options { watch: vec!["/no/such/file".into()], ..plain.clone() };
        let encrypted = Options { encrypt: true, ..plain.clone() };
        let keys = [
            key(&plain, &v1, &[]),
            key(&Options::around("plugin", ["ab"]), &v1, &[]),
            key(&Options::around("plugin", ["a b"]), &v1, &[]),
            key(&Options::around("plugin", ["b", "a"]), &v1, &[]),
            key(&watching, &v1, &[]),
            key(&encrypted, &v1, &[]),
            key(&plain, &asked(ApiVersion::V1beta1, None), &[]),
            key(&plain, &Question { version: None, ..v1.clone() }, &[]),
            key(&plain, &v1, &[("AWS_PROFILE", "x")]),
            key(&plain, &v1, &[("AWS_PROFILE", "y")]),
            key(&plain, &v1, &[("KUBECONFIG", "y")]),
            key(&plain, &v1, &[("HOME", "/nowhere")]),
            key(&plain, &with(|_| {}), &[]),
            key(&plain, &with(|cluster| cluster.server = "https://b".into()), &[]),
            key(&plain, &with(|cluster| cluster.tls_server_name = "n".into()), &[]),
            key(&plain, &with(|cluster| cluster.certificate_authority_data = b"ca".to_vec()), &[]),
            key(&plain, &with(|cluster| cluster.insecure_skip_tls_verify = true), &[]),
            key(&plain, &with(|cluster| cluster.config = Extension::from_json(r#"{"aud":1}"#).ok()), &[]),
        ];
        for (index, one) in keys.iter().enumerate() {
            assert!(keys[..index].iter().all(|other| other != one), "number {index}");
        }
    }

    #[test]
    fn what_it_does_not_depend_on_does_not() {
        let plain = Options::around("plugin", ["a"]);
        let asked = |interactive| Question {
            version: Some(ApiVersion::V1),
            spec: ExecCredentialSpec { interactive, ..ExecCredentialSpec::default() },
        };
        let fresh = Options { force_refresh: true, ..plain.clone() };
        let alone = key(&plain, &asked(false), &[("EDITOR", "vi")]);
        assert_eq!(alone, key(&plain, &asked(true), &[("TERM", "xterm")]));
        assert_eq!(alone, key(&fresh, &asked(true), &[]));
        assert_ne!(alone, key(&Options { env: vec!["ED*".into()], ..plain }, &asked(false), &[("EDITOR", "vi")]));
    }

    #[test]
    fn nothing_secret_is_shown() {
        let options = Options::around("plugin", ["--secret=hunter2"]);
        let question = Question { version: None, spec: ExecCredentialSpec::default() };
        let env = FixedEnv::new([("AWS_SECRET_ACCESS_KEY", "hunter2")]);
        let shown = format!("{:?}", inputs(&options, &question, Path::new("/bin/plugin"), &env));
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY") && !shown.contains("hunter2"), "{shown}");
    }
}
