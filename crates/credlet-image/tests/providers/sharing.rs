use std::sync::Arc;

use credlet_image::{ImageCredentials, LookupResult, StepOutcome};
use credlet_testkit::plugin::TestPlugin;

use crate::{Sandbox, get, names, responding, response_json};

/// Looks up all images concurrently; the provider responds when all callers wait.
async fn look_up_concurrently(
    sandbox: &Sandbox,
    credentials: &Arc<ImageCredentials>,
    images: Vec<String>,
) -> Vec<LookupResult> {
    let tasks: Vec<_> = images
        .into_iter()
        .map(|image| {
            let credentials = Arc::clone(credentials);
            tokio::spawn(async move { get(&credentials, &image).await })
        })
        .collect();
    sandbox.plugin("p").reached("gate").await;
    // On this single thread every task has been polled by now.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    sandbox.plugin("p").open("gate");
    let mut found = Vec::new();
    for task in tasks {
        found.push(task.await.unwrap());
    }
    found
}

fn gated(scope: &str) -> TestPlugin {
    let auths = [("*.io", "user", "pass")];
    TestPlugin::new().waits_at("gate").prints(response_json(scope, Some("1h"), &auths))
}

fn twenty_images() -> Vec<String> {
    (0..20).map(|number| format!("a.io/x{number}")).collect()
}

#[tokio::test]
async fn images_of_one_registry_share_one_run() {
    for scope in ["Registry", "Global"] {
        let sandbox = Sandbox::new().provider("p", gated(scope), "");
        let credentials = sandbox.load();
        let found = look_up_concurrently(&sandbox, &credentials, twenty_images()).await;
        assert!(found.iter().all(|look_up| names(look_up) == ["user"]));
        assert_eq!(sandbox.plugin("p").runs(), 1, "{scope}");
    }
}

#[tokio::test]
async fn image_scope_is_not_shared() {
    let sandbox = Sandbox::new().provider("p", gated("Image"), "");
    let credentials = sandbox.load();
    let found = look_up_concurrently(&sandbox, &credentials, twenty_images()).await;
    assert_eq!(sandbox.plugin("p").runs(), 20);
    for look_up in found {
        assert_eq!(look_up.trace.steps[0].response().unwrap().image(), look_up.image.as_str());
    }
}

#[tokio::test]
async fn registry_scope_is_not_shared() {
    // The first response_json is for everything, so that later ones are waited for as if they were too.
    let plugin = responding("Global", Some("1s")).on_the_next_run().waits_at("gate").prints(response_json(
        "Registry",
        Some("1h"),
        &[("*.io", "user", "pass")],
    ));
    let sandbox = Sandbox::new().provider("p", plugin, "");
    let credentials = sandbox.load();
    get(&credentials, "a.io/x").await;
    sandbox.clock.advance(std::time::Duration::from_secs(2));
    let images = (0..12).map(|number| format!("r{}.io/x{number}", number % 3)).collect();
    let found = look_up_concurrently(&sandbox, &credentials, images).await;
    for look_up in found {
        let asked_for = look_up.trace.steps[0].response().unwrap().image().split('/').next().unwrap().to_owned();
        assert_eq!(asked_for, look_up.image.registry());
    }
    // One for each registry, after the first one for everything.
    assert_eq!(sandbox.plugin("p").runs(), 4);
}

#[tokio::test]
async fn waiters_share_one_error() {
    let sandbox = Sandbox::new().provider("p", TestPlugin::new().waits_at("gate").exits(7), "");
    let credentials = sandbox.load();
    let found = look_up_concurrently(&sandbox, &credentials, twenty_images()).await;
    assert_eq!(sandbox.plugin("p").runs(), 1);
    assert!(found.iter().all(|look_up| matches!(look_up.trace.steps[0].outcome, Some(StepOutcome::Failed(_)))));
}

#[tokio::test]
async fn cancelled_caller_does_not_cancel_run() {
    let sandbox = Sandbox::new().provider("p", gated("Registry"), "");
    let credentials = sandbox.load();
    let first = tokio::spawn({
        let credentials = Arc::clone(&credentials);
        async move { get(&credentials, "a.io/x").await }
    });
    sandbox.plugin("p").reached("gate").await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    sandbox.plugin("p").open("gate");
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
    assert_eq!(sandbox.plugin("p").runs(), 1);
}

#[tokio::test]
async fn runs_providers_concurrently_in_config_order() {
    // The first ends only when the second has been started.
    let (first, second) = (TestPlugin::new(), TestPlugin::new());
    let sign = second.dir().join("started");
    let first = first.waits_for_file(&sign).prints(response_json("Image", None, &[("a.io", "first", "p")]));
    let second = second.waits_at("gate").prints(response_json("Image", None, &[("a.io", "second", "p")]));
    let sandbox = Sandbox::new().provider("p", first, "").provider("q", second, "");
    let credentials = sandbox.load();
    let look_up = tokio::spawn({
        let credentials = Arc::clone(&credentials);
        async move { get(&credentials, "a.io/x").await }
    });
    sandbox.plugin("q").reached("gate").await;
    sandbox.plugin("p").has_run(1).await;
    sandbox.plugin("q").open("gate");
    std::fs::write(sign, "").unwrap();
    assert_eq!(names(&look_up.await.unwrap()), ["first", "second"]);
}

#[tokio::test]
async fn failed_provider_does_not_stop_others() {
    let sandbox =
        Sandbox::new().provider("p", TestPlugin::failing(1, "no\n"), "").provider("q", responding("Image", None), "");
    let look_up = get(&sandbox.load(), "a.io/x").await;
    assert_eq!(names(&look_up), ["user"]);
    assert!(look_up.trace.to_string().contains("✗ `p` exited with code 1: no"), "{}", look_up.trace);
}
