use credlet_exec::{FixedEnv, ManualClock};
use credlet_testkit::logs::LeakCheck;
use http::Request;

use super::*;

fn credentials() -> AwsCredentials {
    AwsCredentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", None)
}

fn now() -> Timestamp {
    "2015-08-30T12:36:00Z".parse().unwrap()
}

fn signed(request: http::request::Builder, body: BodyDigest, service: &str) -> Parts {
    let (mut head, ()) = request.body(()).unwrap().into_parts();
    let options = Sigv4Options::new("us-east-1", service);
    sign_request(&mut head, body, &options, &credentials(), now()).unwrap();
    head
}

fn of(head: &Parts, name: &str) -> String {
    head.headers[name].to_str().unwrap().to_owned()
}

const EMPTY: BodyDigest = BodyDigest::Sha256([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]);

/// Recomputes the signature with `aws::sigv4`, which is tested with the example of the AWS documentation.
#[test]
fn signature_covers_sent_request() {
    let head = signed(
        Request::get("/?Action=ListUsers&Version=2010-05-08")
            .header("host", "iam.amazonaws.com")
            .header("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
        EMPTY,
        "iam",
    );
    let scope = SigningScope { region: "us-east-1", service: "iam", at: now() };
    let digest = of(&head, "x-amz-content-sha256");
    let request = SignableRequest {
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
fn signs_impersonation_and_drops_client_headers() {
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

/// A change of each signed part changes the signature.
#[test]
fn any_signed_change_changes_signature() {
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
fn rejects_unsignable_header() {
    let value = HeaderValue::from_bytes(b"\xff\xfe").unwrap();
    let request = Request::get("/").header("host", "h").header("impersonate-user", value);
    let (mut head, ()) = request.body(()).unwrap().into_parts();
    let error = sign_request(&mut head, EMPTY, &Sigv4Options::new("r", "eks"), &credentials(), now()).unwrap_err();
    assert!(error.to_string().contains("impersonate-user"), "{error}");
    assert!(!head.headers.contains_key("authorization"));
}

fn signer(env: &[(&str, &str)], clock: Arc<ManualClock>) -> Sigv4Signer {
    let env = FixedEnv::new(env.iter().copied().chain([("HOME", "/nowhere")]));
    let platform = Platform { env: Arc::new(env), clock, ..Platform::system() };
    Sigv4Signer::new(Sigv4Options::new("us-east-1", "eks"), aws::AwsOptions::default(), &platform)
}

#[tokio::test]
async fn signs_with_chain_without_leaks() {
    let watch = LeakCheck::new();
    let (secret, token) = (watch.secret("secret key"), watch.secret("session token"));
    let env = [
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", secret.expose()),
        ("AWS_SESSION_TOKEN", token.expose()),
    ];
    let signer = signer(&env, Arc::new(ManualClock::new(now())));
    assert_eq!(signer.body(&Request::new(()).into_parts().0), BodyDigestRule::Hash { max: MAX_SIGNED_BODY });
    let serial = signer.credential().await.unwrap().generation;
    assert!(serial > 0);
    let (mut head, ()) = Request::get("/api").header("host", "h").body(()).unwrap().into_parts();
    signer.sign(&mut head, EMPTY).await.unwrap();
    assert!(head.headers["x-amz-security-token"].is_sensitive());
    assert!(of(&head, "authorization").contains("x-amz-date;x-amz-security-token"));
    // The chain returns the same keys, so there is no replacement.
    assert!(!signer.on_unauthorized(serial).await.unwrap());
    watch.text(format!("{signer:?} {head:?}"));
}

#[tokio::test]
async fn maps_chain_errors_by_acting_party() {
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
    assert!(matches!(over, SignError::UserActionRequired { .. }), "{over:?}");
}

#[tokio::test]
async fn reloads_changed_key_file() {
    let watch = LeakCheck::new();
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
    clock.advance(STATIC_KEY_RELOAD_INTERVAL + Duration::from_secs(1));
    assert_eq!(by().await, "AKIDTWO");
    let serial = signer.credential().await.unwrap().generation;
    write("AKIDTHREE");
    assert!(signer.on_unauthorized(serial).await.unwrap());
    assert_eq!(by().await, "AKIDTHREE");
}

#[test]
fn warns_once_about_clock_skew() {
    let watch = LeakCheck::new();
    let clock = Arc::new(ManualClock::new(now()));
    let signer = signer(&[("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")], clock);
    let said = |watch: &LeakCheck| watch.lines().iter().filter(|line| line.contains("set the local clock")).count();
    let answer = |date: &str| http::HeaderMap::from_iter([(header::DATE, HeaderValue::from_str(date).unwrap())]);
    signer.on_response(&answer("Sun, 30 Aug 2015 12:38:00 GMT"));
    signer.on_response(&answer("nonsense"));
    assert_eq!(said(&watch), 0);
    for _ in 0..3 {
        signer.on_response(&answer("Sun, 30 Aug 2015 13:36:01 GMT"));
    }
    assert_eq!(said(&watch), 1);
    signer.on_response(&answer("Sun, 30 Aug 2015 12:36:10 GMT"));
    signer.on_response(&answer("Sun, 30 Aug 2015 11:36:10 GMT"));
    assert_eq!(said(&watch), 2);
}
