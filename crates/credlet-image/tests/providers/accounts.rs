use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use credlet_api::Secret;
use credlet_image::{
    AccountError, Answered, Asking, Coordinates, LookUp, Options, Origin, Outcome, Pod, ProviderError, ServiceAccount,
    ServiceAccounts, TokenRequest, account_key, cache_key,
};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;
use serde_json::Value;

use crate::{Node, answer, answering, ask, names};

/// An API server with one service account, which gives each pod a token of its own.
#[derive(Debug, Default)]
struct Cluster {
    accounts: AtomicUsize,
    tokens: AtomicUsize,
    annotations: BTreeMap<String, String>,
    fails: bool,
    token: Option<Secret>,
    requests: Mutex<Vec<TokenRequest>>,
}

impl ServiceAccounts for Cluster {
    fn service_account<'a>(&'a self, _: &'a str, _: &'a str) -> Answered<'a, ServiceAccount> {
        self.accounts.fetch_add(1, Ordering::Relaxed);
        let account = ServiceAccount { uid: "sa-uid".to_owned(), annotations: self.annotations.clone() };
        Box::pin(async move { if self.fails { Err(AccountError::new("forbidden")) } else { Ok(account) } })
    }

    fn token<'a>(&'a self, request: &'a TokenRequest) -> Answered<'a, Secret> {
        self.tokens.fetch_add(1, Ordering::Relaxed);
        self.requests.lock().unwrap().push(request.clone());
        let token = self.token.clone().unwrap_or_else(|| Secret::new(format!("token of {}", request.pod_uid)));
        Box::pin(async move { Ok(token) })
    }
}

fn pod(number: usize) -> Pod {
    Pod {
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

async fn ask_as(node: &Node, cluster: &Arc<Cluster>, pods: &[Option<Pod>]) -> Vec<LookUp> {
    let mut options = Options::default();
    options.accounts = Some(Arc::clone(cluster) as _);
    let credentials = node.load_with(options);
    let mut found = Vec::new();
    for pod in pods {
        found.push(ask(&credentials, "a.io/x", &Asking { pod: pod.as_ref(), ..Asking::default() }).await);
    }
    found
}

#[tokio::test]
async fn answers_for_an_account_serve_all_its_pods_and_a_token_is_asked_for_only_to_run() {
    let node = Node::new().provider("p", answering("Registry", None), &mode("ServiceAccount", "true"));
    let cluster = Arc::new(Cluster::default());
    let found = ask_as(&node, &cluster, &[Some(pod(1)), Some(pod(2)), Some(pod(3))]).await;
    assert!(found.iter().all(|look_up| names(look_up) == ["user"]));
    assert_eq!(node.plugin("p").runs(), 1);
    assert_eq!(cluster.tokens.load(Ordering::Relaxed), 1);
    let Origin::Provider { account: Some(account), .. } = &found[2].credentials[0].origin else { panic!() };
    assert_eq!((account.namespace.as_str(), account.name.as_str(), account.uid.as_str()), ("ns", "robot", "sa-uid"));
}

#[tokio::test]
async fn answers_for_a_token_serve_that_token_only() {
    let node = Node::new().provider("p", answering("Global", None), &mode("Token", "true"));
    let cluster = Arc::new(Cluster::default());
    ask_as(&node, &cluster, &[Some(pod(1)), Some(pod(2)), Some(pod(1))]).await;
    assert_eq!(node.plugin("p").runs(), 2);
    let request = cluster.requests.lock().unwrap()[0].clone();
    assert_eq!((&*request.audience, &*request.pod_name, &*request.pod_uid), ("registry", "pod-1", "uid-1"));
    assert_eq!(request.account.uid, "sa-uid");
}

#[tokio::test]
async fn a_provider_is_told_the_token_and_the_annotations_it_may_know() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let plugin = Plugin::new().reports_with_stdin().prints(answer("Image", None, &[]));
    let more = "true\n    requiredServiceAccountAnnotationKeys: [b.io/need]\n    optionalServiceAccountAnnotationKeys: \
                [a.io/like, a.io/none]";
    let node = Node::new().provider("p", plugin, &mode("Token", more));
    let annotations = [("b.io/need", "1"), ("a.io/like", ""), ("c.io/other", "3")];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let cluster = Arc::new(Cluster { token: Some(token.clone()), annotations, ..Cluster::default() });
    let found = ask_as(&node, &cluster, &[Some(pod(1))]).await;
    let asked: Value = serde_json::from_slice(&node.plugin("p").report().stdin.unwrap()).unwrap();
    assert_eq!(asked["serviceAccountToken"], token.expose());
    assert_eq!(asked["serviceAccountAnnotations"], serde_json::json!({"a.io/like": "", "b.io/need": "1"}));
    watch.text(format!("{found:?}"));
}

#[tokio::test]
async fn whoever_lacks_something_is_passed_over_with_the_reason() {
    let need = "true\n    requiredServiceAccountAnnotationKeys: [b.io/need]";
    let without = Pod { service_account: None, ..pod(1) };
    for (more, pod, fails, story, runs) in [
        ("true", Some(without.clone()), false, "needs a service account, and there is none", 0),
        ("true", None, false, "needs a service account, and there is none", 0),
        (need, Some(pod(1)), false, "the service account `robot` lacks the annotation `b.io/need`", 0),
        ("true", Some(pod(1)), true, "nothing is known of the service account: forbidden", 0),
        ("false", Some(without), false, "it was run and answered", 1),
    ] {
        let node = Node::new().provider("p", answering("Image", None), &mode("ServiceAccount", more));
        let cluster = Arc::new(Cluster { fails, ..Cluster::default() });
        let found = ask_as(&node, &cluster, &[pod]).await;
        assert!(found[0].trace.to_string().contains(story), "{}", found[0].trace);
        assert_eq!(node.plugin("p").runs(), runs);
    }
}

#[tokio::test]
async fn a_token_must_not_come_back_as_the_password_unless_it_is_remembered_by_it() {
    let watch = Watch::new();
    let token = watch.secret("token");
    for (cache_type, taken) in [("ServiceAccount", false), ("Token", true)] {
        let plugin = Plugin::new().prints(answer("Image", None, &[("a.io", "user", token.expose())]));
        let node = Node::new().provider("p", plugin, &mode(cache_type, "true"));
        let cluster = Arc::new(Cluster { token: Some(token.clone()), ..Cluster::default() });
        let found = ask_as(&node, &cluster, &[Some(pod(1))]).await;
        assert_eq!(!found[0].credentials.is_empty(), taken, "{cache_type}");
        assert_eq!(found[0].trace.to_string().contains("`cacheType: Token`"), !taken);
        let echoed =
            |error: &ProviderError| matches!(error, ProviderError::EchoedToken { provider } if provider == "p");
        let outcome = found[0].trace.steps[0].outcome.as_ref().unwrap();
        assert_eq!(matches!(outcome, Outcome::Failed(error) if echoed(error)), !taken, "{outcome:?}");
        assert_eq!(matches!(outcome, Outcome::Ran(_)), taken);
        watch.text(format!("{:?} {}", found, found[0].trace));
    }
}

#[tokio::test]
async fn an_echoed_token_is_not_remembered_and_the_next_answer_may_be_good() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let echo = answer("Global", None, &[("a.io", "user", token.expose())]);
    let plugin =
        Plugin::new().prints(echo).on_the_next_run().prints(answer("Global", None, &[("a.io", "user", "own")]));
    let node = Node::new().provider("p", plugin, &mode("ServiceAccount", "true"));
    let cluster = Arc::new(Cluster { token: Some(token), ..Cluster::default() });
    let mut options = Options::default();
    options.accounts = Some(cluster as _);
    let credentials = node.load_with(options);
    let pod = pod(1);
    let asking = Asking { pod: Some(&pod), ..Asking::default() };
    assert!(ask(&credentials, "a.io/x", &asking).await.credentials.is_empty());
    assert_eq!(credentials.remembered(), 0);
    credentials.invalidate(None);
    let found = ask(&credentials, "a.io/x", &asking).await;
    assert_eq!(crate::passwords(&found), ["own"]);
}

/// A token that says when it ends.
fn token_until(end: i64, number: usize) -> Secret {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let part = |text: String| URL_SAFE_NO_PAD.encode(text);
    Secret::new(format!("{}.{}.c2ln", part("{}".to_owned()), part(format!("{{\"exp\":{end},\"jti\":\"{number}\"}}"))))
}

/// An API server that gives another token each time, good for an hour, or none.
#[derive(Debug)]
struct Hourly {
    clock: credlet_core::ManualClock,
    tokens: AtomicUsize,
    down: AtomicBool,
}

impl ServiceAccounts for Hourly {
    fn service_account<'a>(&'a self, _: &'a str, _: &'a str) -> Answered<'a, ServiceAccount> {
        Box::pin(async { Ok(ServiceAccount { uid: "sa-uid".to_owned(), ..ServiceAccount::default() }) })
    }

    fn token<'a>(&'a self, _: &'a TokenRequest) -> Answered<'a, Secret> {
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        let down = self.down.load(Ordering::Relaxed);
        let token = token_until(credlet_core::Clock::now(&self.clock).as_second() + 3600, number);
        Box::pin(async move { if down { Err(AccountError::new("down")) } else { Ok(token) } })
    }
}

#[tokio::test]
async fn a_pods_token_is_used_for_four_fifths_of_its_life_and_longer_while_there_is_no_other() {
    let node = Node::new().provider("p", answering("Registry", None), &mode("Token", "true"));
    let (clock, tokens) = (node.clock.clone(), AtomicUsize::new(0));
    let server = Arc::new(Hourly { clock, tokens, down: AtomicBool::new(false) });
    let mut options = Options::default();
    options.accounts = Some(Arc::clone(&server) as _);
    let credentials = node.load_with(options);
    // (How often the server was asked, how often the provider was run) after a look-up for this pod.
    let after = async |number: usize, minutes: u64| {
        node.clock.advance(std::time::Duration::from_secs(60 * minutes));
        let pod = pod(number);
        let found = ask(&credentials, "a.io/x", &Asking { pod: Some(&pod), ..Asking::default() }).await;
        assert_eq!(names(&found), ["user"], "{}", found.trace);
        (server.tokens.load(Ordering::Relaxed), node.plugin("p").runs())
    };
    assert_eq!(after(1, 0).await, (1, 1));
    assert_eq!(after(1, 47).await, (1, 1), "the same token finds the same answer");
    assert_eq!(after(2, 0).await, (2, 2), "another pod has another");
    assert_eq!(after(1, 2).await, (3, 3), "past four fifths");
    server.down.store(true, Ordering::Relaxed);
    assert_eq!(after(1, 50).await, (4, 3), "still good");
    node.clock.advance(std::time::Duration::from_secs(3600));
    let pod = pod(1);
    let found = ask(&credentials, "a.io/x", &Asking { pod: Some(&pod), ..Asking::default() }).await;
    assert!(found.credentials.is_empty() && found.trace.to_string().contains("down"), "{}", found.trace);
}

#[tokio::test]
async fn one_binary_under_two_names_has_two_audiences() {
    let audience = |name: &str| mode("ServiceAccount", "true").replace("registry", name);
    let plugin = |user: &str| Plugin::new().reports_with_stdin().prints(answer("Image", None, &[("a.io", user, "p")]));
    let node = Node::new().provider("one", plugin("one"), &audience("first")).provider(
        "two",
        plugin("two"),
        &audience("second"),
    );
    let cluster = Arc::new(Cluster::default());
    let found = ask_as(&node, &cluster, &[Some(pod(1))]).await;
    assert_eq!(names(&found[0]), ["one", "two"]);
    let mut audiences: Vec<_> =
        cluster.requests.lock().unwrap().iter().map(|request| request.audience.clone()).collect();
    audiences.sort();
    assert_eq!(audiences, ["first", "second"]);
}

#[tokio::test]
async fn a_single_run_shows_what_was_asked_but_for_the_token() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let more = "true\n    optionalServiceAccountAnnotationKeys: [a.io/role]";
    let plugin = Plugin::new().reports_with_stdin().prints(answer("Image", None, &[]));
    let node = Node::new().provider("p", plugin, &mode("ServiceAccount", more));
    let annotations = [("a.io/role".to_owned(), "reader".to_owned())].into();
    let cluster = Arc::new(Cluster { token: Some(token.clone()), annotations, ..Cluster::default() });
    let mut options = Options::default();
    options.accounts = Some(cluster as _);
    let pod = pod(1);
    let asking = Asking { pod: Some(&pod), ..Asking::default() };
    let run = node.load_with(options).run("p", "a.io/x", &asking).await.unwrap();
    let shown = run.request.unwrap().encode();
    watch.text(&*shown);
    let sent = String::from_utf8(node.plugin("p").report().stdin.unwrap()).unwrap();
    assert_eq!(shown.replace("[redacted]", token.expose()), sent);
    let nobody = node.load().run("p", "a.io/x", &Asking::default()).await.unwrap();
    assert!(nobody.request.is_none(), "it needs an account, so it was not asked");
}

#[tokio::test]
async fn two_providers_share_one_look_at_the_account() {
    let node = Node::new().provider("p", answering("Image", None), &mode("ServiceAccount", "true")).provider(
        "q",
        answering("Image", None),
        &mode("ServiceAccount", "true"),
    );
    let cluster = Arc::new(Cluster::default());
    ask_as(&node, &cluster, &[Some(pod(1))]).await;
    assert_eq!(cluster.accounts.load(Ordering::Relaxed), 1);
}

#[test]
fn cache_keys_are_the_kubelets_to_the_byte() {
    let all: Value = serde_json::from_str(include_str!("../vectors/image.json")).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for case in all["cacheKey"].as_array().unwrap() {
        let key = cache_key(case["base"].as_str().unwrap(), case["sa"].as_str().unwrap().as_bytes()).unwrap();
        assert_eq!(hex(&key), case["hex"].as_str().unwrap());
    }
    for case in all["saCacheKey"].as_array().unwrap() {
        let text = |name: &str| case[name].as_str().unwrap().to_owned();
        let account = Coordinates { namespace: text("ns"), name: text("name"), uid: text("uid") };
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
