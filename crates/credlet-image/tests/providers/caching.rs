use std::time::Duration;

use credlet_image::{ProviderOptions, StepOutcome};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;

use crate::{Sandbox, get, names, passwords, responding, response_json};

const SECOND: Duration = Duration::from_secs(1);

async fn runs_for(scope: &str, images: &[&str]) -> usize {
    let sandbox = Sandbox::new().provider("p", responding(scope, Some("1m")), "");
    let credentials = sandbox.load();
    for image in images {
        assert_eq!(names(&get(&credentials, image).await), ["user"]);
    }
    sandbox.plugin("p").runs()
}

#[tokio::test]
async fn caches_response_in_its_scope() {
    let images = ["a.io/x", "a.io/x:tag", "a.io/y", "b.io/x"];
    assert_eq!(runs_for("Image", &images).await, 3);
    assert_eq!(runs_for("Registry", &images).await, 2);
    assert_eq!(runs_for("Global", &images).await, 1);
}

#[tokio::test]
async fn cached_response_is_valid_until_expiry_inclusive() {
    let sandbox = Sandbox::new().provider("p", responding("Image", Some("1m")), "");
    let credentials = sandbox.load();
    get(&credentials, "a.io/x").await;
    sandbox.clock.advance(60 * SECOND);
    assert!(matches!(get(&credentials, "a.io/x").await.trace.steps[0].outcome, Some(StepOutcome::Cached(_))));
    sandbox.clock.advance(Duration::from_nanos(1));
    assert!(matches!(get(&credentials, "a.io/x").await.trace.steps[0].outcome, Some(StepOutcome::Ran(_))));
    assert_eq!(sandbox.plugin("p").runs(), 2);
}

#[tokio::test]
async fn uses_default_cache_duration() {
    for (lifetime, configured, runs) in
        [(None, "1m", 1), (None, "0s", 2), (Some("0"), "1m", 2), (Some("-5m"), "1m", 2), (Some("5m"), "0s", 1)]
    {
        let more = format!("  defaultCacheDuration: {configured}\n");
        let sandbox = Sandbox::new().provider("p", responding("Global", lifetime), &more);
        let credentials = sandbox.load();
        for _ in 0..2 {
            assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
            sandbox.clock.advance(SECOND);
        }
        assert_eq!(sandbox.plugin("p").runs(), runs, "{lifetime:?} {configured}");
    }
}

#[tokio::test]
async fn caches_empty_response() {
    let sandbox =
        Sandbox::new().provider("p", TestPlugin::new().prints(response_json("Registry", Some("1m"), &[])), "");
    let credentials = sandbox.load();
    for _ in 0..3 {
        assert!(get(&credentials, "a.io/x").await.credentials.is_empty());
    }
    assert_eq!(sandbox.plugin("p").runs(), 1);
}

#[tokio::test]
async fn prefers_narrower_cached_scope() {
    let plugin = TestPlugin::new()
        .prints(response_json("Image", Some("1h"), &[("*.io", "image", "p")]))
        .on_the_next_run()
        .prints(response_json("Registry", Some("1h"), &[("*.io", "registry", "p")]));
    let sandbox = Sandbox::new().provider("p", plugin, "");
    let credentials = sandbox.load();
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["image"]);
    assert_eq!(names(&get(&credentials, "a.io/y").await), ["registry"]);
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["image"]);
    assert_eq!(names(&get(&credentials, "a.io/z").await), ["registry"]);
    assert_eq!(sandbox.plugin("p").runs(), 2);
}

#[tokio::test]
async fn purges_expired_and_limits_cache_size() {
    let sandbox = Sandbox::new().provider("p", responding("Image", Some("1m")), "");
    let mut options = ProviderOptions::default();
    options.max_cached_responses = 3;
    let credentials = sandbox.load_with(options);
    for number in 0..5 {
        get(&credentials, &format!("a.io/x{number}")).await;
        sandbox.clock.advance(SECOND);
    }
    assert_eq!(credentials.cached_responses(), 3);
    // The oldest went first, the newest are there.
    assert!(matches!(get(&credentials, "a.io/x4").await.trace.steps[0].outcome, Some(StepOutcome::Cached(_))));
    sandbox.clock.advance(Duration::from_secs(15 * 60));
    get(&credentials, "a.io/other").await;
    assert_eq!(credentials.cached_responses(), 1);
}

#[tokio::test]
async fn invalidates_image() {
    let watch = LeakCheck::new();
    let (old, new) = (watch.secret("old"), watch.secret("new"));
    let plugin = TestPlugin::new()
        .prints(response_json("Registry", None, &[("a.io", "user", old.expose())]))
        .on_the_next_run()
        .prints(response_json("Registry", None, &[("a.io", "user", new.expose())]));
    let sandbox = Sandbox::new().provider("p", plugin, "");
    let credentials = sandbox.load();
    assert_eq!(passwords(&get(&credentials, "a.io/x").await), [old.expose()]);
    credentials.invalidate(Some(&"b.io/x".parse().unwrap()));
    assert_eq!(passwords(&get(&credentials, "a.io/y").await), [old.expose()]);
    credentials.invalidate(Some(&"a.io/z".parse().unwrap()));
    let look_up = get(&credentials, "a.io/x").await;
    assert_eq!(passwords(&look_up), [new.expose()]);
    watch.text(format!("{look_up:?} {credentials:?} {}", look_up.trace));
}

#[tokio::test]
async fn repeats_failure_during_backoff() {
    let plugin = TestPlugin::failing(3, "the cloud is down\n").on_the_next_run().prints(response_json(
        "Registry",
        None,
        &[("a.io", "user", "pass")],
    ));
    let sandbox = Sandbox::new().provider("p", plugin, "");
    let credentials = sandbox.load();
    for _ in 0..3 {
        let look_up = get(&credentials, "a.io/x").await;
        let Some(StepOutcome::Failed(error)) = &look_up.trace.steps[0].outcome else { panic!("{}", look_up.trace) };
        assert_eq!(error.to_string(), "`p` exited with code 3: the cloud is down");
    }
    assert_eq!(sandbox.plugin("p").runs(), 1);
    sandbox.clock.advance(SECOND);
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
    assert_eq!(sandbox.plugin("p").runs(), 2);
}

#[tokio::test]
async fn invalidates_failures() {
    let plugin =
        TestPlugin::failing(1, "").on_the_next_run().prints(response_json("Registry", None, &[("a.io", "user", "p")]));
    let sandbox = Sandbox::new().provider("p", plugin, "");
    let credentials = sandbox.load();
    assert!(get(&credentials, "a.io/x").await.credentials.is_empty());
    credentials.invalidate(None);
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
}
