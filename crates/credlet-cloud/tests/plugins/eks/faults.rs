use std::sync::Arc;
use std::time::Duration;

use credlet_exec::ManualClock;

use crate::support::{FakeEndpoint, FakeReply, NOW, PluginRun, Sandbox, assumed, sts_error};

/// Assumes a role at an STS with this reply.
fn run(answer: impl Fn() -> FakeReply + Send + Sync + 'static) -> PluginRun {
    let mut sandbox = Sandbox::new().keys();
    let sts = FakeEndpoint::start(move |_| answer());
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    sandbox.eks("-i demo -r arn:r")
}

#[test]
fn times_out() {
    let clock = ManualClock::new(NOW.parse().unwrap());
    let mut sandbox = Sandbox::new().keys();
    sandbox.clock = Arc::new(clock.clone());
    let sts = FakeEndpoint::start(move |_| {
        clock.advance(Duration::from_secs(31));
        FakeReply::Silence
    });
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    let run = sandbox.eks("-i demo -r arn:r");
    assert!(run.error().contains("failed to fetch credentials of role arn:r: request to 127.0.0.1:"), "{run:?}");
    assert!(run.stderr.contains("timed out after 30 s\nhint: check that the host can be reached"), "{run:?}");
}

#[test]
fn reports_html_response_without_content() {
    for status in [200, 302, 403, 503] {
        let run = run(move || FakeReply::Status(status, "<html><body>hunter2 log in here</body></html>".into()));
        assert!(run.error().contains("hint: check whether a proxy or a login page"), "{run:?}");
        assert!(!run.stderr.contains("hunter2"));
    }
}

#[test]
fn limits_response_size() {
    assert!(run(|| FakeReply::Flood).error().contains("exceeds 1024 KiB"));
}

#[test]
fn reports_aws_message_without_secrets() {
    let run =
        run(|| sts_error("AccessDenied", "User: arn:aws:iam::1:user/ada is not authorized to perform: sts:AssumeRole"));
    assert!(
        run.error().contains("rejected the request for credentials of role arn:r: AccessDenied (User: arn:aws:iam::1:user/ada is not authorized"),
        "{run:?}"
    );
    assert!(run.stderr.contains("\nhint: the role's trust policy must allow this identity"));

    let mut sandbox = Sandbox::new().keys();
    let secret = sandbox.vars.iter().find(|(name, _)| name == "AWS_SECRET_ACCESS_KEY").unwrap().1.clone();
    let sts = FakeEndpoint::start(move |_| sts_error("Odd", &format!("your secret {secret}\u{1b}[31m is bad")));
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    let run = sandbox.eks("-i demo -r arn:r");
    assert!(run.error().contains("Odd (your secret [redacted]") && !run.stderr.contains('\u{1b}'), "{run:?}");
}

#[test]
fn omits_message_about_signature() {
    let wrong = run(|| sts_error("SignatureDoesNotMatch", "The Canonical String should have been hunter2"));
    assert!(
        wrong.error().contains(": SignatureDoesNotMatch\nhint: the secret access key does not belong"),
        "{wrong:?}"
    );
    let odd = run(|| sts_error("hunter 2", ""));
    assert!(odd.error().contains("rejected the request for credentials of role arn:r: an unknown code\n"), "{odd:?}");
}

#[test]
fn reports_clock_skew() {
    for (date, told) in [
        ("Sun, 15 Nov 2026 18:17:40 GMT", "invalid local clock: 60 min ahead of that of 127.0.0.1:"),
        ("Sun, 15 Nov 2026 20:17:58 GMT", "invalid local clock: 60 min behind that of 127.0.0.1:"),
    ] {
        for status in [200, 403] {
            let run = run(move || FakeReply::WithHeader(status, "Date", date.into(), String::new()));
            assert!(run.error().contains(told) && run.stderr.contains("\nhint: correct the local clock"), "{run:?}");
        }
    }
    let right = run(|| match assumed("AKROLE", "s", "t", "2026-11-15T20:17:49Z") {
        FakeReply::Status(status, body) => {
            FakeReply::WithHeader(status, "Date", "Sun, 15 Nov 2026 19:20:00 GMT".into(), body)
        }
        _ => unreachable!(),
    });
    assert_eq!(right.access_key_id(), "AKROLE");
}

#[test]
fn rejects_incomplete_response() {
    let cut = run(|| FakeReply::Status(200, "<AssumeRoleResponse><Credentials><AccessKeyId>AK</AccessKeyId>".into()));
    assert!(cut.error().contains("it has no credentials"), "{cut:?}");
    let endless = run(|| assumed("AK", "s", "t", "never"));
    assert!(endless.error().contains("it has no valid Expiration"), "{endless:?}");
}

#[test]
fn does_not_follow_redirects() {
    let other = FakeEndpoint::start(|_| FakeReply::Status(200, String::new()));
    let to = other.url.clone();
    let run = run(move || FakeReply::WithHeader(307, "Location", format!("{to}/"), String::new()));
    assert!(run.error().contains("refused to follow a redirect"), "{run:?}");
    assert!(other.seen().is_empty());
}

#[test]
fn names_unreachable_host() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = Sandbox::new().keys().var("AWS_ENDPOINT_URL_STS", format!("http://{nobody}")).eks("-i demo -r arn:r");
    assert!(run.error().contains("failed to fetch credentials of role arn:r: "), "{run:?}");
    assert!(run.stderr.contains(&nobody.to_string()) && run.stderr.contains("onnection refused"), "{run:?}");
}
