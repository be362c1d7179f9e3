//! New tokens go back into the file, and nothing is lost.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use credlet_client::Client;
use credlet_client::kubeconfig::{Kubeconfig, Overrides};
use credlet_core::FixedEnv;
use http::StatusCode;

use crate::{Scene, status};

/// All files but the kubeconfig itself.
fn others(scene: &Scene) -> Vec<String> {
    let names = fs::read_dir(scene.dir.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "config").collect()
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn both_tokens_are_replaced_where_they_stand_and_all_else_stays_to_the_byte() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let (first, second) = (scene.refresh_token("first refresh token"), scene.refresh_token("second refresh token"));
    scene.issuer.grant(&first, Some(&new), Some(&second));
    let path = scene.logged_in(&old, &first);
    chmod(&path, 0o640);
    let before = fs::read_to_string(&path).unwrap();
    assert_eq!(status(&scene.client(&path)).await, StatusCode::OK);

    let after = fs::read_to_string(&path).unwrap();
    assert!(after == before.replace(&old, &new).replace(&first, &second));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    assert!(others(&scene).is_empty(), "{:?}", others(&scene));
    assert!(scene.warnings().is_empty(), "{:?}", scene.warnings());
    // Whoever comes next finds what he needs there.
    let next = scene.client(&path);
    assert_eq!(status(&next).await, StatusCode::OK);
    assert_eq!(scene.issuer.refreshes(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_symbolic_link_stays_one() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let refresh = scene.refresh_token("refresh token");
    scene.issuer.grant(&refresh, Some(&new), None);
    let path = scene.logged_in(&old, &refresh);
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    symlink(&path, &link).unwrap();
    assert_eq!(status(&scene.client(&link)).await, StatusCode::OK);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&path).unwrap().contains(&new));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1, "the lock is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_renew_at_once_ask_the_issuer_once() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let (first, second) = (scene.refresh_token("first refresh token"), scene.refresh_token("second refresh token"));
    scene.issuer.grant(&first, Some(&new), Some(&second));
    let path = scene.logged_in(&old, &first);
    // Each with authenticators of its own, as processes have them.
    let clients: Vec<_> = (0..6).map(|_| scene.client(&path)).collect();
    let requests: Vec<_> =
        clients.into_iter().map(|client| tokio::spawn(async move { status(&client).await })).collect();
    for request in requests {
        assert_eq!(request.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(scene.issuer.refreshes(), 1);
    assert!(scene.server.requests().iter().all(|seen| seen.bearer() == Some(&*new)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_program_has_put_into_the_file_is_used() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let refresh = scene.refresh_token("refresh token");
    let client = scene.client(&scene.logged_in(&old, &refresh));
    scene.logged_in(&new, &refresh);
    assert_eq!(status(&client).await, StatusCode::OK);
    assert_eq!(scene.server.last_request().bearer(), Some(&*new));
    assert!(scene.issuer.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_from_the_file_goes_before_the_one_that_was_loaded() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let (first, second) = (scene.refresh_token("first refresh token"), scene.refresh_token("second refresh token"));
    let client = scene.client(&scene.logged_in(&old, &first));
    scene.logged_in(&old, &second);
    scene.issuer.grant(&second, Some(&new), None);
    assert_eq!(status(&client).await, StatusCode::OK);
    assert_eq!(scene.issuer.refreshes(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_file_stays_and_the_request_succeeds_with_a_warning() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let (first, second) = (scene.refresh_token("first refresh token"), scene.refresh_token("second refresh token"));
    scene.issuer.grant(&first, Some(&new), Some(&second));
    let path = scene.logged_in(&old, &first);
    chmod(&path, 0o444);
    let before = fs::read(&path).unwrap();
    let client = scene.client(&path);
    assert_eq!(status(&client).await, StatusCode::OK);
    assert!(fs::read(&path).unwrap() == before);
    let warnings = scene.warnings();
    assert!(
        matches!(&*warnings, [one] if one.contains("is read-only") && one.contains("log in again")),
        "{warnings:?}"
    );

    // The rotated token lives on in this process, and is kept as soon as that is possible.
    let (newer, third) = (scene.id_token("newer id token", 600), scene.refresh_token("third refresh token"));
    scene.issuer.grant(&second, Some(&newer), Some(&third));
    chmod(&path, 0o600);
    scene.server.accept_token(&*newer);
    assert_eq!(status(&client).await, StatusCode::OK);
    let after = fs::read_to_string(&path).unwrap();
    assert!(after.contains(&newer) && after.contains(&third));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_another_form_stays_and_the_warning_names_its_line() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let (first, second) = (scene.refresh_token("first refresh token"), scene.refresh_token("second refresh token"));
    scene.issuer.grant(&first, Some(&new), Some(&second));
    let config = format!("        id-token: {old}\n        refresh-token: >-\n          {first}\n{}", scene.settings());
    let path = scene.kubeconfig(config.trim_end());
    let before = fs::read(&path).unwrap();
    assert_eq!(status(&scene.client(&path)).await, StatusCode::OK);
    assert!(fs::read(&path).unwrap() == before);
    let warnings = scene.warnings();
    let expected = format!("{}, line 12: the file has a `refresh-token`", path.display());
    assert!(matches!(&*warnings, [one] if one.contains(&expected)), "{warnings:?}");
    assert!(others(&scene).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_nobody_removes_is_a_warning() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let refresh = scene.refresh_token("refresh token");
    scene.issuer.grant(&refresh, Some(&new), None);
    let path = scene.logged_in(&old, &refresh);
    fs::write(scene.dir.path().join("config.lock"), "").unwrap();
    assert_eq!(status(&scene.client(&path)).await, StatusCode::OK);
    assert!(fs::read_to_string(&path).unwrap().contains(&old));
    let warnings = scene.warnings();
    assert!(matches!(&*warnings, [one] if one.contains("is locked")), "{warnings:?}");
    assert_eq!(others(&scene), ["config.lock"], "the lock is another's");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_waiting_does_not_stop_the_new_token_from_being_kept() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let (first, second) = (scene.refresh_token("first refresh token"), scene.refresh_token("second refresh token"));
    scene.issuer.grant(&first, Some(&new), Some(&second));
    let path = scene.logged_in(&old, &first);
    let client = scene.client(&path);
    let request = tokio::spawn(async move { status(&client).await });
    scene.issuer.until(|asked| !asked.is_empty()).await;
    request.abort();
    // There is no event for this one: nobody waits for it.
    let kept = async {
        while !fs::read_to_string(&path).unwrap().contains(&second) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::HANG, kept).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_is_no_file_has_no_room_for_a_new_token_and_its_owner_is_told() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let (first, second) = (scene.refresh_token("first refresh token"), scene.refresh_token("second refresh token"));
    scene.issuer.grant(&first, Some(&new), Some(&second));
    let text = fs::read(scene.logged_in(&old, &first)).unwrap();
    let env = FixedEnv::default();
    let resolved = Kubeconfig::from_bytes(&text, &env).unwrap().resolve(&Overrides::default(), &env).unwrap();
    let client = Client::new(&resolved, scene.options()).unwrap();
    assert_eq!(status(&client).await, StatusCode::OK);
    let told = |line: &String| line.contains("WARN") && line.contains("there is no kubeconfig file");
    assert!(scene.watch.lines().iter().any(told));
}
