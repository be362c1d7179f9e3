use credlet_core::{FixedEnv, ManualClock};
use credlet_testkit::logs::Watch;
use http::Request;

use super::*;

fn credentials() -> Credentials {
    Credentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", None)
}

fn now() -> Timestamp {
    "2015-08-30T12:36:00Z".parse().unwrap()
}

fn signed(request: http::request::Builder, body: BodyDigest, service: &str) -> Parts {
    let (mut head, ()) = request.body(()).unwrap().into_parts();
    let options = Options::new("us-east-1", service);
    put_signature(&mut head, body, &options, &credentials(), now()).unwrap();
    head
}

fn of(head: &Parts, name: &str) -> String {
    head.headers[name].to_str().unwrap().to_owned()
}

const EMPTY: BodyDigest = BodyDigest::Sha256([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]);

/// Recomputed with the primitive that AWS's own example pins (`aws::sigv4`): the header list of the example, with the
/// digest added, which the signer always sends.
#[test]
fn what_is_put_on_is_the_signature_of_what_goes_out() {
    let head = signed(
        Request::get("/?Action=ListUsers&Version=2010-05-08")
            .header("host", "iam.amazonaws.com")
            .header("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
        EMPTY,
        "iam",
    );
    let scope = Scope { region: "us-east-1", service: "iam", at: now() };
    let digest = of(&head, "x-amz-content-sha256");
    let request = Signed {
        method: "GET",
        path: "/",
        query: &[("Action", "ListUsers"), ("Version", "2010-05-08")],
        headers: &[
            ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
            ("host", "iam.amazonaws.com"),
            ("x-amz-content-sha256", &digest),
            ("x-amz-date", "20150830T123600Z"),
        ],
        body: b"",
    };
    assert_eq!(of(&head, "authorization"), **scope.authorization(&request, &credentials()));
    assert_eq!(of(&head, "x-amz-date"), "20150830T123600Z");
    assert!(head.headers["authorization"].is_sensitive());
}

#[test]
fn whoever_one_acts_for_is_covered_and_what_the_client_sent_of_ours_is_not_believed() {
    let request = Request::post("https://api.example/api/v1/pods")
        .header("host", "api.example")
        .header("impersonate-user", "bob")
        .header("impersonate-group", "a")
        .header("impersonate-group", "b")
        .header("impersonate-extra-scopes", "x")
        .header("accept", "application/json")
        .header("authorization", "Bearer local")
        .header("x-amz-security-token", "smuggled")
        .header("x-amz-content-sha256", "smuggled");
    let head = signed(request, BodyDigest::Unknown, "eks");
    assert!(of(&head, "authorization").contains(
        "SignedHeaders=host;impersonate-extra-scopes;impersonate-group;impersonate-user;x-amz-content-sha256;x-amz-date,"
    ));
    assert_eq!(of(&head, "x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
    assert!(!head.headers.contains_key("x-amz-security-token"));
    assert_eq!(head.uri, "https://api.example/api/v1/pods");
}

/// Each of them changed makes another signature.
#[test]
fn nothing_that_is_covered_can_change_unnoticed() {
    let base = || {
        Request::post("/api/v1/pods?a=1")
            .header("host", "h")
            .header("content-type", "application/json")
            .header("impersonate-user", "bob")
    };
    let signature = |request, body| of(&signed(request, body, "eks"), "authorization");
    let plain = signature(base(), EMPTY);
    assert_eq!(plain, signature(base().header("accept", "x"), EMPTY));
    for (what, other) in [
        ("the method", signature(base().method("PUT"), EMPTY)),
        ("the path", signature(base().uri("/api/v1/podz?a=1"), EMPTY)),
        ("the query", signature(base().uri("/api/v1/pods?a=2"), EMPTY)),
        ("an impersonation more", signature(base().header("impersonate-group", "system:masters"), EMPTY)),
        ("the body", signature(base(), BodyDigest::Sha256([7; 32]))),
        ("no digest", signature(base(), BodyDigest::Unknown)),
    ] {
        assert_ne!(plain, other, "{what}");
    }
}

#[test]
fn a_header_that_is_no_text_is_refused_and_not_left_unsigned() {
    let value = HeaderValue::from_bytes(b"\xff\xfe").unwrap();
    let request = Request::get("/").header("host", "h").header("impersonate-user", value);
    let (mut head, ()) = request.body(()).unwrap().into_parts();
    let error = put_signature(&mut head, EMPTY, &Options::new("r", "eks"), &credentials(), now()).unwrap_err();
    assert!(error.to_string().contains("impersonate-user"), "{error}");
    assert!(!head.headers.contains_key("authorization"));
}

fn signer(env: &[(&str, &str)], clock: Arc<ManualClock>) -> Sigv4Signer {
    let env = FixedEnv::new(env.iter().copied().chain([("HOME", "/nowhere")]));
    let world = World { env: Arc::new(env), clock, ..World::system() };
    Sigv4Signer::new(Options::new("us-east-1", "eks"), aws::Options::default(), &world)
}

#[tokio::test]
async fn a_signer_signs_with_the_chain_and_shows_no_secret() {
    let watch = Watch::new();
    let (secret, token) = (watch.secret("secret key"), watch.secret("session token"));
    let env = [
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", secret.expose()),
        ("AWS_SESSION_TOKEN", token.expose()),
    ];
    let signer = signer(&env, Arc::new(ManualClock::new(now())));
    assert_eq!(signer.body(&Request::new(()).into_parts().0), BodyRule::Hash { max: LARGEST_BODY });
    let serial = signer.credential().await.unwrap().serial;
    assert!(serial > 0);
    let (mut head, ()) = Request::get("/api").header("host", "h").body(()).unwrap().into_parts();
    signer.sign(&mut head, EMPTY).await.unwrap();
    assert!(head.headers["x-amz-security-token"].is_sensitive());
    assert!(of(&head, "authorization").contains("x-amz-date;x-amz-security-token"));
    // The same keys again are nothing better.
    assert!(!signer.refused(serial).await.unwrap());
    watch.text(format!("{signer:?} {head:?}"));
}

#[tokio::test]
async fn without_credentials_the_request_says_who_must_act() {
    let clock = || Arc::new(ManualClock::new(now()));
    let gone = signer(&[("AWS_PROFILE", "gone")], clock()).credential().await.unwrap_err();
    assert!(matches!(&gone, SignError::Misconfigured { message } if message.contains("gone")), "{gone:?}");
    let none = signer(&[("AWS_EC2_METADATA_DISABLED", "true")], clock()).credential().await.unwrap_err();
    assert!(matches!(&none, SignError::Unavailable { message } if message.contains("AWS_ACCESS_KEY_ID")), "{none:?}");
    let over = [
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "b"),
        ("AWS_CREDENTIAL_EXPIRATION", "2015-08-30T12:00:00Z"),
    ];
    let over = signer(&over, clock()).credential().await.unwrap_err();
    assert!(matches!(over, SignError::Person { .. }), "{over:?}");
}

#[tokio::test]
async fn keys_that_somebody_wrote_into_the_file_meanwhile_are_found_by_themselves_and_after_a_refusal() {
    let watch = Watch::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("credentials");
    let write = |id: &str| {
        let secret = watch.secret(id);
        let text = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {}\n", secret.expose());
        std::fs::write(&file, text).unwrap();
    };
    write("AKIDONE");
    let clock = Arc::new(ManualClock::new(now()));
    let env = [("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap())];
    let signer = signer(&env, clock.clone());
    let by = async || {
        let (mut head, ()) = Request::get("/api").header("host", "h").body(()).unwrap().into_parts();
        signer.sign(&mut head, EMPTY).await.unwrap();
        of(&head, "authorization").split_once("Credential=").unwrap().1.split_once('/').unwrap().0.to_owned()
    };
    assert_eq!(by().await, "AKIDONE");
    write("AKIDTWO");
    assert_eq!(by().await, "AKIDONE");
    clock.advance(LOOK + Duration::from_secs(1));
    assert_eq!(by().await, "AKIDTWO");
    let serial = signer.credential().await.unwrap().serial;
    write("AKIDTHREE");
    assert!(signer.refused(serial).await.unwrap());
    assert_eq!(by().await, "AKIDTHREE");
}

#[test]
fn a_clock_that_is_wrong_is_reported_once() {
    let watch = Watch::new();
    let clock = Arc::new(ManualClock::new(now()));
    let signer = signer(&[("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")], clock);
    let said = |watch: &Watch| watch.lines().iter().filter(|line| line.contains("set the clock")).count();
    let answer = |date: &str| http::HeaderMap::from_iter([(header::DATE, HeaderValue::from_str(date).unwrap())]);
    signer.answered(&answer("Sun, 30 Aug 2015 12:38:00 GMT"));
    signer.answered(&answer("nonsense"));
    assert_eq!(said(&watch), 0);
    for _ in 0..3 {
        signer.answered(&answer("Sun, 30 Aug 2015 13:36:01 GMT"));
    }
    assert_eq!(said(&watch), 1);
    signer.answered(&answer("Sun, 30 Aug 2015 12:36:10 GMT"));
    signer.answered(&answer("Sun, 30 Aug 2015 11:36:10 GMT"));
    assert_eq!(said(&watch), 2);
}
