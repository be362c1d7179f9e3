//! On and off (`CLIENT_EXEC_PROXY`), and what the plugin is told.

use std::fs::File;

use credlet_proxy::client::SWITCH;
use credlet_testkit::plugin::{Plugin, wait_for_end};

use super::*;

fn told(plugin: &Plugin) -> serde_json::Value {
    serde_json::from_str(plugin.report().exec_info.as_deref().unwrap()).unwrap()
}

#[tokio::test]
async fn a_plugin_is_told_of_a_file_that_is_locked_while_somebody_needs_its_proxy() {
    let stand = Stand::new();
    let tunnel = stand.tunnel();
    let plugin = Plugin::new().reports().leaves_a_proxy(&tunnel).answers_with_proxy(tunnel.url());
    let client = stand.client(&plugin);
    assert!(!stand.locks().exists(), "nothing is made before a plugin is run");
    assert_eq!(get(&client).await, StatusCode::OK);
    let told = told(&plugin);
    let path = PathBuf::from(told["spec"]["lockFilePath"].as_str().unwrap());
    assert_eq!(told["spec"]["cluster"]["server"], stand.server.url());
    assert_eq!(path.parent().unwrap(), stand.locks());
    let file = File::options().read(true).write(true).open(&path).unwrap();
    assert!(file.try_lock().is_err());

    drop(client);
    within(async {
        while file.try_lock().is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await
        }
    })
    .await;
    assert!(!path.exists());
}

#[tokio::test]
async fn when_it_is_switched_off_plugins_are_not_told_and_a_proxy_is_no_credential() {
    let stand = Stand::new();
    let mut options = stand.options();
    let env = FixedEnv::new([("XDG_RUNTIME_DIR", stand.dir.path().as_os_str()), (SWITCH, "false".as_ref())]);
    options.exec_proxy = ExecProxies::from_env(&env).map(|proxies| proxies as _);
    let tunnel = stand.tunnel();
    let plugin = Plugin::new().reports().answers_with_proxy(tunnel.url());
    let client = Client::new(&stand.resolve(&stand.server.url(), &plugin), options.clone()).unwrap();
    let error = stand.error(&client).await;
    assert!(error.ends_with("its answer has neither a token nor a certificate"), "{error}");
    assert_eq!(told(&plugin)["spec"].get("lockFilePath"), None);
    assert!(!stand.locks().exists());

    // Beside a token it is passed over, as by any client of today.
    let token = stand.watch.secret("token");
    stand.server.accept_token(token.expose());
    let plugin = Plugin::new().answers_with_proxy(tunnel.url()).token(token.expose());
    let client = Client::new(&stand.resolve(&stand.server.url(), &plugin), options).unwrap();
    assert_eq!(get(&client).await, StatusCode::OK);
    assert_eq!(stand.server.last_request().bearer(), Some(token.expose()));
    assert!(!stand.metrics.encode().contains("with_proxy"));
}

#[tokio::test]
async fn where_no_file_can_be_locked_plugins_are_run_as_if_it_were_off() {
    let stand = Stand::new();
    fs::write(stand.locks(), "in the way").unwrap();
    let token = stand.watch.secret("token");
    stand.server.accept_token(token.expose());
    let plugin = Plugin::new().reports().answers(token.expose());
    assert_eq!(get(&stand.client(&plugin)).await, StatusCode::OK);
    assert_eq!(told(&plugin)["spec"].get("lockFilePath"), None);
}

#[tokio::test]
async fn a_plugin_with_a_token_is_waited_for_as_ever() {
    let stand = Stand::new();
    let token = stand.watch.secret("token");
    stand.server.accept_token(token.expose());
    let plugin = Plugin::answering(token.expose()).waits_at("end");
    let client = stand.client(&plugin);
    let request = tokio::spawn(async move { get(&client).await });
    within(plugin.reached("end")).await;
    // Longer than a plugin that gives a proxy would be waited for.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!request.is_finished());
    plugin.open("end");
    assert_eq!(within(request).await.unwrap(), StatusCode::OK);
    wait_for_end(plugin.pids()[0]);
}
