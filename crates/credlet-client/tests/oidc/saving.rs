//! New tokens go back into the file, and nothing is lost.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use credlet_client::Client;
use credlet_client::kubeconfig::{ConfigOverrides, Kubeconfig};
use credlet_exec::FixedEnv;
use http::StatusCode;

use crate::{Sandbox, status};

/// All files but the kubeconfig itself.
fn others(sandbox: &Sandbox) -> Vec<String> {
    let names = fs::read_dir(sandbox.dir.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "config").collect()
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn replaces_both_tokens_in_place() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let (first, second) = (sandbox.refresh_token("first refresh token"), sandbox.refresh_token("second refresh token"));
    sandbox.issuer.grant(&first, Some(&new), Some(&second));
    let path = sandbox.logged_in(&old, &first);
    chmod(&path, 0o640);
    let before = fs::read_to_string(&path).unwrap();
    assert_eq!(status(&sandbox.client(&path)).await, StatusCode::OK);

    let after = fs::read_to_string(&path).unwrap();
    assert!(after == before.replace(&old, &new).replace(&first, &second));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    assert!(others(&sandbox).is_empty(), "{:?}", others(&sandbox));
    assert!(sandbox.warnings().is_empty(), "{:?}", sandbox.warnings());
    // The next process finds both tokens in the file.
    let next = sandbox.client(&path);
    assert_eq!(status(&next).await, StatusCode::OK);
    assert_eq!(sandbox.issuer.seen("/token"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_symbolic_link() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let refresh = sandbox.refresh_token("refresh token");
    sandbox.issuer.grant(&refresh, Some(&new), None);
    let path = sandbox.logged_in(&old, &refresh);
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    symlink(&path, &link).unwrap();
    assert_eq!(status(&sandbox.client(&link)).await, StatusCode::OK);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&path).unwrap().contains(&new));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1, "the lock is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_processes_refresh_once() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let (first, second) = (sandbox.refresh_token("first refresh token"), sandbox.refresh_token("second refresh token"));
    sandbox.issuer.grant(&first, Some(&new), Some(&second));
    let path = sandbox.logged_in(&old, &first);
    // Separate registries, like separate processes.
    let clients: Vec<_> = (0..6).map(|_| sandbox.client(&path)).collect();
    let requests: Vec<_> =
        clients.into_iter().map(|client| tokio::spawn(async move { status(&client).await })).collect();
    for request in requests {
        assert_eq!(request.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(sandbox.issuer.seen("/token"), 1);
    assert!(sandbox.server.requests().iter().all(|seen| seen.bearer() == Some(&*new)));
}

#[tokio::test(flavor = "multi_thread")]
async fn uses_tokens_saved_by_other_process() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let refresh = sandbox.refresh_token("refresh token");
    let client = sandbox.client(&sandbox.logged_in(&old, &refresh));
    sandbox.logged_in(&new, &refresh);
    assert_eq!(status(&client).await, StatusCode::OK);
    assert_eq!(sandbox.server.last_request().bearer(), Some(&*new));
    assert!(sandbox.issuer.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn prefers_refresh_token_from_file() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let (first, second) = (sandbox.refresh_token("first refresh token"), sandbox.refresh_token("second refresh token"));
    let client = sandbox.client(&sandbox.logged_in(&old, &first));
    sandbox.logged_in(&old, &second);
    sandbox.issuer.grant(&second, Some(&new), None);
    assert_eq!(status(&client).await, StatusCode::OK);
    assert_eq!(sandbox.issuer.seen("/token"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn warns_if_file_is_read_only() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let (first, second) = (sandbox.refresh_token("first refresh token"), sandbox.refresh_token("second refresh token"));
    sandbox.issuer.grant(&first, Some(&new), Some(&second));
    let path = sandbox.logged_in(&old, &first);
    chmod(&path, 0o444);
    let before = fs::read(&path).unwrap();
    let client = sandbox.client(&path);
    assert_eq!(status(&client).await, StatusCode::OK);
    assert!(fs::read(&path).unwrap() == before);
    let warnings = sandbox.warnings();
    assert!(
        matches!(&*warnings, [one] if one.contains("is read-only") && one.contains("log in again")),
        "{warnings:?}"
    );

    // The rotated token lives on in this process, and is kept as soon as that is possible.
    let (newer, third) = (sandbox.id_token("newer id token", 600), sandbox.refresh_token("third refresh token"));
    sandbox.issuer.grant(&second, Some(&newer), Some(&third));
    chmod(&path, 0o600);
    sandbox.server.accept_token(&*newer);
    assert_eq!(status(&client).await, StatusCode::OK);
    let after = fs::read_to_string(&path).unwrap();
    assert!(after.contains(&newer) && after.contains(&third));
}

#[tokio::test(flavor = "multi_thread")]
async fn warns_with_line_of_multi_line_token() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let (first, second) = (sandbox.refresh_token("first refresh token"), sandbox.refresh_token("second refresh token"));
    sandbox.issuer.grant(&first, Some(&new), Some(&second));
    let config =
        format!("        id-token: {old}\n        refresh-token: >-\n          {first}\n{}", sandbox.settings());
    let path = sandbox.kubeconfig(config.trim_end());
    let before = fs::read(&path).unwrap();
    assert_eq!(status(&sandbox.client(&path)).await, StatusCode::OK);
    assert!(fs::read(&path).unwrap() == before);
    let warnings = sandbox.warnings();
    let expected = format!("{}, line 12: the file cannot be edited: `refresh-token`", path.display());
    assert!(matches!(&*warnings, [one] if one.contains(&expected)), "{warnings:?}");
    assert!(others(&sandbox).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn warns_if_lock_is_never_released() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let refresh = sandbox.refresh_token("refresh token");
    sandbox.issuer.grant(&refresh, Some(&new), None);
    let path = sandbox.logged_in(&old, &refresh);
    fs::write(sandbox.dir.path().join("config.lock"), "").unwrap();
    assert_eq!(status(&sandbox.client(&path)).await, StatusCode::OK);
    assert!(fs::read_to_string(&path).unwrap().contains(&old));
    let warnings = sandbox.warnings();
    assert!(matches!(&*warnings, [one] if one.contains("is already locked")), "{warnings:?}");
    assert_eq!(others(&sandbox), ["config.lock"], "the lock is another's");
}

#[tokio::test(flavor = "multi_thread")]
async fn saves_token_after_caller_cancels() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let (first, second) = (sandbox.refresh_token("first refresh token"), sandbox.refresh_token("second refresh token"));
    sandbox.issuer.grant(&first, Some(&new), Some(&second));
    let path = sandbox.logged_in(&old, &first);
    let client = sandbox.client(&path);
    let request = tokio::spawn(async move { status(&client).await });
    sandbox.wait_for_requests(|asked| !asked.is_empty()).await;
    request.abort();
    // Polled, because no caller waits for the save.
    let kept = async {
        while !fs::read_to_string(&path).unwrap().contains(&second) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::HANG, kept).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn warns_without_kubeconfig_file() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let (first, second) = (sandbox.refresh_token("first refresh token"), sandbox.refresh_token("second refresh token"));
    sandbox.issuer.grant(&first, Some(&new), Some(&second));
    let text = fs::read(sandbox.logged_in(&old, &first)).unwrap();
    let env = FixedEnv::default();
    let resolved = Kubeconfig::from_bytes(&text, &env).unwrap().resolve(&ConfigOverrides::default(), &env).unwrap();
    let client = Client::new(&resolved, sandbox.options()).unwrap();
    assert_eq!(status(&client).await, StatusCode::OK);
    let is_warning = |line: &String| line.contains("WARN") && line.contains("the kubeconfig is not a file");
    assert!(sandbox.watch.lines().iter().any(is_warning));
}
