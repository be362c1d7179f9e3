//! kubeconfig files, as kubectl understands them.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod bad_input;
mod choosing;
mod identity;
mod in_cluster;
mod loading;
mod merging;
mod overriding;
mod validating;
mod vectors;

use std::fs;
use std::path::{Path, PathBuf};

use credlet_client::kubeconfig::{Kubeconfig, KubeconfigError, Overrides, Resolved};
use credlet_core::FixedEnv;
use tempfile::TempDir;

/// A directory with files in it.
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

/// A context `c` with this cluster and this user, each in YAML's flow style.
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

fn resolve(text: &str) -> Resolved {
    resolve_with(text, &Overrides::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn resolve_with(text: &str, overrides: &Overrides) -> Result<Resolved, KubeconfigError> {
    load(text).resolve(overrides, &FixedEnv::default())
}

fn refuse(text: &str) -> String {
    resolve_with(text, &Overrides::default()).expect_err(text).to_string()
}

/// What the caller knows better.
fn overrides(set: impl FnOnce(&mut Overrides)) -> Overrides {
    let mut overrides = Overrides::default();
    set(&mut overrides);
    overrides
}

fn in_dir(path: &Path) -> FixedEnv {
    FixedEnv::default().in_dir(path)
}
