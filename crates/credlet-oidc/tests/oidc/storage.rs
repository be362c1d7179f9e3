//! Stored logins, and concurrent runs.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Arc;

use credlet_oidc::{LoginRequest, OidcOptions, OidcSettings, TokenStorage};
use credlet_testkit::issuer::IssuerFault;
use credlet_testkit::keyring::MemoryKeyring;

use crate::Sandbox;

#[tokio::test]
async fn concurrent_runs_open_one_window() {
    let sandbox = Sandbox::new();
    let options = sandbox.options();
    let runs = (0..20).map(|_| Box::pin(sandbox.run(&options)));
    let tokens = all(runs.collect()).await;
    assert!(tokens.windows(2).all(|pair| pair[0].as_ref().unwrap() == pair[1].as_ref().unwrap()));
    assert_eq!((sandbox.browser.windows(), sandbox.issuer.seen("/token")), (1, 1));
}

#[tokio::test]
async fn concurrent_runs_share_a_failed_login() {
    let sandbox = Sandbox::new();
    sandbox.issuer.fail(IssuerFault::Denied);
    let options = sandbox.options();
    // Even with a user at each terminal.
    let request = LoginRequest { interactive: true, ..LoginRequest::default() };
    let outcomes = all((0..20).map(|_| Box::pin(sandbox.run_as(&options, &request))).collect()).await;
    for outcome in outcomes {
        assert!(outcome.unwrap_err().to_chained_string().contains("the login was refused at the issuer"));
    }
    assert_eq!(sandbox.browser.windows(), 1);
}

#[tokio::test]
async fn cooldown_after_timeout_unless_interactive() {
    let mut sandbox = Sandbox::new();
    sandbox.browser.is_used = false;
    *sandbox.clock.login_times_out.lock().unwrap() = true;
    assert!(sandbox.error_text().await.contains("the login timed out after 180 s"));
    assert!(sandbox.error_text().await.contains("a browser cannot be opened again before"));
    assert_eq!(sandbox.browser.windows(), 1);
    sandbox.clock.advance(61);
    assert!(sandbox.error_text().await.contains("the login timed out"));
    sandbox.clock.advance(61);
    assert!(sandbox.error_text().await.contains("cannot be opened again"), "the second cooldown is longer");
    assert_eq!(sandbox.browser.windows(), 2);

    sandbox.browser.is_used = true;
    *sandbox.clock.login_times_out.lock().unwrap() = false;
    sandbox.issuer.state().ahead += 122;
    sandbox.run_as(&sandbox.options(), &LoginRequest { interactive: true, ..LoginRequest::default() }).await.unwrap();
    assert_eq!(sandbox.stored()["attempt"], serde_json::Value::Null);
}

#[tokio::test]
async fn file_writable_by_others_is_ignored() {
    let sandbox = Sandbox::new();
    sandbox.token().await;
    let file = sandbox.file();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    sandbox.token().await;
    assert_eq!(sandbox.browser.windows(), 2);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let elsewhere = sandbox.dir.path().join("elsewhere");
    std::fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    sandbox.token().await;
    assert_eq!(sandbox.browser.windows(), 3);
}

#[tokio::test]
async fn damaged_file_leads_to_a_login() {
    let sandbox = Sandbox::new();
    sandbox.token().await;
    std::fs::write(sandbox.file(), b"{\"token\":").unwrap();
    sandbox.token().await;
    assert_eq!(sandbox.browser.windows(), 2);
}

#[tokio::test]
async fn token_is_returned_without_storage() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let options = OidcOptions { token_cache_dir: Some(file.join("tokens")), ..sandbox.options() };
    sandbox.run(&options).await.unwrap();
    assert!(sandbox.output.all().contains("warning: the login is not stored"));
    let options = OidcOptions { token_cache_storage: TokenStorage::None, ..sandbox.options() };
    sandbox.run(&options).await.unwrap();
    assert!(!sandbox.dir.path().join("tokens").exists());
}

async fn token_with(sandbox: &Sandbox, keyring: &Arc<MemoryKeyring>) -> credlet_api::exec::ExecCredentialStatus {
    let platform = sandbox.platform();
    let options = OidcOptions { token_cache_storage: TokenStorage::Keyring, ..sandbox.options() };
    let settings = OidcSettings::new(&options, &*platform.env).unwrap().with_keyring(Arc::clone(keyring) as _);
    let output = sandbox.output();
    tokio::time::timeout(crate::TEST_TIMEOUT, credlet_oidc::token(&settings, &sandbox.request(), &platform, &output))
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn keyring_encrypts_the_stored_login() {
    let sandbox = Sandbox::new();
    let keyring = Arc::new(MemoryKeyring::default());
    let first = token_with(&sandbox, &keyring).await;
    let file = std::fs::read(sandbox.file()).unwrap();
    sandbox.watch.text(String::from_utf8_lossy(&file));
    assert!(!file.starts_with(b"{"));
    assert_eq!(token_with(&sandbox, &keyring).await, first);
    assert_eq!(sandbox.browser.windows(), 1);
    // A login that cannot be decrypted, as with the keyring of another machine, is ignored.
    token_with(&sandbox, &Arc::new(MemoryKeyring::default())).await;
    assert_eq!(sandbox.browser.windows(), 2);
}

#[tokio::test]
async fn missing_keyring_warns_once_and_stores_the_login() {
    let sandbox = Sandbox::new();
    let keyring = Arc::new(MemoryKeyring { blocked: true, ..MemoryKeyring::default() });
    let first = token_with(&sandbox, &keyring).await;
    assert_eq!(token_with(&sandbox, &keyring).await, first);
    assert_eq!(sandbox.browser.windows(), 1);
    assert_eq!(sandbox.output.all().matches("the login is stored unencrypted: ").count(), 1);
}

#[tokio::test]
async fn cancelled_login_releases_the_lock() {
    let mut sandbox = Sandbox::new();
    sandbox.browser.is_used = false;
    let options = sandbox.options();
    {
        let cancelled = sandbox.run(&options);
        tokio::select! {
            _ = cancelled => panic!("the login was completed"),
            () = async { while sandbox.browser.windows() == 0 { tokio::task::yield_now().await } } => {}
        }
    }
    sandbox.browser.is_used = true;
    // A background program must not open one window after another.
    assert!(sandbox.error_text().await.contains("it was not completed"));
    sandbox.run_as(&options, &LoginRequest { interactive: true, ..LoginRequest::default() }).await.unwrap();
    assert_eq!(sandbox.browser.windows(), 2);
}

#[tokio::test]
async fn files_of_another_user_are_ignored() {
    // Only root can change the owner; for other users a directory of root is used.
    let sandbox = Sandbox::new();
    let theirs = sandbox.dir.path().join("theirs");
    let theirs = if std::fs::create_dir(&theirs).is_ok() && std::os::unix::fs::chown(&theirs, Some(12345), None).is_ok()
    {
        theirs
    } else {
        "/usr".into()
    };
    let options = OidcOptions { token_cache_dir: Some(theirs.clone()), ..sandbox.options() };
    sandbox.run(&options).await.unwrap();
    sandbox.run(&options).await.unwrap();
    assert_eq!(sandbox.browser.windows(), 2);
    let printed = sandbox.output.all();
    assert_eq!(printed.matches("the login is not stored").count(), 2, "{printed}");
    assert!(printed.contains("belongs to user"), "{printed}");
    // Likewise a file in the user's own directory.
    sandbox.token().await;
    if std::os::unix::fs::chown(sandbox.file(), Some(12345), None).is_ok() {
        sandbox.token().await;
        assert_eq!(sandbox.browser.windows(), 4);
    }
}

/// Runs all futures concurrently on one thread.
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
