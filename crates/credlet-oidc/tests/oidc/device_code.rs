//! Logins with a device code.

use credlet_oidc::{GrantType, OidcOptions};
use credlet_testkit::issuer::USER_CODE;

use crate::Sandbox;

fn options(sandbox: &Sandbox) -> OidcOptions {
    OidcOptions { grant_type: GrantType::DeviceCode, skip_open_browser: true, ..sandbox.options() }
}

#[tokio::test]
async fn polls_at_the_interval_of_the_issuer() {
    let sandbox = Sandbox::new();
    sandbox.issuer.state().device_errors =
        vec!["authorization_pending", "slow_down", "authorization_pending", "slow_down"];
    sandbox.run(&options(&sandbox)).await.unwrap();
    assert_eq!(*sandbox.clock.slept.lock().unwrap(), [3, 3, 8, 8, 13]);
    let printed = sandbox.output.all();
    assert!(printed.contains(&format!("{}/type", sandbox.issuer.url())), "{printed}");
    assert!(printed.contains("WDJB-U+001B[2JMJHT"), "escape sequences are escaped: {printed}");
}

#[tokio::test]
async fn denied_device_login_fails() {
    let sandbox = Sandbox::new();
    sandbox.issuer.state().device_errors = vec!["authorization_pending", "access_denied"];
    let error = sandbox.run(&options(&sandbox)).await.unwrap_err().to_chained_string();
    assert!(error.contains("the login was refused at the issuer (access_denied)"), "{error}");
}

#[tokio::test]
async fn unused_device_code_expires() {
    let sandbox = Sandbox::new();
    sandbox.issuer.state().device_errors = vec!["expired_token"];
    assert!(sandbox.run(&options(&sandbox)).await.unwrap_err().to_chained_string().contains("the device code expired"));
    let sandbox = Sandbox::new();
    sandbox.issuer.state().device_errors = vec!["authorization_pending"; 1000];
    assert!(sandbox.run(&options(&sandbox)).await.unwrap_err().to_chained_string().contains("the device code expired"));
    assert!(sandbox.issuer.seen("/token") <= 200, "600 s in steps of 3 s");
}

#[tokio::test]
async fn user_code_is_not_in_browser_arguments() {
    let sandbox = Sandbox::new();
    sandbox.issuer.state().waits_for_code = true;
    sandbox.run(&OidcOptions { skip_open_browser: false, ..options(&sandbox) }).await.unwrap();
    let started = sandbox.browser.started.lock().unwrap()[0].join(" ");
    let url = started.rsplit(' ').next().unwrap();
    assert!(url.starts_with("http://127.0.0.1:") && url.contains("/login/"), "{url}");
    assert!(!started.contains(USER_CODE) && !started.contains("/type"), "{started}");
    let page = sandbox.browser.page().await;
    assert!(page.contains(&format!("the code is user_code={USER_CODE}")), "the browser has it: {page}");
}
