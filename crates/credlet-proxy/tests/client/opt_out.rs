//! Disabling exec proxies (`CLIENT_EXEC_PROXY`), and the input of the plugin.

use std::fs::File;

use credlet_proxy::client::EXEC_PROXY_ENV;
use credlet_testkit::plugin::{TestPlugin, wait_for_end};

use super::*;

fn told(plugin: &TestPlugin) -> serde_json::Value {
    serde_json::from_str(plugin.report().exec_info.as_deref().unwrap()).unwrap()
}

#[tokio::test]
async fn lock_file_is_passed_to_plugin() {
    let sandbox = ClientSandbox::new();
    let tunnel = sandbox.tunnel();
    let plugin = TestPlugin::new().reports().leaves_a_proxy(&tunnel).answers_with_proxy(tunnel.url());
    let client = sandbox.client(&plugin);
    assert!(!sandbox.locks().exists(), "nothing is made before a plugin is run");
    assert_eq!(get(&client).await, StatusCode::OK);
    let told = told(&plugin);
    let path = PathBuf::from(told["spec"]["lockFilePath"].as_str().unwrap());
    assert_eq!(told["spec"]["cluster"]["server"], sandbox.server.url());
    assert_eq!(path.parent().unwrap(), sandbox.locks());
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
async fn disabled_client_rejects_proxy_config() {
    let sandbox = ClientSandbox::new();
    let mut options = sandbox.options();
    let env = FixedEnv::new([("XDG_RUNTIME_DIR", sandbox.dir.path().as_os_str()), (EXEC_PROXY_ENV, "false".as_ref())]);
    options.exec_proxy = ExecProxies::from_env(&env).map(|proxies| proxies as _);
    let tunnel = sandbox.tunnel();
    let plugin = TestPlugin::new().reports().answers_with_proxy(tunnel.url());
    let client = Client::new(&sandbox.resolve(&sandbox.server.url(), &plugin), options.clone()).unwrap();
    let error = sandbox.error(&client).await;
    assert!(error.ends_with("the status has neither a token nor a certificate"), "{error}");
    assert_eq!(told(&plugin)["spec"].get("lockFilePath"), None);
    assert!(!sandbox.locks().exists());

    // With a token the proxyConfig is ignored, as by clients without exec proxies.
    let token = sandbox.watch.secret("token");
    sandbox.server.accept_token(token.expose());
    let plugin = TestPlugin::new().answers_with_proxy(tunnel.url()).token(token.expose());
    let client = Client::new(&sandbox.resolve(&sandbox.server.url(), &plugin), options).unwrap();
    assert_eq!(get(&client).await, StatusCode::OK);
    assert_eq!(sandbox.server.last_request().bearer(), Some(token.expose()));
    assert!(!sandbox.metrics.encode().contains("with_proxy"));
}

#[tokio::test]
async fn no_lock_file_disables_exec_proxies() {
    let sandbox = ClientSandbox::new();
    fs::create_dir(sandbox.locks()).unwrap();
    fs::set_permissions(sandbox.locks(), fs::Permissions::from_mode(0o755)).unwrap();
    let token = sandbox.watch.secret("token");
    sandbox.server.accept_token(token.expose());
    let plugin = TestPlugin::new().reports().answers(token.expose());
    assert_eq!(get(&sandbox.client(&plugin)).await, StatusCode::OK);
    assert_eq!(told(&plugin)["spec"].get("lockFilePath"), None);
}

#[tokio::test]
async fn token_plugin_is_awaited() {
    let sandbox = ClientSandbox::new();
    let token = sandbox.watch.secret("token");
    sandbox.server.accept_token(token.expose());
    let plugin = TestPlugin::answering(token.expose()).waits_at("end");
    let client = sandbox.client(&plugin);
    let request = tokio::spawn(async move { get(&client).await });
    within(plugin.reached("end")).await;
    // Longer than the limit for plugins that return a proxy.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!request.is_finished());
    plugin.open("end");
    assert_eq!(within(request).await.unwrap(), StatusCode::OK);
    wait_for_end(plugin.pids()[0]);
}
