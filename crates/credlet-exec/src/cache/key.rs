//! Computes the key of an entry.
//!
//! The key covers everything that can influence the plugin: the program's path and file, the arguments, the cluster, the
//! environment without the variables of [`session_env`], the identity files of the cloud plugins, the user id, and the working
//! directory if an argument or a variable is relative to it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Env, EnvInheritance};
use credlet_api::exec::{Cluster, EXEC_INFO_ENV};
use credlet_platform::fs::{FileFingerprint, has_execute_permission};
use credlet_platform::{account, session_env};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::state::EntrySecret;
use super::{CacheOptions, CacheRequest, identity_files, invocation, working_dir};

/// The name of an entry: a keyed digest of everything that the plugin's output may depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheKey(String);

impl CacheKey {
    /// Returns the file name of the entry: 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key of the entry with this file name.
    pub(super) fn from_name(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Computes the key. Each part is hashed with its length, so that different lists of parts never collide.
    pub(super) fn compute(parts: &[KeyPart], secret: &EntrySecret) -> Self {
        let mut hash = secret.digest("key");
        let mut update = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        for part in parts {
            update(part.name.as_bytes());
            update(&part.bytes);
        }
        Self(credlet_api::hex(hash.finalize()))
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing that the plugin's output may depend on.
pub struct KeyPart {
    /// What it is, for example `variable AWS_PROFILE`. Contains no value.
    pub name: String,
    shown: ShownValue,
    bytes: Zeroizing<Vec<u8>>,
}

/// The printable form of a value: variables and arguments are often secrets. It is formatted on demand, which a hit never does.
enum ShownValue {
    Text(String),
    Length(usize),
    Digest,
}

impl KeyPart {
    /// A part with a public value.
    fn new(name: impl Into<String>, shown: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), shown: ShownValue::Text(shown.into()), bytes: Zeroizing::new(bytes.into()) }
    }

    /// A part with a value of which only the length is shown.
    fn secret(name: impl Into<String>, length: usize, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), shown: ShownValue::Length(length), bytes: Zeroizing::new(bytes.into()) }
    }

    /// A part with a binary value, such as the state of a file, of which a digest is shown.
    fn digest(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), shown: ShownValue::Digest, bytes: Zeroizing::new(bytes.into()) }
    }

    /// Returns the printable form of the value: the value itself if it is public, else its length or a digest.
    pub fn shown(&self) -> String {
        match &self.shown {
            ShownValue::Text(text) => text.clone(),
            ShownValue::Length(length) => format!("{length} bytes"),
            ShownValue::Digest => credlet_api::hex(&Sha256::digest(&*self.bytes)[..6]),
        }
    }

    /// A keyed digest of the part, for comparing calls. The value cannot be guessed from it without the secret.
    pub(super) fn fingerprint(&self, secret: &EntrySecret) -> String {
        let length = (self.name.len() as u64).to_le_bytes();
        let hash = secret.digest("input").chain_update(length).chain_update(&self.name).chain_update(&*self.bytes);
        credlet_api::hex(&hash.finalize()[..8])
    }
}

impl fmt::Debug for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.shown())
    }
}

/// All parts of the key, in a fixed order.
pub(super) fn parts(options: &CacheOptions, request: &CacheRequest, program: &Path, env: &dyn Env) -> Vec<KeyPart> {
    let path = program.as_os_str();
    let user = account::effective_user_id();
    let version = request.version.map_or("none", |version| version.as_str());
    let mut parts = vec![
        KeyPart::new("user", user.to_string(), user.to_le_bytes()),
        KeyPart::new("program", path.to_string_lossy(), path.as_encoded_bytes()),
        KeyPart::digest("program file", program_file(program)),
        KeyPart::new("version", version, version),
        KeyPart::new("encrypted", options.encrypt.to_string(), [u8::from(options.encrypt)]),
        // A client that supports exec proxies may get another response.
        KeyPart::new(
            "proxies",
            request.spec.lock_file_path.is_some().to_string(),
            [u8::from(request.spec.lock_file_path.is_some())],
        ),
    ];
    for (index, arg) in options.args.iter().enumerate() {
        let what = format!("argument {}", index + 1);
        if let Some(script) = script(arg, env) {
            parts.push(KeyPart::digest(format!("file of {what}"), script));
        }
        parts.push(KeyPart::secret(what, arg.len(), arg.as_bytes()));
    }
    if let Some(cluster) = &request.spec.cluster {
        add_cluster(&mut parts, cluster);
    }
    if let Some(other) = unknown_fields(&env.var(EXEC_INFO_ENV).unwrap_or_default()) {
        parts.push(KeyPart::secret("other fields of KUBERNETES_EXEC_INFO", other.len(), other));
    }
    let variables = variables(options, env);
    // Included only if something is relative to it.
    let dir = env.current_dir().filter(|dir| {
        options.args.iter().any(|arg| working_dir::is_relative_argument(arg, dir))
            || variables.iter().any(|(name, value)| working_dir::is_relative_variable(name, value, dir))
    });
    if let Some(dir) = dir {
        parts.push(KeyPart::new("working directory", dir.to_string_lossy(), dir.as_os_str().as_encoded_bytes()));
    }
    for (name, value) in variables {
        let what = ["variable ", &name.to_string_lossy()].concat();
        // With the raw name: two names that are not UTF-8 may have the same lossy form.
        let bytes = [name.as_encoded_bytes(), &[0], value.as_encoded_bytes()].concat();
        parts.push(KeyPart::secret(what, value.len(), bytes));
    }
    for path in identity_files::paths(&options.watch, env) {
        let print = identity_files::fingerprint(&path);
        let what = format!("file {}", path.display());
        parts.push(if print == b"missing" {
            KeyPart::new(what, "missing", print)
        } else {
            KeyPart::digest(what, print)
        });
    }
    parts
}

/// Returns device, inode, size and modification time of the program (of a script: the script), following symbolic links. An
/// updated or replaced plugin thereby gets a new key.
fn program_file(program: &Path) -> Vec<u8> {
    let Ok(about) = program.metadata() else { return Vec::new() };
    let FileFingerprint { device, inode, size, modified: [seconds, nanos] } = FileFingerprint::new(&about);
    [device, inode, size, seconds, nanos].iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The same for a program among the arguments, as in `python3 /opt/plugin.py` and `env X=y /opt/plugin`. `None`: the
/// argument does not name a program.
fn script(arg: &str, env: &dyn Env) -> Option<Vec<u8>> {
    const EXTENSIONS: [&str; 12] = ["bash", "cjs", "jar", "js", "lua", "mjs", "php", "pl", "py", "pyz", "rb", "sh"];
    if !arg.contains(['/', '.']) || arg.len() > 4096 {
        return None;
    }
    let path = if arg.starts_with('/') { PathBuf::from(arg) } else { env.current_dir()?.join(arg) };
    let about = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let named = path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known));
    (named || has_execute_permission(&about)).then(|| program_file(&path))
}

/// The plugin's environment without session variables, sorted.
fn variables(options: &CacheOptions, env: &dyn Env) -> Vec<(OsString, OsString)> {
    let forced = EnvInheritance::Only(options.env.clone());
    let mut variables = env.vars();
    variables.retain(|(name, value)| {
        let is_own = *name == *EXEC_INFO_ENV || *name == *invocation::SWITCH;
        !is_own && (!session_env::is_session_variable(name, value) || forced.allows(name))
    });
    // cron sets only LOGNAME, login shells set both to the same name.
    let find = |wanted: &str| variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    match (find("USER"), find("LOGNAME")) {
        (Some(user), None) => variables.push((OsString::from("LOGNAME"), user)),
        (None, Some(user)) => variables.push((OsString::from("USER"), user)),
        _ => {}
    }
    variables.sort();
    variables
}

/// The fields of the client's request that this version of credlet does not know, but the plugin may.
fn unknown_fields(info: &OsStr) -> Option<Vec<u8>> {
    // `interactive`, `response` and the lock file differ from call to call.
    const SPEC: [&str; 4] = ["cluster", "interactive", "lockFilePath", "response"];
    const CLUSTER: [&str; 7] = [
        "certificate-authority-data",
        "config",
        "disable-compression",
        "insecure-skip-tls-verify",
        "proxy-url",
        "server",
        "tls-server-name",
    ];
    if info.is_empty() {
        return None;
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(info.as_encoded_bytes()) else {
        // Not JSON: the plugin may parse it differently.
        return Some(info.as_encoded_bytes().to_vec());
    };
    let mut unknown = Vec::new();
    let mut add = |object: &serde_json::Map<String, Value>, known: &[&str]| {
        for (name, value) in object.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            unknown.extend_from_slice(format!("{name}={value}\n").as_bytes());
        }
    };
    if let Some(Value::Object(mut spec)) = fields.remove("spec") {
        if let Some(Value::Object(cluster)) = spec.remove("cluster") {
            add(&cluster, &CLUSTER);
        }
        add(&spec, &SPEC);
    }
    add(&fields, &["apiVersion", "kind", "spec"]);
    (!unknown.is_empty()).then_some(unknown)
}

fn add_cluster(parts: &mut Vec<KeyPart>, cluster: &Cluster) {
    let authorities = &*cluster.certificate_authority_data;
    let (insecure, uncompressed) = (cluster.insecure_skip_tls_verify, cluster.disable_compression);
    let config = cluster.config.as_ref().map(|config| config.as_json()).unwrap_or_default();
    let proxy = cluster.proxy_url.expose();
    parts.extend([
        KeyPart::new("cluster server", &*cluster.server, cluster.server.as_bytes()),
        KeyPart::new("cluster tls-server-name", &*cluster.tls_server_name, cluster.tls_server_name.as_bytes()),
        KeyPart::digest("cluster authorities", authorities),
        KeyPart::new("cluster insecure", insecure.to_string(), [u8::from(insecure)]),
        KeyPart::new("cluster disable-compression", uncompressed.to_string(), [u8::from(uncompressed)]),
        KeyPart::secret("cluster proxy", proxy.len(), proxy.as_bytes()),
        KeyPart::secret("cluster config", config.len(), config.as_bytes()),
    ]);
}

#[cfg(test)]
mod tests {
    use crate::FixedEnv;
    use credlet_api::exec::{ApiVersion, ExecCredentialSpec, RawExtension};

    use super::*;

    fn key(options: &CacheOptions, request: &CacheRequest, vars: &[(&str, &str)]) -> CacheKey {
        let env = FixedEnv::new(vars.iter().copied());
        CacheKey::compute(&parts(options, request, Path::new("/bin/plugin"), &env), &EntrySecret::unkeyed())
    }

    fn v1() -> CacheRequest {
        CacheRequest { version: Some(ApiVersion::V1), spec: ExecCredentialSpec::default() }
    }

    #[test]
    fn every_part_changes_the_key() {
        let plain = CacheOptions::new("plugin", ["a", "b"]);
        let request = |version, cluster| CacheRequest {
            version: Some(version),
            spec: ExecCredentialSpec { cluster, ..ExecCredentialSpec::default() },
        };
        let v1 = request(ApiVersion::V1, None);
        let cluster = Cluster { server: "https://a".into(), ..Cluster::default() };
        let with = |change: fn(&mut Cluster)| {
            let mut cluster = cluster.clone();
            change(&mut cluster);
            request(ApiVersion::V1, Some(cluster))
        };
        let watching = CacheOptions { watch: vec!["/no/such/file".into()], ..plain.clone() };
        let encrypted = CacheOptions { encrypt: true, ..plain.clone() };
        let keys = [
            key(&plain, &v1, &[]),
            key(&CacheOptions::new("plugin", ["ab"]), &v1, &[]),
            key(&CacheOptions::new("plugin", ["a b"]), &v1, &[]),
            key(&CacheOptions::new("plugin", ["b", "a"]), &v1, &[]),
            key(&watching, &v1, &[]),
            key(&encrypted, &v1, &[]),
            key(&plain, &request(ApiVersion::V1beta1, None), &[]),
            key(&plain, &CacheRequest { version: None, ..v1.clone() }, &[]),
            key(&plain, &v1, &[("AWS_PROFILE", "x")]),
            key(&plain, &v1, &[("AWS_PROFILE", "y")]),
            key(&plain, &v1, &[("KUBECONFIG", "y")]),
            key(&plain, &v1, &[("HOME", "/nowhere")]),
            key(&plain, &with(|_| {}), &[]),
            key(&plain, &with(|cluster| cluster.server = "https://b".into()), &[]),
            key(&plain, &with(|cluster| cluster.tls_server_name = "n".into()), &[]),
            key(&plain, &with(|cluster| cluster.certificate_authority_data = b"ca".to_vec()), &[]),
            key(&plain, &with(|cluster| cluster.insecure_skip_tls_verify = true), &[]),
            key(&plain, &with(|cluster| cluster.config = RawExtension::from_json(r#"{"aud":1}"#).ok()), &[]),
        ];
        for (index, one) in keys.iter().enumerate() {
            assert!(keys[..index].iter().all(|other| other != one), "number {index}");
        }
    }

    #[test]
    fn every_plugin_variable_changes_the_key() {
        let options = CacheOptions::new("plugin", [""; 0]);
        let key = |name: &str, value: &str| key(&options, &v1(), &[(name, value)]);
        for name in [
            "OS_USERNAME",
            "TELEPORT_PROXY",
            "GITHUB_TOKEN",
            "KRB5CCNAME",
            "USER",
            "LOGNAME",
            "PATH",
            "BROWSER",
            "XDG_CONFIG_HOME",
            "DIGITALOCEAN_ACCESS_TOKEN",
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "CREDLET_CACHE_DIR",
        ] {
            assert_ne!(key(name, "/prod"), key(name, "/dev"), "{name}");
        }
    }

    const ADA: [(&str, &str); 4] =
        [("HOME", "/home/ada"), ("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LOGNAME", "ada"), ("AWS_PROFILE", "blue")];

    /// Variables that each kind of session adds, as set by Debian and Ubuntu.
    const SESSIONS: [(&str, &[(&str, &str)]); 8] = [
        (
            "gnome-terminal",
            &[
                ("USER", "ada"),
                ("SHELL", "/bin/bash"),
                ("TERM", "xterm-256color"),
                ("COLORTERM", "truecolor"),
                ("VTE_VERSION", "7600"),
                ("GNOME_TERMINAL_SCREEN", "/org/gnome/Terminal/screen/1"),
                ("DISPLAY", ":0"),
                ("WAYLAND_DISPLAY", "wayland-0"),
                ("XAUTHORITY", "/run/user/1000/.mutter-Xwaylandauth.1"),
                ("XDG_SESSION_ID", "2"),
                ("XDG_SESSION_TYPE", "wayland"),
                ("XDG_CURRENT_DESKTOP", "ubuntu:GNOME"),
                ("XDG_DATA_DIRS", "/usr/share/ubuntu:/usr/share"),
                ("XDG_CONFIG_DIRS", "/etc/xdg/xdg-ubuntu:/etc/xdg"),
                ("SESSION_MANAGER", "local/host:@/tmp/.ICE-unix/1"),
                ("SSH_AGENT_LAUNCHER", "gnome-keyring"),
                ("LANG", "de_DE.UTF-8"),
                ("LS_COLORS", "di=01;34"),
                ("PWD", "/home/ada/a"),
                ("SHLVL", "1"),
                ("_", "/usr/bin/kubectl"),
            ],
        ),
        (
            "another terminal",
            &[("USER", "ada"), ("TERM", "xterm-kitty"), ("KITTY_WINDOW_ID", "3"), ("PWD", "/srv"), ("OLDPWD", "/")],
        ),
        (
            "tmux",
            &[
                ("USER", "ada"),
                ("TERM", "tmux-256color"),
                ("TERM_PROGRAM", "tmux"),
                ("TMUX", "/tmp/tmux-1000/default,1,0"),
                ("TMUX_PANE", "%3"),
                ("SHLVL", "2"),
            ],
        ),
        ("screen", &[("USER", "ada"), ("TERM", "screen"), ("STY", "1.pts-0.host"), ("WINDOW", "0")]),
        (
            "ssh",
            &[
                ("USER", "ada"),
                ("SSH_CLIENT", "192.0.2.1 50000 22"),
                ("SSH_CONNECTION", "192.0.2.1 50000 192.0.2.2 22"),
                ("SSH_TTY", "/dev/pts/4"),
                ("SSH_AUTH_SOCK", "/tmp/ssh-XXXXk2Gq7a/agent.4711"),
                ("XDG_SESSION_ID", "17"),
                ("XDG_SESSION_CLASS", "user"),
                ("MOTD_SHOWN", "pam"),
                ("MAIL", "/var/mail/ada"),
                ("LC_ALL", "C.UTF-8"),
            ],
        ),
        ("cron", &[("SHELL", "/bin/sh"), ("PWD", "/home/ada"), ("MAILTO", "ada@example.test")]),
        (
            "systemd",
            &[
                ("USER", "ada"),
                ("SHELL", "/bin/bash"),
                ("INVOCATION_ID", "f00"),
                ("JOURNAL_STREAM", "9:123"),
                ("SYSTEMD_EXEC_PID", "42"),
                ("LANG", "C.UTF-8"),
            ],
        ),
        ("k9s", &[("USER", "ada"), ("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("EDITOR", "vi")]),
    ];

    #[test]
    fn all_kinds_of_sessions_share_one_key() {
        let options = CacheOptions::new("plugin", ["eks", "get-token"]);
        let mut session_vars = Vec::new();
        let runtime_dir = format!("/run/user/{}", rustix::process::geteuid().as_raw());
        let bus = format!("unix:path={runtime_dir}/bus");
        for (index, (name, session)) in SESSIONS.iter().enumerate() {
            let mut vars: Vec<_> = ADA.iter().chain(*session).copied().collect();
            if index == 0 {
                vars.extend([("XDG_RUNTIME_DIR", &*runtime_dir), ("DBUS_SESSION_BUS_ADDRESS", &*bus)]);
            }
            session_vars.push((name, key(&options, &v1(), &vars)));
        }
        for (name, key) in &session_vars {
            assert_eq!(*key, session_vars[0].1, "{name}");
        }
    }

    #[test]
    fn replaced_program_makes_another_key() {
        let dir = tempfile::tempdir().unwrap();
        let (program, link) = (dir.path().join("plugin"), dir.path().join("link"));
        std::os::unix::fs::symlink(&program, &link).unwrap();
        let key = || {
            let parts = parts(&CacheOptions::new("plugin", [""; 0]), &v1(), &link, &FixedEnv::default());
            CacheKey::compute(&parts, &EntrySecret::unkeyed())
        };
        std::fs::write(&program, "one").unwrap();
        let first = key();
        assert_eq!(key(), first);
        let time = program.metadata().unwrap().modified().unwrap();
        let file = std::fs::File::options().write(true).open(&program).unwrap();
        file.set_modified(time + std::time::Duration::from_nanos(1000)).unwrap();
        assert_ne!(key(), first, "modification time");
        file.set_modified(time).unwrap();
        assert_eq!(key(), first);
        let other = dir.path().join("other");
        std::fs::write(&other, "two").unwrap();
        std::fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        std::fs::rename(&other, &program).unwrap();
        assert_ne!(key(), first, "another file of the same size and time");
    }

    #[test]
    fn replaced_script_of_an_interpreter_makes_another_key() {
        let dir = tempfile::tempdir().unwrap();
        let (script, data) = (dir.path().join("plugin.py"), dir.path().join("log"));
        let key = |path: &Path| key(&CacheOptions::new("python3", [path.to_str().unwrap()]), &v1(), &[]);
        for (path, changes) in [(&script, true), (&data, false)] {
            std::fs::write(path, "one").unwrap();
            let first = key(path);
            std::fs::write(path, "another").unwrap();
            assert_eq!(key(path) != first, changes, "{}", path.display());
        }
    }

    #[test]
    fn working_directory_counts_where_an_argument_is_relative() {
        let dir = tempfile::tempdir().unwrap();
        let key = |args: &[&str], vars: &[(&str, &str)], dir: &Path| {
            let options = CacheOptions::new("plugin", args.iter().copied());
            let env = FixedEnv::new(vars.iter().copied()).in_dir(dir);
            CacheKey::compute(&parts(&options, &v1(), Path::new("/bin/plugin"), &env), &EntrySecret::unkeyed())
        };
        let elsewhere = Path::new("/");
        assert_eq!(key(&["eks"], &[], dir.path()), key(&["eks"], &[], elsewhere));
        assert_ne!(key(&["--file", "./who"], &[], dir.path()), key(&["--file", "./who"], &[], elsewhere));
        let variable = [("WHO", "./who")];
        assert_ne!(key(&[], &variable, dir.path()), key(&[], &variable, elsewhere));
        let before = key(&["--file", "who"], &[], dir.path());
        std::fs::write(dir.path().join("who"), "prod").unwrap();
        assert_ne!(key(&["--file", "who"], &[], dir.path()), before);
    }

    #[test]
    fn unknown_fields_of_the_request_make_another_key() {
        let info = |spec: &str| format!(r#"{{"kind":"ExecCredential","apiVersion":"x","spec":{{{spec}}}}}"#);
        let of = |spec: &str| unknown_fields(OsStr::new(&info(spec)));
        assert_eq!(of(r#""interactive":true,"lockFilePath":"/x","response":{"code":401}"#), None);
        assert_eq!(of(r#""cluster":{"server":"https://a","config":{"a":1}}"#), None);
        assert_ne!(of(r#""audience":"prod""#), of(r#""audience":"dev""#));
        assert_ne!(of(r#""cluster":{"audience":"prod"}"#), of(r#""cluster":{"audience":"dev"}"#));
        assert_eq!(unknown_fields(OsStr::new("")), None);
        assert!(unknown_fields(OsStr::new("kind: ExecCredential")).is_some());
    }

    #[test]
    fn key_cannot_be_computed_without_the_secret() {
        let dir = tempfile::tempdir().unwrap();
        let env = FixedEnv::default().with_account_home(dir.path());
        let secret = super::super::state::CacheState::open(&env, dir.path()).unwrap().secret().unwrap();
        let parts = parts(&CacheOptions::new("plugin", ["x"]), &v1(), Path::new("/bin/plugin"), &env);
        assert_ne!(CacheKey::compute(&parts, &secret), CacheKey::compute(&parts, &EntrySecret::unkeyed()));
        assert_ne!(parts[0].fingerprint(&secret), parts[0].fingerprint(&EntrySecret::unkeyed()));
    }

    #[test]
    fn irrelevant_settings_do_not_change_the_key() {
        let plain = CacheOptions::new("plugin", ["a"]);
        let request = |interactive| CacheRequest {
            version: Some(ApiVersion::V1),
            spec: ExecCredentialSpec { interactive, ..ExecCredentialSpec::default() },
        };
        let fresh = CacheOptions { force_refresh: true, ..plain.clone() };
        let expected = key(&plain, &request(false), &[("EDITOR", "vi")]);
        assert_eq!(expected, key(&plain, &request(true), &[("TERM", "xterm")]));
        assert_eq!(expected, key(&fresh, &request(true), &[("CREDLET_CACHE", "refresh")]));
        assert_ne!(
            expected,
            key(&CacheOptions { env: vec!["ED*".into()], ..plain }, &request(false), &[("EDITOR", "vi")])
        );
    }

    #[test]
    fn debug_output_redacts_values() {
        let options = CacheOptions::new("plugin", ["--secret=hunter2"]);
        let request = CacheRequest { version: None, spec: ExecCredentialSpec::default() };
        let env = FixedEnv::new([("AWS_SECRET_ACCESS_KEY", "hunter2")]);
        let shown = format!("{:?}", parts(&options, &request, Path::new("/bin/plugin"), &env));
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY") && !shown.contains("hunter2"), "{shown}");
    }
}
