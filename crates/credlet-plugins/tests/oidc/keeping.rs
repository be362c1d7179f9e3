//! Between two runs, and between many at once.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use credlet_plugins::oidc::{Asked, Options, Storage};

use crate::Scene;
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
