use std::time::Duration;

use credlet_api::Secret;
use credlet_image::{Answered, Asking, Options, Outcome, Pod, ServiceAccount, ServiceAccounts, TokenRequest};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::{Plugin, Stream, is_running};

use crate::{HANG, Node, answer, get, names};

async fn error_of(plugin: Plugin, options: Options) -> String {
    let watch = Watch::new();
    let node = Node::new().provider("p", plugin, "");
    let credentials = node.load_with(options);
    let look_up = get(&credentials, "a.io/x").await;
    assert!(look_up.credentials.is_empty());
    let Some(Outcome::Failed(error)) = &look_up.trace.steps[0].outcome else { panic!("{}", look_up.trace) };
    watch.error(&**error);
    error.to_string()
}

#[tokio::test]
async fn a_provider_that_prints_something_else_is_at_fault() {
    for (printed, reason) in [
        ("garbage", "neither JSON"),
        ("", "is empty"),
        ("{\"kind\":\"CredentialProviderResponse\"}", "it answered in ``"),
        (
            "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1beta1\"}",
            "v1beta1",
        ),
    ] {
        let error = error_of(Plugin::new().prints(printed), Options::default()).await;
        assert!(error.starts_with("`p` is at fault: ") && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_provider_that_does_not_listen_is_heard_all_the_same() {
    // A question that no pipe holds, and nobody reads it.
    let node =
        Node::new().provider("p", Plugin::new().prints(answer("Image", None, &[("a.io", "user", "p")])), &long());
    assert_eq!(names(&asked_by_a_pod(&node, "a.io/x").await), ["user"]);
}

fn long() -> String {
    "  tokenAttributes:\n    serviceAccountTokenAudience: x\n    cacheType: ServiceAccount\n    requireServiceAccount: \
     true\n    requiredServiceAccountAnnotationKeys: [a.io/long]\n"
        .to_owned()
}

/// With an annotation of 60 kB and a token of 200 kB.
async fn asked_by_a_pod(node: &Node, image: &str) -> credlet_image::LookUp {
    #[derive(Debug)]
    struct Long;
    impl ServiceAccounts for Long {
        fn service_account<'a>(&'a self, _: &'a str, _: &'a str) -> Answered<'a, ServiceAccount> {
            let annotations = [("a.io/long".to_owned(), "x".repeat(60_000))].into();
            Box::pin(async move { Ok(ServiceAccount { uid: "u".to_owned(), annotations }) })
        }

        fn token<'a>(&'a self, _: &'a TokenRequest) -> Answered<'a, Secret> {
            Box::pin(async { Ok(Secret::new("t".repeat(200_000))) })
        }
    }
    let mut options = Options::default();
    options.accounts = Some(std::sync::Arc::new(Long));
    let pod = Pod { service_account: Some("robot".to_owned()), ..Pod::default() };
    crate::ask(&node.load_with(options), image, &Asking { pod: Some(&pod), ..Asking::default() }).await
}

#[tokio::test]
async fn a_hundred_megabytes_are_too_much() {
    let error = error_of(Plugin::new().floods(Stream::Stdout, 100 << 20), Options::default()).await;
    assert!(error.contains("printed more than"), "{error}");
}

#[tokio::test]
async fn a_provider_that_hangs_with_a_grandchild_is_ended_in_time() {
    let plugin = Plugin::new().leaves_a_grandchild(&[Stream::Stdout, Stream::Stderr], HANG * 10).hangs();
    let node = Node::new().provider("p", plugin, "");
    let mut options = Options::default();
    options.timeouts.insert("p".to_owned(), Duration::from_secs(3));
    let look_up = get(&node.load_with(options), "a.io/x").await;
    assert!(look_up.trace.to_string().contains("did not finish within 3s"), "{}", look_up.trace);
    assert!(!is_running(node.plugin("p").pids()[0]));
}

#[tokio::test]
async fn a_grandchild_that_keeps_the_pipe_does_not_hold_up_the_answer() {
    let good = answer("Image", None, &[("a.io", "user", "p")]);
    let node = Node::new().provider("p", Plugin::new().leaves_a_grandchild(&[Stream::Stdout], HANG).prints(good), "");
    assert_eq!(names(&get(&node.load(), "a.io/x").await), ["user"]);
}

#[tokio::test]
async fn what_a_provider_complains_about_is_kept_without_its_secrets_also_when_it_succeeds() {
    let watch = Watch::new();
    let (password, variable) = (watch.secret("password"), watch.secret("variable"));
    let complaint = format!("giving {} with {}\n", password.expose(), variable.expose());
    let plugin = Plugin::new().prints_to(Stream::Stderr, complaint).prints(answer(
        "Image",
        None,
        &[("a.io", "user", password.expose())],
    ));
    let more = format!("  env: [{{name: SECRET, value: \"{}\"}}]\n", variable.expose());
    let node = Node::new().provider("p", plugin, &more);
    let credentials = node.load();
    let look_up = get(&credentials, "a.io/x").await;
    let words = credentials.last_stderr("p").unwrap();
    assert_eq!(words, "giving [redacted] with [redacted]\n");
    watch.text(format!("{words} {look_up:?} {credentials:?}"));
}

#[tokio::test]
async fn a_binary_that_vanished_fails_the_look_up_and_one_that_was_replaced_is_used() {
    let node = Node::new().provider("p", Plugin::failing(1, ""), "");
    let credentials = node.load();
    let binary = node.bin_dir().join("p");
    std::fs::remove_file(&binary).unwrap();
    let look_up = get(&credentials, "a.io/x").await;
    assert!(look_up.trace.to_string().contains("/bin/p` is not installed"), "{}", look_up.trace);
    std::fs::remove_file(node.bin_dir().join("p.script.json")).unwrap();
    let other = Plugin::new().prints(answer("Image", None, &[("a.io", "user", "p")]));
    other.install(&node.bin_dir(), "p");
    credentials.invalidate(None);
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
}

#[tokio::test]
async fn an_image_of_any_length_and_shape_is_an_answer_or_an_error() {
    let node = Node::new().provider("p", Plugin::new().prints(answer("Image", None, &[])), "");
    let credentials = node.load();
    let longest = format!("{}.io/x", "a".repeat(70_000));
    let look_up = get(&credentials, &longest).await;
    assert!(look_up.trace.to_string().contains("longer than 65535 bytes"));
    for bad in ["", "a\nb", "\u{1b}[2J", &"a".repeat(64), "x/../y", "[::1]:5000/X"] {
        let asked = credentials.look_up(bad, &Default::default()).await;
        if let Err(error) = asked {
            assert!(!error.to_string().contains(['\n', '\u{1b}']), "{error}");
        }
    }
}
