//! Files that determine the identity of the credential, such as `~/.aws/config`.
//!
//! A cache that keeps serving the previous identity after a switch of users would be a security bug. So the state of these
//! files is part of the key, and any change to them leads to a new run of the plugin.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Env;
use credlet_platform::fs::{FileFingerprint, read_bounded};
use sha2::{Digest as _, Sha256};

/// Larger files are compared by size and times only.
const MAX_HASHED_SIZE: u64 = 1 << 20;

/// Returns the files and directories from which the plugins of AWS, Google Cloud, Azure, Oracle Cloud and Vault take their
/// identity, and those of `watch`.
pub(super) fn paths(watch: &[PathBuf], env: &dyn Env) -> Vec<PathBuf> {
    let named = |name: &str| env.var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let at_home = |path: &str| env.home_dir().map(|home| home.join(path));
    let gcloud = named("CLOUDSDK_CONFIG").or_else(|| at_home(".config/gcloud"));
    let azure = named("AZURE_CONFIG_DIR").or_else(|| at_home(".azure"));
    let known = [
        named("AWS_CONFIG_FILE").or_else(|| at_home(".aws/config")),
        named("AWS_SHARED_CREDENTIALS_FILE").or_else(|| at_home(".aws/credentials")),
        // One file per SSO session.
        at_home(".aws/sso/cache"),
        named("AWS_WEB_IDENTITY_TOKEN_FILE"),
        gcloud.as_ref().map(|dir| dir.join("active_config")),
        gcloud.as_ref().map(|dir| dir.join("configurations").join(format!("config_{}", gcloud_name(dir, env)))),
        gcloud.as_ref().map(|dir| dir.join("application_default_credentials.json")),
        named("GOOGLE_APPLICATION_CREDENTIALS"),
        azure.map(|dir| dir.join("azureProfile.json")),
        named("AZURE_FEDERATED_TOKEN_FILE"),
        named("OCI_CLI_CONFIG_FILE").or_else(|| at_home(".oci/config")),
        at_home(".vault-token"),
    ];
    known.into_iter().flatten().chain(watch.iter().cloned()).collect()
}

/// The name of gcloud's active configuration.
fn gcloud_name(dir: &Path, env: &dyn Env) -> String {
    let named = env.var("CLOUDSDK_ACTIVE_CONFIG_NAME").and_then(|name| name.into_string().ok());
    let active = || {
        let name = read_bounded(&dir.join("active_config"), 4096).ok()?;
        Some(std::str::from_utf8(&name).ok()?.trim().to_owned())
    };
    named.or_else(active).filter(|name| !name.is_empty() && !name.contains('/')).unwrap_or_else(|| "default".to_owned())
}

/// The state of the file or directory at `path`: size, times, inode and a digest of its content. A missing file has a
/// state too.
pub(super) fn fingerprint(path: &Path) -> Vec<u8> {
    let Ok(about) = path.metadata() else { return b"missing".to_vec() };
    let mut print = stamp(&about);
    if about.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path).into_iter().flatten().flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        let mut hash = Sha256::new();
        for entry in entries {
            hash.update(entry.file_name().as_encoded_bytes());
            hash.update([0]);
            hash.update(entry.metadata().map(|about| stamp(&about)).unwrap_or_default());
        }
        print.extend_from_slice(&hash.finalize());
    } else if about.is_file() && about.len() <= MAX_HASHED_SIZE {
        // A file that cannot be read does not influence the plugin.
        let content = read_bounded(path, MAX_HASHED_SIZE).unwrap_or_default();
        print.extend_from_slice(&Sha256::digest(&content));
    }
    print
}

fn stamp(about: &fs::Metadata) -> Vec<u8> {
    let FileFingerprint { inode, size, modified: [seconds, nanos], .. } = FileFingerprint::new(about);
    [size, seconds, nanos, inode].iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use crate::FixedEnv;

    use super::*;

    #[test]
    fn fingerprint_changes_with_file_time_and_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let mut prints = vec![fingerprint(&path)];
        fs::write(&path, "one").unwrap();
        prints.push(fingerprint(&path));
        assert_eq!(prints[1], fingerprint(&path));
        let file = File::options().write(true).open(&path).unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        file.set_modified(time + std::time::Duration::from_secs(1)).unwrap();
        prints.push(fingerprint(&path));
        // Same size and time, other content.
        fs::write(&path, "two").unwrap();
        file.set_modified(time).unwrap();
        prints.push(fingerprint(&path));
        let all = prints.len();
        prints.sort();
        prints.dedup();
        assert_eq!(prints.len(), all);
    }

    #[test]
    fn fingerprint_changes_with_directory_entries() {
        let dir = tempfile::tempdir().unwrap();
        let before = fingerprint(dir.path());
        fs::write(dir.path().join("session.json"), "{}").unwrap();
        assert_ne!(fingerprint(dir.path()), before);
    }

    #[test]
    fn active_gcloud_configuration_is_included() {
        let home = tempfile::tempdir().unwrap();
        let gcloud = home.path().join(".config/gcloud");
        let env = FixedEnv::new([("HOME", home.path())]);
        assert!(paths(&[], &env).contains(&gcloud.join("configurations/config_default")));
        fs::create_dir_all(&gcloud).unwrap();
        fs::write(gcloud.join("active_config"), "work\n").unwrap();
        assert!(paths(&[], &env).contains(&gcloud.join("configurations/config_work")));
        let elsewhere = FixedEnv::new([("CLOUDSDK_CONFIG", "/c"), ("CLOUDSDK_ACTIVE_CONFIG_NAME", "mine")]);
        assert!(paths(&["w".into()], &elsewhere).ends_with(&["w".into()]));
        assert!(paths(&[], &elsewhere).contains(&PathBuf::from("/c/configurations/config_mine")));
    }
}
