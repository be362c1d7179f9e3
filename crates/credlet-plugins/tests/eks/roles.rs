use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use credlet_core::{ManualClock, SystemClock};

use crate::support::{NOW, Peer, Stage, assumed, files_in};

const LATER: &str = "2026-11-15T20:17:49Z";

/// An STS that lends the key `AKROLE1`, then `AKROLE2`, and so on.
fn sts(stage: &Stage, expires: &'static str) -> Peer {
    let (secret, token) = (stage.watch.secret("lent secret"), stage.watch.secret("lent token"));
    let number = AtomicUsize::new(1);
    Peer::start(move |_| {
        let id = format!("AKROLE{}", number.fetch_add(1, Ordering::Relaxed));
        assumed(&id, secret.expose(), token.expose(), expires)
    })
}

#[test]
fn a_role_is_assumed_with_a_signed_request_and_kept_for_the_next_run() {
    let mut stage = Stage::new().keys().var("AWS_REGION", "eu-west-3");
    let sts = sts(&stage, "2026-11-15T19:27:00Z");
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    let line = "token -i demo -r arn:aws:iam::1:role/admin -e ext/1 -s me";
    let first = stage.run(line);
    assert_eq!(first.signer(), "AKROLE1");
    // The credentials end before the token would.
    assert_eq!(first.status().expiration_timestamp.unwrap().to_string(), "2026-11-15T19:27:00Z");

    let asked = &sts.seen()[0];
    assert_eq!((&*asked.method, &*asked.path), ("POST", "/"));
    assert_eq!(
        asked.body,
        "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fadmin&RoleSessionName=me&ExternalId=ext%2F1"
    );
    assert!(asked.header("authorization").starts_with(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261115/eu-west-3/sts/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature="
    ));

    assert_eq!(stage.run(line).signer(), "AKROLE1");
    assert_eq!(sts.seen().len(), 1);
    assert_eq!(stage.run(&format!("{line} --cache=false")).signer(), "AKROLE2");
    let entries = files_in(&stage.home.path().join(".cache/credlet/aws"));
    assert!(
        entries.iter().all(|path| path.metadata().unwrap().permissions().mode() & 0o077 == 0) && !entries.is_empty()
    );
}

#[test]
fn what_was_lent_to_one_is_not_given_to_another() {
    let mut stage = Stage::new().keys();
    let sts = sts(&stage, LATER);
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    assert_eq!(stage.run("-i demo -r a").signer(), "AKROLE1");
    assert_eq!(stage.run("-i demo -r b").signer(), "AKROLE2");
    assert_eq!(stage.run("-i demo -r a -e x").signer(), "AKROLE3");
    assert_eq!(stage.run("-i another -r a").signer(), "AKROLE1");
    stage.set("AWS_ACCESS_KEY_ID", "AKSOMEBODYELSE");
    assert_eq!(stage.run("-i demo -r a").signer(), "AKROLE4");
}

#[test]
fn credentials_near_their_end_and_files_that_others_can_read_are_not_used_again() {
    let clock = ManualClock::new(NOW.parse().unwrap());
    let mut stage = Stage::new().keys();
    stage.clock = Arc::new(clock.clone());
    let sts = sts(&stage, "2026-11-15T20:17:49Z");
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    assert_eq!(stage.run("-i demo -r a").signer(), "AKROLE1");
    let dir = stage.home.path().join(".cache/credlet/aws");
    let entry = files_in(&dir).into_iter().find(|path| path.extension().is_none()).unwrap();
    std::fs::set_permissions(&entry, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(stage.run("-i demo -r a").signer(), "AKROLE2");
    std::fs::write(&entry, "nonsense").unwrap();
    assert_eq!(stage.run("-i demo -r a").signer(), "AKROLE3");
    clock.advance(Duration::from_secs(55 * 60 + 1));
    assert_eq!(stage.run("-i demo -r a").signer(), "AKROLE4");
}

#[test]
fn eight_at_once_ask_once() {
    let mut stage = Stage::new().keys();
    stage.clock = Arc::new(SystemClock::new());
    let sts = sts(&stage, "2099-01-01T00:00:00Z");
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(stage.run("-i demo -r a").signer(), "AKROLE1"));
        }
    });
    assert_eq!(sts.seen().len(), 1);
}

#[test]
fn a_place_that_cannot_be_written_is_no_worse_than_keeping_nothing() {
    let mut stage = Stage::new().keys();
    let sts = sts(&stage, LATER);
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    stage.file(".cache", "a file where a directory belongs");
    assert_eq!(stage.run("-i demo -r a").signer(), "AKROLE1");
    assert_eq!(stage.run("-i demo -r a").signer(), "AKROLE2");
}

#[test]
fn roles_are_assumed_one_after_the_other_along_the_profiles() {
    let config = "[profile top]\nrole_arn = top\nsource_profile = middle\nduration_seconds = 900\nregion = eu-west-1
[profile middle]\nrole_arn = middle\nsource_profile = base\nexternal_id = e\nrole_session_name = m
[profile base]\naws_access_key_id = AKBASE\naws_secret_access_key = s
[profile self]\nrole_arn = self\nsource_profile = self\naws_access_key_id = AKSELF\naws_secret_access_key = s";
    let mut stage = Stage::new().config(config);
    let sts = sts(&stage, LATER);
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    assert_eq!(stage.run("-i demo --profile top").signer(), "AKROLE2");
    let seen = sts.seen();
    let asked: Vec<_> = seen.iter().map(|asked| (asked.field("RoleArn"), asked.field("RoleSessionName"))).collect();
    assert_eq!(asked, [("middle", "m"), ("top", "credlet-1794770269")]);
    assert!(seen[0].header("authorization").contains("Credential=AKBASE/20261115/eu-west-1/"));
    assert!(seen[1].header("authorization").contains("Credential=AKROLE1/"));
    assert!(seen[1].header("authorization").contains("x-amz-security-token"));
    assert_eq!(seen[1].field("DurationSeconds"), "900");
    assert_eq!(stage.run("-i demo --profile self").signer(), "AKROLE3");
    assert!(sts.seen()[2].header("authorization").contains("Credential=AKSELF/"));
}

#[test]
fn a_code_is_asked_for_once_and_only_of_somebody_who_is_there() {
    let config = "[profile x]\nrole_arn = arn:r\nmfa_serial = arn:mfa/ada\ncredential_source = Environment\n";
    let mut stage = Stage::new().keys().config(config).var("AWS_PROFILE", "x");
    // Keys in the environment would go before the profile that AWS_PROFILE names.
    let line = "-i demo --profile x";
    let sts = sts(&stage, LATER);
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    let nobody = stage.run(line);
    assert!(nobody.refusal().contains("the role arn:r needs an MFA code of arn:mfa/ada, and nobody can be asked for it: this is not run from a terminal\nhint: "));
    stage.asked.interactive = true;
    *stage.person.types.lock().unwrap() = "12x".into();
    assert!(stage.run(line).refusal().contains("what was typed is no code of six digits"));
    assert!(sts.seen().is_empty());
    *stage.person.types.lock().unwrap() = "123456".into();
    assert_eq!(stage.run(line).signer(), "AKROLE1");
    assert_eq!((sts.seen()[0].field("SerialNumber"), sts.seen()[0].field("TokenCode")), ("arn%3Amfa%2Fada", "123456"));
    assert_eq!(stage.run(line).signer(), "AKROLE1");
    assert_eq!(*stage.person.questions.lock().unwrap(), ["MFA code of arn:mfa/ada for arn:r: "; 2]);
}

#[test]
fn a_web_identity_needs_no_signature_and_is_renewed_with_its_token() {
    let mut stage = Stage::new().var("AWS_ROLE_ARN", "arn:r").var("AWS_ROLE_SESSION_NAME", "pod");
    let token = stage.watch.secret("web identity");
    let path = stage.file("token", &format!("{}\n", token.expose()));
    stage.set("AWS_WEB_IDENTITY_TOKEN_FILE", path.to_str().unwrap());
    let sts = sts(&stage, LATER);
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    assert_eq!(stage.run("-i demo").signer(), "AKROLE1");
    let asked = &sts.seen()[0];
    assert_eq!((asked.field("Action"), asked.field("RoleSessionName")), ("AssumeRoleWithWebIdentity", "pod"));
    assert_eq!(asked.field("WebIdentityToken"), token.expose().replace('+', "%2B"));
    assert_eq!(asked.header("authorization"), "");
    assert_eq!(stage.run("-i demo").signer(), "AKROLE1");
    stage.file("token", "another");
    assert_eq!(stage.run("-i demo").signer(), "AKROLE2");
}

#[test]
fn a_session_name_is_forwarded() {
    let mut stage = Stage::new().keys();
    let sts = Peer::start(|asked| match asked.field("Action") {
        "GetCallerIdentity" => {
            crate::support::Reply::Answer(200, "<A><Arn>arn:aws:sts::1:assumed-role/dev/ada</Arn></A>".into())
        }
        _ => assumed("AKROLE", "s", "t", LATER),
    });
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    assert_eq!(stage.run("token -i demo -r a --forward-session-name").signer(), "AKROLE");
    assert_eq!(sts.seen()[1].field("RoleSessionName"), "ada");
}
