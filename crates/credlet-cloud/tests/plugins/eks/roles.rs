use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use credlet_exec::{ManualClock, SystemClock};
use credlet_platform::dirs::CACHE_IN_HOME;

use crate::support::{FakeEndpoint, FakeReply, NOW, Sandbox, assumed, files_in, watched_jwt};

const LATER: &str = "2026-11-15T20:17:49Z";

/// Starts an STS that returns the key `AKROLE1`, then `AKROLE2`, and so on.
fn sts(sandbox: &Sandbox, expires: &'static str) -> FakeEndpoint {
    let (secret, token) = (sandbox.watch.secret("lent secret"), sandbox.watch.secret("lent token"));
    let number = AtomicUsize::new(1);
    FakeEndpoint::start(move |_| {
        let id = format!("AKROLE{}", number.fetch_add(1, Ordering::Relaxed));
        assumed(&id, secret.expose(), token.expose(), expires)
    })
}

#[test]
fn assumes_and_caches_role() {
    let mut sandbox = Sandbox::new().keys().var("AWS_REGION", "eu-west-3");
    let sts = sts(&sandbox, "2026-11-15T19:27:00Z");
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    let line = "token -i demo -r arn:aws:iam::1:role/admin -e ext/1 -s me";
    let first = sandbox.eks(line);
    assert_eq!(first.access_key_id(), "AKROLE1");
    // The credentials expire before the token would.
    assert_eq!(first.expires(), "2026-11-15T19:27:00Z");

    let request = &sts.seen()[0];
    assert_eq!((&*request.method, &*request.path), ("POST", "/"));
    assert_eq!(
        request.body,
        "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fadmin&RoleSessionName=me&ExternalId=ext%2F1"
    );
    assert!(request.header("authorization").starts_with(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261115/eu-west-3/sts/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature="
    ));

    assert_eq!(sandbox.eks(line).access_key_id(), "AKROLE1");
    assert_eq!(sts.seen().len(), 1);
    assert_eq!(sandbox.eks(&format!("{line} --cache=false")).access_key_id(), "AKROLE2");
    let entries = files_in(&sandbox.home.path().join(CACHE_IN_HOME).join("credlet/aws"));
    assert!(
        entries.iter().all(|path| path.metadata().unwrap().permissions().mode() & 0o077 == 0) && !entries.is_empty()
    );
}

#[test]
fn cache_key_covers_role_and_caller() {
    let mut sandbox = Sandbox::new().keys();
    let sts = sts(&sandbox, LATER);
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    assert_eq!(sandbox.eks("-i demo -r a").access_key_id(), "AKROLE1");
    assert_eq!(sandbox.eks("-i demo -r b").access_key_id(), "AKROLE2");
    assert_eq!(sandbox.eks("-i demo -r a -e x").access_key_id(), "AKROLE3");
    assert_eq!(sandbox.eks("-i another -r a").access_key_id(), "AKROLE1");
    sandbox.set("AWS_ACCESS_KEY_ID", "AKSOMEBODYELSE");
    assert_eq!(sandbox.eks("-i demo -r a").access_key_id(), "AKROLE4");
}

#[test]
fn ignores_expiring_and_unsafe_entries() {
    let clock = ManualClock::new(NOW.parse().unwrap());
    let mut sandbox = Sandbox::new().keys();
    sandbox.clock = Arc::new(clock.clone());
    let sts = sts(&sandbox, "2026-11-15T20:17:49Z");
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    assert_eq!(sandbox.eks("-i demo -r a").access_key_id(), "AKROLE1");
    let dir = sandbox.home.path().join(CACHE_IN_HOME).join("credlet/aws");
    let entry = files_in(&dir).into_iter().find(|path| path.extension().is_none()).unwrap();
    std::fs::set_permissions(&entry, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(sandbox.eks("-i demo -r a").access_key_id(), "AKROLE2");
    std::fs::write(&entry, "nonsense").unwrap();
    assert_eq!(sandbox.eks("-i demo -r a").access_key_id(), "AKROLE3");
    clock.advance(Duration::from_secs(55 * 60 + 1));
    assert_eq!(sandbox.eks("-i demo -r a").access_key_id(), "AKROLE4");
}

#[test]
fn concurrent_runs_share_one_request() {
    let mut sandbox = Sandbox::new().keys();
    sandbox.clock = Arc::new(SystemClock::new());
    let sts = sts(&sandbox, "2099-01-01T00:00:00Z");
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(sandbox.eks("-i demo -r a").access_key_id(), "AKROLE1"));
        }
    });
    assert_eq!(sts.seen().len(), 1);
}

#[test]
fn unwritable_cache_is_ignored() {
    let mut sandbox = Sandbox::new().keys();
    let sts = sts(&sandbox, LATER);
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    sandbox.file(CACHE_IN_HOME, "a file where a directory belongs");
    assert_eq!(sandbox.eks("-i demo -r a").access_key_id(), "AKROLE1");
    assert_eq!(sandbox.eks("-i demo -r a").access_key_id(), "AKROLE2");
}

#[test]
fn follows_source_profile_chain() {
    let config = "[profile top]\nrole_arn = top\nsource_profile = middle\nduration_seconds = 900\nregion = eu-west-1
[profile middle]\nrole_arn = middle\nsource_profile = base\nexternal_id = e\nrole_session_name = m
[profile base]\naws_access_key_id = AKBASE\naws_secret_access_key = s
[profile self]\nrole_arn = self\nsource_profile = self\naws_access_key_id = AKSELF\naws_secret_access_key = s";
    let mut sandbox = Sandbox::new().config(config);
    let sts = sts(&sandbox, LATER);
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    assert_eq!(sandbox.eks("-i demo --profile top").access_key_id(), "AKROLE2");
    let seen = sts.seen();
    let request: Vec<_> =
        seen.iter().map(|request| (request.field("RoleArn"), request.field("RoleSessionName"))).collect();
    assert_eq!(request, [("middle", "m"), ("top", "credlet-1794770269")]);
    assert!(seen[0].header("authorization").contains("Credential=AKBASE/20261115/eu-west-1/"));
    assert!(seen[1].header("authorization").contains("Credential=AKROLE1/"));
    assert!(seen[1].header("authorization").contains("x-amz-security-token"));
    assert_eq!(seen[1].field("DurationSeconds"), "900");
    assert_eq!(sandbox.eks("-i demo --profile self").access_key_id(), "AKROLE3");
    assert!(sts.seen()[2].header("authorization").contains("Credential=AKSELF/"));
}

#[test]
fn prompts_for_mfa_code_once() {
    let config = "[profile x]\nrole_arn = arn:r\nmfa_serial = arn:mfa/ada\ncredential_source = Environment\n";
    let mut sandbox = Sandbox::new().keys().config(config).var("AWS_PROFILE", "x");
    // Keys in the environment take precedence over AWS_PROFILE.
    let line = "-i demo --profile x";
    let sts = sts(&sandbox, LATER);
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    let nobody = sandbox.eks(line);
    assert!(
        nobody
            .error()
            .contains("failed to read the MFA code of arn:mfa/ada for role arn:r: not an interactive terminal\nhint: ")
    );
    sandbox.spec.interactive = true;
    *sandbox.mfa_prompt.code.lock().unwrap() = "12x".into();
    assert!(sandbox.eks(line).error().contains("invalid code: must be six digits"));
    assert!(sts.seen().is_empty());
    *sandbox.mfa_prompt.code.lock().unwrap() = "123456".into();
    assert_eq!(sandbox.eks(line).access_key_id(), "AKROLE1");
    assert_eq!((sts.seen()[0].field("SerialNumber"), sts.seen()[0].field("TokenCode")), ("arn%3Amfa%2Fada", "123456"));
    assert_eq!(sandbox.eks(line).access_key_id(), "AKROLE1");
    assert_eq!(*sandbox.mfa_prompt.prompts.lock().unwrap(), ["MFA code of arn:mfa/ada for arn:r: "; 2]);
}

#[test]
fn web_identity_role_follows_its_token() {
    let mut sandbox = Sandbox::new().var("AWS_ROLE_ARN", "arn:r").var("AWS_ROLE_SESSION_NAME", "pod");
    let token = watched_jwt(&sandbox.watch, r#"{"sub":"pod"}"#);
    let path = sandbox.file("token", format!("{}\n", token.expose()));
    sandbox.set("AWS_WEB_IDENTITY_TOKEN_FILE", path.to_str().unwrap());
    let sts = sts(&sandbox, LATER);
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    assert_eq!(sandbox.eks("-i demo").access_key_id(), "AKROLE1");
    let request = &sts.seen()[0];
    assert_eq!((request.field("Action"), request.field("RoleSessionName")), ("AssumeRoleWithWebIdentity", "pod"));
    assert_eq!(request.field("WebIdentityToken"), token.expose());
    assert_eq!(request.header("authorization"), "");
    assert_eq!(sandbox.eks("-i demo").access_key_id(), "AKROLE1");
    sandbox.file("token", watched_jwt(&sandbox.watch, r#"{"sub":"pod"}"#).expose());
    assert_eq!(sandbox.eks("-i demo").access_key_id(), "AKROLE2");
}

#[test]
fn forwards_session_name() {
    let mut sandbox = Sandbox::new().keys();
    let sts = FakeEndpoint::start(|request| match request.field("Action") {
        "GetCallerIdentity" => FakeReply::Status(200, "<A><Arn>arn:aws:sts::1:assumed-role/dev/ada</Arn></A>".into()),
        _ => assumed("AKROLE", "s", "t", LATER),
    });
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    assert_eq!(sandbox.eks("token -i demo -r a --forward-session-name").access_key_id(), "AKROLE");
    assert_eq!(sts.seen()[1].field("RoleSessionName"), "ada");
}
