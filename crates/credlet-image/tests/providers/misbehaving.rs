use std::time::Duration;

use credlet_api::Secret;
use credlet_image::{
    AccountFuture, LookupRequest, PodRef, ProviderOptions, ServiceAccount, ServiceAccountApi, StepOutcome, TokenRequest,
};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::{OutputStream, TestPlugin, is_running};

use crate::{HANG, Sandbox, get, names, response_json};

async fn error_of(plugin: TestPlugin, options: ProviderOptions) -> String {
    let watch = LeakCheck::new();
    let sandbox = Sandbox::new().provider("p", plugin, "");
    let credentials = sandbox.load_with(options);
    let look_up = get(&credentials, "a.io/x").await;
    assert!(look_up.credentials.is_empty());
    let Some(StepOutcome::Failed(error)) = &look_up.trace.steps[0].outcome else { panic!("{}", look_up.trace) };
    watch.error(&**error);
    error.to_string()
}

#[tokio::test]
async fn rejects_invalid_output() {
    for (printed, reason) in [
        ("garbage", "invalid JSON or YAML"),
        ("", "is empty"),
        ("{\"kind\":\"CredentialProviderResponse\"}", "unexpected apiVersion ``"),
        (
            "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1beta1\"}",
            "v1beta1",
        ),
    ] {
        let error = error_of(TestPlugin::new().prints(printed), ProviderOptions::default()).await;
        assert!(error.starts_with("invalid response of `p`: ") && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn accepts_provider_that_ignores_stdin() {
    // A request larger than the pipe buffer, which the provider does not read.
    let sandbox = Sandbox::new().provider(
        "p",
        TestPlugin::new().prints(response_json("Image", None, &[("a.io", "user", "p")])),
        &long(),
    );
    assert_eq!(names(&look_up_for_pod(&sandbox, "a.io/x").await), ["user"]);
}

fn long() -> String {
    "  tokenAttributes:\n    serviceAccountTokenAudience: x\n    cacheType: ServiceAccount\n    requireServiceAccount: \
     true\n    requiredServiceAccountAnnotationKeys: [a.io/long]\n"
        .to_owned()
}

/// Returns an annotation of 60 kB and a token of 200 kB.
async fn look_up_for_pod(sandbox: &Sandbox, image: &str) -> credlet_image::LookupResult {
    #[derive(Debug)]
    struct Long;
    impl ServiceAccountApi for Long {
        fn service_account<'a>(&'a self, _: &'a str, _: &'a str) -> AccountFuture<'a, ServiceAccount> {
            let annotations = [("a.io/long".to_owned(), "x".repeat(60_000))].into();
            Box::pin(async move { Ok(ServiceAccount { uid: "u".to_owned(), annotations }) })
        }

        fn token<'a>(&'a self, _: &'a TokenRequest) -> AccountFuture<'a, Secret> {
            Box::pin(async { Ok(Secret::new("t".repeat(200_000))) })
        }
    }
    let mut options = ProviderOptions::default();
    options.accounts = Some(std::sync::Arc::new(Long));
    let pod = PodRef { service_account: Some("robot".to_owned()), ..PodRef::default() };
    crate::look_up_with(
        &sandbox.load_with(options),
        image,
        &LookupRequest { pod: Some(&pod), ..LookupRequest::default() },
    )
    .await
}

#[tokio::test]
async fn rejects_oversized_output() {
    let error = error_of(TestPlugin::new().floods(OutputStream::Stdout, 100 << 20), ProviderOptions::default()).await;
    assert!(error.contains("standard output exceeded the limit"), "{error}");
}

#[tokio::test]
async fn kills_hanging_provider_and_grandchild() {
    let plugin =
        TestPlugin::new().leaves_a_grandchild(&[OutputStream::Stdout, OutputStream::Stderr], HANG * 10).hangs();
    let sandbox = Sandbox::new().provider("p", plugin, "");
    let mut options = ProviderOptions::default();
    options.timeouts.insert("p".to_owned(), Duration::from_secs(3));
    let look_up = get(&sandbox.load_with(options), "a.io/x").await;
    assert!(look_up.trace.to_string().contains("timed out after 3s"), "{}", look_up.trace);
    assert!(!is_running(sandbox.plugin("p").pids()[0]));
}

#[tokio::test]
async fn grandchild_with_open_pipe_does_not_block() {
    let good = response_json("Image", None, &[("a.io", "user", "p")]);
    let sandbox = Sandbox::new().provider(
        "p",
        TestPlugin::new().leaves_a_grandchild(&[OutputStream::Stdout], HANG).prints(good),
        "",
    );
    assert_eq!(names(&get(&sandbox.load(), "a.io/x").await), ["user"]);
}

#[tokio::test]
async fn redacts_secrets_in_stderr() {
    let watch = LeakCheck::new();
    let (password, variable) = (watch.secret("password"), watch.secret("variable"));
    let complaint = format!("giving {} with {}\n", password.expose(), variable.expose());
    let plugin = TestPlugin::new().prints_to(OutputStream::Stderr, complaint).prints(response_json(
        "Image",
        None,
        &[("a.io", "user", password.expose())],
    ));
    let more = format!("  env: [{{name: SECRET, value: \"{}\"}}]\n", variable.expose());
    let sandbox = Sandbox::new().provider("p", plugin, &more);
    let credentials = sandbox.load();
    let look_up = get(&credentials, "a.io/x").await;
    let stderr = credentials.last_stderr("p").unwrap();
    assert_eq!(stderr, "giving [redacted] with [redacted]\n");
    watch.text(format!("{stderr} {look_up:?} {credentials:?}"));
}

#[tokio::test]
async fn finds_binary_again_at_each_run() {
    let sandbox = Sandbox::new().provider("p", TestPlugin::failing(1, ""), "");
    let credentials = sandbox.load();
    let binary = sandbox.bin_dir().join("p");
    std::fs::remove_file(&binary).unwrap();
    let look_up = get(&credentials, "a.io/x").await;
    assert!(look_up.trace.to_string().contains("/bin/p` is not installed"), "{}", look_up.trace);
    std::fs::remove_file(sandbox.bin_dir().join("p.script.json")).unwrap();
    let other = TestPlugin::new().prints(response_json("Image", None, &[("a.io", "user", "p")]));
    other.install(&sandbox.bin_dir(), "p");
    credentials.invalidate(None);
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
}

#[tokio::test]
async fn handles_images_of_any_length() {
    let sandbox = Sandbox::new().provider("p", TestPlugin::new().prints(response_json("Image", None, &[])), "");
    let credentials = sandbox.load();
    let longest = format!("{}.io/x", "a".repeat(70_000));
    let look_up = get(&credentials, &longest).await;
    assert!(look_up.trace.to_string().contains("more than 65535 bytes"));
    for bad in ["", "a\nb", "\u{1b}[2J", &"a".repeat(64), "x/../y", "[::1]:5000/X"] {
        let asked = credentials.look_up(bad, &Default::default()).await;
        if let Err(error) = asked {
            assert!(!error.to_string().contains(['\n', '\u{1b}']), "{error}");
        }
    }
}
