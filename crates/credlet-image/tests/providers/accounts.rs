use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use credlet_api::Secret;
use credlet_image::{
    AccountError, AccountFuture, CredentialOrigin, LookupRequest, LookupResult, PodRef, ProviderError, ProviderOptions,
    ServiceAccount, ServiceAccountApi, ServiceAccountRef, StepOutcome, TokenRequest, account_key, cache_key,
};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use serde_json::Value;

use crate::{Sandbox, look_up_with, names, responding, response_json};

/// API server with one service account, which issues a different token to each pod.
#[derive(Debug, Default)]
struct Cluster {
    accounts: AtomicUsize,
    tokens: AtomicUsize,
    annotations: BTreeMap<String, String>,
    fails: bool,
    token: Option<Secret>,
    requests: Mutex<Vec<TokenRequest>>,
}

impl ServiceAccountApi for Cluster {
    fn service_account<'a>(&'a self, _: &'a str, _: &'a str) -> AccountFuture<'a, ServiceAccount> {
        self.accounts.fetch_add(1, Ordering::Relaxed);
        let account = ServiceAccount { uid: "sa-uid".to_owned(), annotations: self.annotations.clone() };
        Box::pin(async move { if self.fails { Err(AccountError::new("forbidden")) } else { Ok(account) } })
    }

    fn token<'a>(&'a self, request: &'a TokenRequest) -> AccountFuture<'a, Secret> {
        self.tokens.fetch_add(1, Ordering::Relaxed);
        self.requests.lock().unwrap().push(request.clone());
        let token = self.token.clone().unwrap_or_else(|| Secret::new(format!("token of {}", request.pod_uid)));
        Box::pin(async move { Ok(token) })
    }
}

fn pod(number: usize) -> PodRef {
    PodRef {
        namespace: "ns".to_owned(),
        name: format!("pod-{number}"),
        uid: format!("uid-{number}"),
        service_account: Some("robot".to_owned()),
    }
}

fn mode(cache_type: &str, more: &str) -> String {
    format!(
        "  tokenAttributes:\n    serviceAccountTokenAudience: registry\n    cacheType: {cache_type}\n    \
         requireServiceAccount: {more}\n"
    )
}

async fn look_up_for_pods(sandbox: &Sandbox, cluster: &Arc<Cluster>, pods: &[Option<PodRef>]) -> Vec<LookupResult> {
    let mut options = ProviderOptions::default();
    options.accounts = Some(Arc::clone(cluster) as _);
    let credentials = sandbox.load_with(options);
    let mut found = Vec::new();
    for pod in pods {
        found.push(
            look_up_with(&credentials, "a.io/x", &LookupRequest { pod: pod.as_ref(), ..LookupRequest::default() })
                .await,
        );
    }
    found
}

#[tokio::test]
async fn account_response_serves_all_its_pods() {
    let sandbox = Sandbox::new().provider("p", responding("Registry", None), &mode("ServiceAccount", "true"));
    let cluster = Arc::new(Cluster::default());
    let found = look_up_for_pods(&sandbox, &cluster, &[Some(pod(1)), Some(pod(2)), Some(pod(3))]).await;
    assert!(found.iter().all(|look_up| names(look_up) == ["user"]));
    assert_eq!(sandbox.plugin("p").runs(), 1);
    assert_eq!(cluster.tokens.load(Ordering::Relaxed), 1);
    let CredentialOrigin::Provider { account: Some(account), .. } = &found[2].credentials[0].origin else { panic!() };
    assert_eq!((account.namespace.as_str(), account.name.as_str(), account.uid.as_str()), ("ns", "robot", "sa-uid"));
}

#[tokio::test]
async fn token_response_serves_that_token_only() {
    let sandbox = Sandbox::new().provider("p", responding("Global", None), &mode("Token", "true"));
    let cluster = Arc::new(Cluster::default());
    look_up_for_pods(&sandbox, &cluster, &[Some(pod(1)), Some(pod(2)), Some(pod(1))]).await;
    assert_eq!(sandbox.plugin("p").runs(), 2);
    let request = cluster.requests.lock().unwrap()[0].clone();
    assert_eq!((&*request.audience, &*request.pod_name, &*request.pod_uid), ("registry", "pod-1", "uid-1"));
    assert_eq!(request.account.uid, "sa-uid");
}

#[tokio::test]
async fn passes_token_and_selected_annotations() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let plugin = TestPlugin::new().reports_with_stdin().prints(response_json("Image", None, &[]));
    let more = "true\n    requiredServiceAccountAnnotationKeys: [b.io/need]\n    optionalServiceAccountAnnotationKeys: \
                [a.io/like, a.io/none]";
    let sandbox = Sandbox::new().provider("p", plugin, &mode("Token", more));
    let annotations = [("b.io/need", "1"), ("a.io/like", ""), ("c.io/other", "3")];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let cluster = Arc::new(Cluster { token: Some(token.clone()), annotations, ..Cluster::default() });
    let found = look_up_for_pods(&sandbox, &cluster, &[Some(pod(1))]).await;
    let asked: Value = serde_json::from_slice(&sandbox.plugin("p").report().stdin.unwrap()).unwrap();
    assert_eq!(asked["serviceAccountToken"], token.expose());
    assert_eq!(asked["serviceAccountAnnotations"], serde_json::json!({"a.io/like": "", "b.io/need": "1"}));
    watch.text(format!("{found:?}"));
}

#[tokio::test]
async fn skips_provider_without_required_account() {
    let need = "true\n    requiredServiceAccountAnnotationKeys: [b.io/need]";
    let without = PodRef { service_account: None, ..pod(1) };
    for (more, pod, fails, expected, runs) in [
        ("true", Some(without.clone()), false, "missing service account", 0),
        ("true", None, false, "missing service account", 0),
        (need, Some(pod(1)), false, "missing annotation `b.io/need` of the service account `robot`", 0),
        ("true", Some(pod(1)), true, "failed to fetch the service account: forbidden", 0),
        ("false", Some(without), false, "ran in", 1),
    ] {
        let sandbox = Sandbox::new().provider("p", responding("Image", None), &mode("ServiceAccount", more));
        let cluster = Arc::new(Cluster { fails, ..Cluster::default() });
        let found = look_up_for_pods(&sandbox, &cluster, &[pod]).await;
        assert!(found[0].trace.to_string().contains(expected), "{}", found[0].trace);
        assert_eq!(sandbox.plugin("p").runs(), runs);
    }
}

#[tokio::test]
async fn rejects_token_echoed_as_password() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    for (cache_type, taken) in [("ServiceAccount", false), ("Token", true)] {
        let plugin = TestPlugin::new().prints(response_json("Image", None, &[("a.io", "user", token.expose())]));
        let sandbox = Sandbox::new().provider("p", plugin, &mode(cache_type, "true"));
        let cluster = Arc::new(Cluster { token: Some(token.clone()), ..Cluster::default() });
        let found = look_up_for_pods(&sandbox, &cluster, &[Some(pod(1))]).await;
        assert_eq!(!found[0].credentials.is_empty(), taken, "{cache_type}");
        assert_eq!(found[0].trace.to_string().contains("`cacheType: Token`"), !taken);
        let echoed =
            |error: &ProviderError| matches!(error, ProviderError::EchoedToken { provider } if provider == "p");
        let outcome = found[0].trace.steps[0].outcome.as_ref().unwrap();
        assert_eq!(matches!(outcome, StepOutcome::Failed(error) if echoed(error)), !taken, "{outcome:?}");
        assert_eq!(matches!(outcome, StepOutcome::Ran(_)), taken);
        watch.text(format!("{:?} {}", found, found[0].trace));
    }
}

#[tokio::test]
async fn does_not_cache_echoed_token() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let echo = response_json("Global", None, &[("a.io", "user", token.expose())]);
    let plugin = TestPlugin::new().prints(echo).on_the_next_run().prints(response_json(
        "Global",
        None,
        &[("a.io", "user", "own")],
    ));
    let sandbox = Sandbox::new().provider("p", plugin, &mode("ServiceAccount", "true"));
    let cluster = Arc::new(Cluster { token: Some(token), ..Cluster::default() });
    let mut options = ProviderOptions::default();
    options.accounts = Some(cluster as _);
    let credentials = sandbox.load_with(options);
    let pod = pod(1);
    let request = LookupRequest { pod: Some(&pod), ..LookupRequest::default() };
    assert!(look_up_with(&credentials, "a.io/x", &request).await.credentials.is_empty());
    assert_eq!(credentials.cached_responses(), 0);
    credentials.invalidate(None);
    let found = look_up_with(&credentials, "a.io/x", &request).await;
    assert_eq!(crate::passwords(&found), ["own"]);
}

/// A JWT with this expiry.
fn token_until(end: i64, number: usize) -> Secret {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let part = |text: String| URL_SAFE_NO_PAD.encode(text);
    Secret::new(format!("{}.{}.c2ln", part("{}".to_owned()), part(format!("{{\"exp\":{end},\"jti\":\"{number}\"}}"))))
}

/// API server that issues a new token with each request, valid for an hour, or fails.
#[derive(Debug)]
struct Hourly {
    clock: credlet_exec::ManualClock,
    tokens: AtomicUsize,
    down: AtomicBool,
}

impl ServiceAccountApi for Hourly {
    fn service_account<'a>(&'a self, _: &'a str, _: &'a str) -> AccountFuture<'a, ServiceAccount> {
        Box::pin(async { Ok(ServiceAccount { uid: "sa-uid".to_owned(), ..ServiceAccount::default() }) })
    }

    fn token<'a>(&'a self, _: &'a TokenRequest) -> AccountFuture<'a, Secret> {
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        let down = self.down.load(Ordering::Relaxed);
        let token = token_until(credlet_exec::Clock::now(&self.clock).as_second() + 3600, number);
        Box::pin(async move { if down { Err(AccountError::new("down")) } else { Ok(token) } })
    }
}

#[tokio::test]
async fn reuses_token_for_four_fifths_of_lifetime() {
    let sandbox = Sandbox::new().provider("p", responding("Registry", None), &mode("Token", "true"));
    let (clock, tokens) = (sandbox.clock.clone(), AtomicUsize::new(0));
    let server = Arc::new(Hourly { clock, tokens, down: AtomicBool::new(false) });
    let mut options = ProviderOptions::default();
    options.accounts = Some(Arc::clone(&server) as _);
    let credentials = sandbox.load_with(options);
    // Returns the numbers of token requests and provider runs after a lookup for this pod.
    let after = async |number: usize, minutes: u64| {
        sandbox.clock.advance(std::time::Duration::from_secs(60 * minutes));
        let pod = pod(number);
        let found =
            look_up_with(&credentials, "a.io/x", &LookupRequest { pod: Some(&pod), ..LookupRequest::default() }).await;
        assert_eq!(names(&found), ["user"], "{}", found.trace);
        (server.tokens.load(Ordering::Relaxed), sandbox.plugin("p").runs())
    };
    assert_eq!(after(1, 0).await, (1, 1));
    assert_eq!(after(1, 47).await, (1, 1), "the same token finds the cached response");
    assert_eq!(after(2, 0).await, (2, 2), "another pod has another token");
    assert_eq!(after(1, 2).await, (3, 3), "after four fifths of the lifetime");
    server.down.store(true, Ordering::Relaxed);
    assert_eq!(after(1, 50).await, (4, 3), "the old token is still valid");
    sandbox.clock.advance(std::time::Duration::from_secs(3600));
    let pod = pod(1);
    let found =
        look_up_with(&credentials, "a.io/x", &LookupRequest { pod: Some(&pod), ..LookupRequest::default() }).await;
    assert!(found.credentials.is_empty() && found.trace.to_string().contains("down"), "{}", found.trace);
}

#[tokio::test]
async fn one_binary_with_two_names_has_two_audiences() {
    let audience = |name: &str| mode("ServiceAccount", "true").replace("registry", name);
    let plugin = |user: &str| {
        TestPlugin::new().reports_with_stdin().prints(response_json("Image", None, &[("a.io", user, "p")]))
    };
    let sandbox = Sandbox::new().provider("one", plugin("one"), &audience("first")).provider(
        "two",
        plugin("two"),
        &audience("second"),
    );
    let cluster = Arc::new(Cluster::default());
    let found = look_up_for_pods(&sandbox, &cluster, &[Some(pod(1))]).await;
    assert_eq!(names(&found[0]), ["one", "two"]);
    let mut audiences: Vec<_> =
        cluster.requests.lock().unwrap().iter().map(|request| request.audience.clone()).collect();
    audiences.sort();
    assert_eq!(audiences, ["first", "second"]);
}

#[tokio::test]
async fn single_run_redacts_token_in_request() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let more = "true\n    optionalServiceAccountAnnotationKeys: [a.io/role]";
    let plugin = TestPlugin::new().reports_with_stdin().prints(response_json("Image", None, &[]));
    let sandbox = Sandbox::new().provider("p", plugin, &mode("ServiceAccount", more));
    let annotations = [("a.io/role".to_owned(), "reader".to_owned())].into();
    let cluster = Arc::new(Cluster { token: Some(token.clone()), annotations, ..Cluster::default() });
    let mut options = ProviderOptions::default();
    options.accounts = Some(cluster as _);
    let pod = pod(1);
    let request = LookupRequest { pod: Some(&pod), ..LookupRequest::default() };
    let run = sandbox.load_with(options).run("p", "a.io/x", &request).await.unwrap();
    let shown = run.request.unwrap().encode();
    watch.text(&*shown);
    let sent = String::from_utf8(sandbox.plugin("p").report().stdin.unwrap()).unwrap();
    assert_eq!(shown.replace("[redacted]", token.expose()), sent);
    let skipped = sandbox.load().run("p", "a.io/x", &LookupRequest::default()).await.unwrap();
    assert!(skipped.request.is_none(), "skipped without an account");
}

#[tokio::test]
async fn providers_share_one_account_request() {
    let sandbox = Sandbox::new().provider("p", responding("Image", None), &mode("ServiceAccount", "true")).provider(
        "q",
        responding("Image", None),
        &mode("ServiceAccount", "true"),
    );
    let cluster = Arc::new(Cluster::default());
    look_up_for_pods(&sandbox, &cluster, &[Some(pod(1))]).await;
    assert_eq!(cluster.accounts.load(Ordering::Relaxed), 1);
}

#[test]
fn cache_keys_match_kubelet_bytes() {
    let all: Value = serde_json::from_str(include_str!("../vectors/image.json")).unwrap();
    let hex = |bytes: &[u8]| credlet_api::hex(bytes);
    for case in all["cacheKey"].as_array().unwrap() {
        let key = cache_key(case["base"].as_str().unwrap(), case["sa"].as_str().unwrap().as_bytes()).unwrap();
        assert_eq!(hex(&key), case["hex"].as_str().unwrap());
    }
    for case in all["saCacheKey"].as_array().unwrap() {
        let text = |name: &str| case[name].as_str().unwrap().to_owned();
        let account = ServiceAccountRef { namespace: text("ns"), name: text("name"), uid: text("uid") };
        let annotations: BTreeMap<String, String> = serde_json::from_value(case["annotations"].clone()).unwrap();
        let key = account_key(&account, &annotations, None).unwrap();
        let expected = text("hex");
        if case["cacheType"] == "Token" {
            // The token of this case is not known, only its hash; the rest of the key goes before it.
            let tail = format!("0005{}0047{}", hex(b"token"), hex(text("tokenHash").as_bytes()));
            assert_eq!(hex(&key) + &tail, expected);
            let with_token = hex(&account_key(&account, &annotations, Some(&Secret::new("x"))).unwrap());
            assert_eq!(with_token.len(), expected.len());
            assert!(with_token.starts_with(&hex(&key)));
        } else {
            assert_eq!(hex(&key), expected);
        }
    }
    assert!(cache_key(&"x".repeat(65_536), b"").is_err());
}
