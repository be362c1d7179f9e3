use std::sync::Arc;

use credlet_image::{ImageCredentials, LookUp, Outcome};
use credlet_testkit::plugin::Plugin;

use crate::{Node, answer, answering, get, names};

/// Looks up all images at once; the provider answers only when all that can wait for it do.
async fn herd(node: &Node, credentials: &Arc<ImageCredentials>, images: Vec<String>) -> Vec<LookUp> {
    let tasks: Vec<_> = images
        .into_iter()
        .map(|image| {
            let credentials = Arc::clone(credentials);
            tokio::spawn(async move { get(&credentials, &image).await })
        })
        .collect();
    node.plugin("p").reached("gate").await;
    // On this single thread everybody has had a turn by now.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    node.plugin("p").open("gate");
    let mut found = Vec::new();
    for task in tasks {
        found.push(task.await.unwrap());
    }
    found
}

fn gated(scope: &str) -> Plugin {
    let auths = [("*.io", "user", "pass")];
    Plugin::new().waits_at("gate").prints(answer(scope, Some("1h"), &auths))
}

fn twenty_images() -> Vec<String> {
    (0..20).map(|number| format!("a.io/x{number}")).collect()
}

#[tokio::test]
async fn twenty_images_of_one_registry_cause_one_run() {
    for scope in ["Registry", "Global"] {
        let node = Node::new().provider("p", gated(scope), "");
        let credentials = node.load();
        let found = herd(&node, &credentials, twenty_images()).await;
        assert!(found.iter().all(|look_up| names(look_up) == ["user"]));
        assert_eq!(node.plugin("p").runs(), 1, "{scope}");
    }
}

#[tokio::test]
async fn an_answer_for_one_image_is_never_used_for_another() {
    let node = Node::new().provider("p", gated("Image"), "");
    let credentials = node.load();
    let found = herd(&node, &credentials, twenty_images()).await;
    assert_eq!(node.plugin("p").runs(), 20);
    for look_up in found {
        assert_eq!(look_up.trace.steps[0].answer().unwrap().image(), look_up.image.as_str());
    }
}

#[tokio::test]
async fn an_answer_for_one_registry_is_never_used_for_another() {
    // The first answer is for everything, so that later ones are waited for as if they were too.
    let plugin = answering("Global", Some("1s")).on_the_next_run().waits_at("gate").prints(answer(
        "Registry",
        Some("1h"),
        &[("*.io", "user", "pass")],
    ));
    let node = Node::new().provider("p", plugin, "");
    let credentials = node.load();
    get(&credentials, "a.io/x").await;
    node.clock.advance(std::time::Duration::from_secs(2));
    let images = (0..12).map(|number| format!("r{}.io/x{number}", number % 3)).collect();
    let found = herd(&node, &credentials, images).await;
    for look_up in found {
        let asked_for = look_up.trace.steps[0].answer().unwrap().image().split('/').next().unwrap().to_owned();
        assert_eq!(asked_for, look_up.image.registry());
    }
    // One for each registry, after the first one for everything.
    assert_eq!(node.plugin("p").runs(), 4);
}

#[tokio::test]
async fn all_who_wait_for_a_failure_get_that_one_error() {
    let node = Node::new().provider("p", Plugin::new().waits_at("gate").exits(7), "");
    let credentials = node.load();
    let found = herd(&node, &credentials, twenty_images()).await;
    assert_eq!(node.plugin("p").runs(), 1);
    assert!(found.iter().all(|look_up| matches!(look_up.trace.steps[0].outcome, Some(Outcome::Failed(_)))));
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_the_run_to_the_others() {
    let node = Node::new().provider("p", gated("Registry"), "");
    let credentials = node.load();
    let first = tokio::spawn({
        let credentials = Arc::clone(&credentials);
        async move { get(&credentials, "a.io/x").await }
    });
    node.plugin("p").reached("gate").await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    node.plugin("p").open("gate");
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
    assert_eq!(node.plugin("p").runs(), 1);
}

#[tokio::test]
async fn providers_run_side_by_side_and_answer_in_the_order_of_the_configuration() {
    // The first ends only when the second has been started.
    let (first, second) = (Plugin::new(), Plugin::new());
    let sign = second.dir().join("started");
    let first = first.waits_for_file(&sign).prints(answer("Image", None, &[("a.io", "first", "p")]));
    let second = second.waits_at("gate").prints(answer("Image", None, &[("a.io", "second", "p")]));
    let node = Node::new().provider("p", first, "").provider("q", second, "");
    let credentials = node.load();
    let look_up = tokio::spawn({
        let credentials = Arc::clone(&credentials);
        async move { get(&credentials, "a.io/x").await }
    });
    node.plugin("q").reached("gate").await;
    node.plugin("p").has_run(1).await;
    node.plugin("q").open("gate");
    std::fs::write(sign, "").unwrap();
    assert_eq!(names(&look_up.await.unwrap()), ["first", "second"]);
}

#[tokio::test]
async fn one_provider_that_fails_does_not_stop_another() {
    let node = Node::new().provider("p", Plugin::failing(1, "no\n"), "").provider("q", answering("Image", None), "");
    let look_up = get(&node.load(), "a.io/x").await;
    assert_eq!(names(&look_up), ["user"]);
    assert!(look_up.trace.to_string().contains("✗ `p` exited with code 1: no"), "{}", look_up.trace);
}
