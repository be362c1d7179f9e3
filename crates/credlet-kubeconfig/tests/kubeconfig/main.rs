//! Loading and resolving kubeconfigs with kubectl's semantics.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod identity;
mod in_cluster;
mod invalid_input;
mod loading;
mod merging;
mod overrides;
mod selection;
mod validation;
mod vectors;

use std::fs;
use std::path::{Path, PathBuf};

use credlet_kubeconfig::{ConfigOverrides, Kubeconfig, KubeconfigError, ResolvedConfig};
use credlet_platform::FixedEnv;
use tempfile::TempDir;

/// Temporary directory for kubeconfigs and their files.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn env(&self) -> FixedEnv {
        FixedEnv::default().in_dir(self.0.path())
    }
}

/// A kubeconfig with a context `c` for this cluster and user, each in flow style.
fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
         clusters:\n- name: k\n  cluster: {{{cluster}}}\nusers:\n- name: u\n  user: {{{user}}}\n"
    )
}

const SERVER: &str = "server: 'https://h'";
const EXEC: &str = "exec: {command: aws, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}";

fn load(text: &str) -> Kubeconfig {
    Kubeconfig::from_bytes(text.as_bytes(), &FixedEnv::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn resolve(text: &str) -> ResolvedConfig {
    resolve_with(text, &ConfigOverrides::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn resolve_with(text: &str, overrides: &ConfigOverrides) -> Result<ResolvedConfig, KubeconfigError> {
    load(text).resolve(overrides, &FixedEnv::default())
}

fn refuse(text: &str) -> String {
    resolve_with(text, &ConfigOverrides::default()).expect_err(text).to_string()
}

fn overrides(set: impl FnOnce(&mut ConfigOverrides)) -> ConfigOverrides {
    let mut overrides = ConfigOverrides::default();
    set(&mut overrides);
    overrides
}

fn in_dir(path: &Path) -> FixedEnv {
    FixedEnv::default().in_dir(path)
}
