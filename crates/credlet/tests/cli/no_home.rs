//! Without a home directory (a system service has no HOME) no file of the current directory is read.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::support::CREDLET;

const REQUEST: &str = r#"{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderRequest","image":"123456789012.dkr.ecr.eu-west-3.amazonaws.com/x"}"#;

/// Creates a directory with every file that is read from a home directory.
fn planted() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("planted-program-ran").display().to_string();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(".aws/credentials", "[default]\naws_access_key_id = AKPLANTED\naws_secret_access_key = s\n");
    write(".aws/config", &format!("[profile process]\ncredential_process = /usr/bin/touch {marker}\n"));
    write(".oci/config", "[DEFAULT]\nregion = planted\n");
    write(".config/gcloud/application_default_credentials.json", "planted");
    write(".config/gcloud/configurations/config_default", "[core]\naccount = planted@example.test\n");
    write(
        ".kube/config",
        "apiVersion: v1\nkind: Config\ncurrent-context: planted\ncontexts:\n- name: planted\n  context: {cluster: planted, user: planted}\n\
         clusters:\n- name: planted\n  cluster: {server: 'https://planted.example'}\nusers:\n- name: planted\n  user: {token: planted}\n",
    );
    dir
}

/// Runs the command in that directory.
#[expect(clippy::disallowed_methods, reason = "a test plays the system's service manager")]
fn run(dir: &Path, home: Option<&str>, account_home: &str, args: &str) -> Output {
    let mut command = Command::new(CREDLET);
    command.args(args.split(' ')).current_dir(dir).env_clear().env("CREDLET_TEST_ACCOUNT_HOME", account_home);
    command.env("AWS_EC2_METADATA_DISABLED", "true").env("NO_GCE_CHECK", "true");
    command.envs(home.map(|home| ("HOME", home)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Most commands do not read it.
    let _ = child.stdin.take().unwrap().write_all(REQUEST.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn ignores_files_in_the_current_directory() {
    let dir = planted();
    for home in [None, Some(""), Some("."), Some("./")] {
        for args in [
            "plugin eks --cluster-name demo",
            "plugin eks --cluster-name demo --profile process",
            "plugin ecr",
            "plugin oke --cluster-id ocid1",
            "plugin gke",
            "plugin gke --use_application_default_credentials",
            "token --context planted -o raw",
            "config resolve --context planted",
        ] {
            let output = run(dir.path(), home, "", args);
            let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(!output.status.success() && stdout.is_empty(), "{home:?} {args}: {stdout}{stderr}");
            let shown = stderr.replace("--context planted", "").replace("`planted`", "").replace("\"planted\"", "");
            assert!(!shown.contains("planted") && !shown.contains("not JSON"), "{home:?} {args}: {stderr}");
        }
    }
    assert!(!dir.path().join("planted-program-ran").exists());
}

#[test]
fn uses_home_of_the_account_database() {
    let (dir, home) = (planted(), tempfile::tempdir().unwrap());
    fs::create_dir(home.path().join(".aws")).unwrap();
    let keys = "[default]\naws_access_key_id = AKOWN\naws_secret_access_key = s\n";
    fs::write(home.path().join(".aws/credentials"), keys).unwrap();
    for unset in [None, Some("relative")] {
        let account = home.path().to_str().unwrap();
        let output = run(dir.path(), unset, account, "plugin eks --cluster-name demo --token-only");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
