use std::time::Duration;

use credlet_image::{Options, Outcome};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;

use crate::{Node, answer, answering, get, names, passwords};

const SECOND: Duration = Duration::from_secs(1);

async fn runs_for(scope: &str, images: &[&str]) -> usize {
    let node = Node::new().provider("p", answering(scope, Some("1m")), "");
    let credentials = node.load();
    for image in images {
        assert_eq!(names(&get(&credentials, image).await), ["user"]);
    }
    node.plugin("p").runs()
}

#[tokio::test]
async fn an_answer_is_used_again_as_widely_as_it_says() {
    let images = ["a.io/x", "a.io/x:tag", "a.io/y", "b.io/x"];
    assert_eq!(runs_for("Image", &images).await, 3);
    assert_eq!(runs_for("Registry", &images).await, 2);
    assert_eq!(runs_for("Global", &images).await, 1);
}

#[tokio::test]
async fn an_answer_is_good_up_to_and_including_its_last_moment() {
    let node = Node::new().provider("p", answering("Image", Some("1m")), "");
    let credentials = node.load();
    get(&credentials, "a.io/x").await;
    node.clock.advance(60 * SECOND);
    assert!(matches!(get(&credentials, "a.io/x").await.trace.steps[0].outcome, Some(Outcome::Remembered(_))));
    node.clock.advance(Duration::from_nanos(1));
    assert!(matches!(get(&credentials, "a.io/x").await.trace.steps[0].outcome, Some(Outcome::Ran(_))));
    assert_eq!(node.plugin("p").runs(), 2);
}

#[tokio::test]
async fn an_answer_without_a_duration_has_that_of_the_configuration() {
    for (lifetime, configured, runs) in
        [(None, "1m", 1), (None, "0s", 2), (Some("0"), "1m", 2), (Some("-5m"), "1m", 2), (Some("5m"), "0s", 1)]
    {
        let more = format!("  defaultCacheDuration: {configured}\n");
        let node = Node::new().provider("p", answering("Global", lifetime), &more);
        let credentials = node.load();
        for _ in 0..2 {
            assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
            node.clock.advance(SECOND);
        }
        assert_eq!(node.plugin("p").runs(), runs, "{lifetime:?} {configured}");
    }
}

#[tokio::test]
async fn no_credentials_are_an_answer_that_is_remembered() {
    let node = Node::new().provider("p", Plugin::new().prints(answer("Registry", Some("1m"), &[])), "");
    let credentials = node.load();
    for _ in 0..3 {
        assert!(get(&credentials, "a.io/x").await.credentials.is_empty());
    }
    assert_eq!(node.plugin("p").runs(), 1);
}

#[tokio::test]
async fn a_narrower_answer_goes_before_a_wider_one() {
    let plugin = Plugin::new()
        .prints(answer("Image", Some("1h"), &[("*.io", "image", "p")]))
        .on_the_next_run()
        .prints(answer("Registry", Some("1h"), &[("*.io", "registry", "p")]));
    let node = Node::new().provider("p", plugin, "");
    let credentials = node.load();
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["image"]);
    assert_eq!(names(&get(&credentials, "a.io/y").await), ["registry"]);
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["image"]);
    assert_eq!(names(&get(&credentials, "a.io/z").await), ["registry"]);
    assert_eq!(node.plugin("p").runs(), 2);
}

#[tokio::test]
async fn what_expired_is_purged_and_the_number_of_answers_has_a_limit() {
    let node = Node::new().provider("p", answering("Image", Some("1m")), "");
    let mut options = Options::default();
    options.largest_cache = 3;
    let credentials = node.load_with(options);
    for number in 0..5 {
        get(&credentials, &format!("a.io/x{number}")).await;
        node.clock.advance(SECOND);
    }
    assert_eq!(credentials.remembered(), 3);
    // The oldest went first, the newest are there.
    assert!(matches!(get(&credentials, "a.io/x4").await.trace.steps[0].outcome, Some(Outcome::Remembered(_))));
    node.clock.advance(Duration::from_secs(15 * 60));
    get(&credentials, "a.io/other").await;
    assert_eq!(credentials.remembered(), 1);
}

#[tokio::test]
async fn what_a_registry_refused_can_be_forgotten() {
    let watch = Watch::new();
    let (old, new) = (watch.secret("old"), watch.secret("new"));
    let plugin = Plugin::new()
        .prints(answer("Registry", None, &[("a.io", "user", old.expose())]))
        .on_the_next_run()
        .prints(answer("Registry", None, &[("a.io", "user", new.expose())]));
    let node = Node::new().provider("p", plugin, "");
    let credentials = node.load();
    assert_eq!(passwords(&get(&credentials, "a.io/x").await), [old.expose()]);
    credentials.invalidate(Some(&"b.io/x".parse().unwrap()));
    assert_eq!(passwords(&get(&credentials, "a.io/y").await), [old.expose()]);
    credentials.invalidate(Some(&"a.io/z".parse().unwrap()));
    let look_up = get(&credentials, "a.io/x").await;
    assert_eq!(passwords(&look_up), [new.expose()]);
    watch.text(format!("{look_up:?} {credentials:?} {}", look_up.trace));
}

#[tokio::test]
async fn a_failure_is_told_again_until_it_is_time_to_try_again() {
    let plugin = Plugin::failing(3, "the cloud is down\n").on_the_next_run().prints(answer(
        "Registry",
        None,
        &[("a.io", "user", "pass")],
    ));
    let node = Node::new().provider("p", plugin, "");
    let credentials = node.load();
    for _ in 0..3 {
        let look_up = get(&credentials, "a.io/x").await;
        let Some(Outcome::Failed(error)) = &look_up.trace.steps[0].outcome else { panic!("{}", look_up.trace) };
        assert_eq!(error.to_string(), "`p` exited with code 3: the cloud is down");
    }
    assert_eq!(node.plugin("p").runs(), 1);
    node.clock.advance(SECOND);
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
    assert_eq!(node.plugin("p").runs(), 2);
}

#[tokio::test]
async fn a_failure_can_be_forgotten() {
    let plugin = Plugin::failing(1, "").on_the_next_run().prints(answer("Registry", None, &[("a.io", "user", "p")]));
    let node = Node::new().provider("p", plugin, "");
    let credentials = node.load();
    assert!(get(&credentials, "a.io/x").await.credentials.is_empty());
    credentials.invalidate(None);
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
}
