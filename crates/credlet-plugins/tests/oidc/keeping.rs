//! Between two runs, and between many at once.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Arc;

use credlet_plugins::oidc::{self, Asked, Options, Settings, Storage};

use crate::Scene;
use crate::pocket::Pocket;
use crate::provider::Fault;

#[tokio::test]
async fn twenty_cold_runs_at_once_open_one_window() {
    let scene = Scene::new();
    let options = scene.options();
    let runs = (0..20).map(|_| Box::pin(scene.run(&options)));
    let tokens = all(runs.collect()).await;
    assert!(tokens.windows(2).all(|pair| pair[0].as_ref().unwrap() == pair[1].as_ref().unwrap()));
    assert_eq!((scene.browser.windows(), scene.provider.seen("/token")), (1, 1));
}

#[tokio::test]
async fn twenty_runs_behind_a_failed_login_get_its_error_and_no_window_of_their_own() {
    let scene = Scene::new();
    scene.provider.fail(Fault::Denied);
    let options = scene.options();
    // Even with a person at each terminal.
    let asked = Asked { person: true, ..Asked::default() };
    let outcomes = all((0..20).map(|_| Box::pin(scene.run_as(&options, &asked))).collect()).await;
    for outcome in outcomes {
        assert!(outcome.unwrap_err().story().contains("the login was refused at the issuer"));
    }
    assert_eq!(scene.browser.windows(), 1);
}

#[tokio::test]
async fn after_an_unanswered_login_no_window_opens_for_a_while_unless_a_person_asks() {
    let mut scene = Scene::new();
    scene.browser.attended = false;
    *scene.clock.nobody_comes.lock().unwrap() = true;
    assert!(scene.refused().await.contains("nobody logged in within 180 s"));
    assert!(scene.refused().await.contains("no other browser window is opened before"));
    assert_eq!(scene.browser.windows(), 1);
    scene.clock.advance(61);
    assert!(scene.refused().await.contains("nobody logged in"));
    scene.clock.advance(61);
    assert!(scene.refused().await.contains("no other browser window"), "the second wait is longer");
    assert_eq!(scene.browser.windows(), 2);

    scene.browser.attended = true;
    *scene.clock.nobody_comes.lock().unwrap() = false;
    scene.provider.state().ahead += 122;
    scene.run_as(&scene.options(), &Asked { person: true, ..Asked::default() }).await.unwrap();
    assert_eq!(scene.kept()["attempt"], serde_json::Value::Null);
}

#[tokio::test]
async fn what_others_could_have_written_is_not_used() {
    let scene = Scene::new();
    scene.token().await;
    let file = scene.file();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    scene.token().await;
    assert_eq!(scene.browser.windows(), 2);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let elsewhere = scene.dir.path().join("elsewhere");
    std::fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    scene.token().await;
    assert_eq!(scene.browser.windows(), 3);
}

#[tokio::test]
async fn a_broken_file_is_a_login_and_no_error() {
    let scene = Scene::new();
    scene.token().await;
    std::fs::write(scene.file(), b"{\"token\":").unwrap();
    scene.token().await;
    assert_eq!(scene.browser.windows(), 2);
}

#[tokio::test]
async fn where_nothing_can_be_kept_a_token_is_given_all_the_same() {
    let scene = Scene::new();
    let file = scene.dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let options = Options { token_cache_dir: Some(file.join("tokens")), ..scene.options() };
    scene.run(&options).await.unwrap();
    assert!(scene.heard.all().contains("warning: the login is not kept"));
    let options = Options { token_cache_storage: Storage::None, ..scene.options() };
    scene.run(&options).await.unwrap();
    assert!(!scene.dir.path().join("tokens").exists());
}

async fn token_with(scene: &Scene, keyring: &Arc<Pocket>) -> credlet_api::exec::ExecCredentialStatus {
    let world = scene.world();
    let options = Options { token_cache_storage: Storage::Keyring, ..scene.options() };
    let settings = Settings::new(&options, &*world.env).unwrap().keyring(Arc::clone(keyring) as _);
    let talk = scene.talk();
    tokio::time::timeout(crate::HANG, oidc::token(&settings, &scene.asked(), &world, &talk)).await.unwrap().unwrap()
}

#[tokio::test]
async fn with_a_keyring_nothing_can_be_read_in_the_file_and_the_next_run_reads_it() {
    let scene = Scene::new();
    let keyring = Arc::new(Pocket::default());
    let first = token_with(&scene, &keyring).await;
    let file = std::fs::read(scene.file()).unwrap();
    scene.watch.text(String::from_utf8_lossy(&file));
    assert!(!file.starts_with(b"{"));
    assert_eq!(token_with(&scene, &keyring).await, first);
    assert_eq!(scene.browser.windows(), 1);
    // Another machine's keyring: what it cannot open is not there.
    token_with(&scene, &Arc::new(Pocket::default())).await;
    assert_eq!(scene.browser.windows(), 2);
}

#[tokio::test]
async fn a_blocked_keyring_is_said_once_and_the_login_is_kept_all_the_same() {
    let scene = Scene::new();
    let keyring = Arc::new(Pocket { blocked: true, ..Pocket::default() });
    let first = token_with(&scene, &keyring).await;
    assert_eq!(token_with(&scene, &keyring).await, first);
    assert_eq!(scene.browser.windows(), 1);
    assert_eq!(scene.heard.all().matches("the login is kept unencrypted: the system's keyring").count(), 1);
}

#[tokio::test]
async fn a_login_that_is_broken_off_leaves_no_lock_and_a_person_may_begin_anew_at_once() {
    let mut scene = Scene::new();
    scene.browser.attended = false;
    let options = scene.options();
    {
        let broken_off = scene.run(&options);
        tokio::select! {
            _ = broken_off => panic!("nobody has logged in"),
            () = async { while scene.browser.windows() == 0 { tokio::task::yield_now().await } } => {}
        }
    }
    scene.browser.attended = true;
    // A program in the background must not open a window after a window.
    assert!(scene.refused().await.contains("it was not finished"));
    scene.run_as(&options, &Asked { person: true, ..Asked::default() }).await.unwrap();
    assert_eq!(scene.browser.windows(), 2);
}

#[tokio::test]
async fn what_belongs_to_another_user_is_not_used() {
    // Only root can give a directory away; everybody else has one that is root's.
    let scene = Scene::new();
    let theirs = scene.dir.path().join("theirs");
    let theirs = if std::fs::create_dir(&theirs).is_ok() && std::os::unix::fs::chown(&theirs, Some(12345), None).is_ok()
    {
        theirs
    } else {
        "/usr".into()
    };
    let options = Options { token_cache_dir: Some(theirs.clone()), ..scene.options() };
    scene.run(&options).await.unwrap();
    scene.run(&options).await.unwrap();
    assert_eq!(scene.browser.windows(), 2);
    let said = scene.heard.all();
    assert_eq!(said.matches("the login is not kept").count(), 2, "{said}");
    assert!(said.contains("it belongs to user"), "{said}");
    // And a file in a directory of our own.
    scene.token().await;
    if std::os::unix::fs::chown(scene.file(), Some(12345), None).is_ok() {
        scene.token().await;
        assert_eq!(scene.browser.windows(), 4);
    }
}

/// All at once, on one thread.
async fn all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let std::task::Poll::Ready(done) = std::pin::Pin::new(future).poll(cx)
            {
                *output = Some(done);
            }
        }
        if outputs.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
