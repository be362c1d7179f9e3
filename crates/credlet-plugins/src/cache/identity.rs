//! The files that say who is asking. A cache that outlives a change of user is a security bug, so a token is kept for
//! the files as they were: touched, it is asked for again.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use credlet_core::Env;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// Of a larger file only size and times count.
const LARGEST: u64 = 1 << 20;

/// The files and directories that plugins of the large clouds take their user from, and those of `watch`.
pub(super) fn places(watch: &[PathBuf], env: &dyn Env) -> Vec<PathBuf> {
    let named = |name: &str| env.var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let at_home = |path: &str| env.home_dir().map(|home| home.join(path));
    let gcloud = named("CLOUDSDK_CONFIG").or_else(|| at_home(".config/gcloud"));
    let azure = named("AZURE_CONFIG_DIR").or_else(|| at_home(".azure"));
    let known = [
        named("AWS_CONFIG_FILE").or_else(|| at_home(".aws/config")),
        named("AWS_SHARED_CREDENTIALS_FILE").or_else(|| at_home(".aws/credentials")),
        // One file for each person that is logged in.
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

/// The name of the configuration that gcloud uses.
fn gcloud_name(dir: &Path, env: &dyn Env) -> String {
    let named = env.var("CLOUDSDK_ACTIVE_CONFIG_NAME").and_then(|name| name.into_string().ok());
    let active = || fs::read_to_string(dir.join("active_config")).ok().map(|name| name.trim().to_owned());
    named.or_else(active).filter(|name| !name.is_empty() && !name.contains('/')).unwrap_or_else(|| "default".to_owned())
}

/// What there is at `path`, in some forty bytes that change whenever it does. Missing is a state as any other.
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
    } else if about.is_file() && about.len() <= LARGEST {
        let mut content = Zeroizing::new(Vec::with_capacity(usize::try_from(about.len()).unwrap_or_default() + 1));
        // A file that cannot be read cannot make the plugin another user's, either.
        let _ = File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut content));
        print.extend_from_slice(&Sha256::digest(&content));
    }
    print
}

fn stamp(about: &fs::Metadata) -> Vec<u8> {
    let numbers = [about.size(), about.mtime().cast_unsigned(), about.mtime_nsec().cast_unsigned(), about.ino()];
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use credlet_core::FixedEnv;

    use super::*;

    #[test]
    fn a_file_changes_its_print_when_it_is_touched_written_or_removed() {
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
        // The same size, and the time set back: the content tells.
        fs::write(&path, "two").unwrap();
        file.set_modified(time).unwrap();
        prints.push(fingerprint(&path));
        let all = prints.len();
        prints.sort();
        prints.dedup();
        assert_eq!(prints.len(), all);
    }

    #[test]
    fn a_directory_changes_its_print_with_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let before = fingerprint(dir.path());
        fs::write(dir.path().join("session.json"), "{}").unwrap();
        assert_ne!(fingerprint(dir.path()), before);
    }

    #[test]
    fn the_active_configuration_of_gcloud_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let gcloud = home.path().join(".config/gcloud");
        let env = FixedEnv::new([("HOME", home.path())]);
        assert!(places(&[], &env).contains(&gcloud.join("configurations/config_default")));
        fs::create_dir_all(&gcloud).unwrap();
        fs::write(gcloud.join("active_config"), "work\n").unwrap();
        assert!(places(&[], &env).contains(&gcloud.join("configurations/config_work")));
        let elsewhere = FixedEnv::new([("CLOUDSDK_CONFIG", "/c"), ("CLOUDSDK_ACTIVE_CONFIG_NAME", "mine")]);
        assert!(places(&["w".into()], &elsewhere).ends_with(&["w".into()]));
        assert!(places(&[], &elsewhere).contains(&PathBuf::from("/c/configurations/config_mine")));
    }
}
