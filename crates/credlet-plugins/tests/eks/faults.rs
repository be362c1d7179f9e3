use std::sync::Arc;
use std::time::Duration;

use credlet_core::ManualClock;

use crate::support::{NOW, Peer, Reply, Run, Stage, assumed, refused};

/// Assumes a role at an STS that answers so.
fn run(answer: impl Fn() -> Reply + Send + Sync + 'static) -> Run {
    let mut stage = Stage::new().keys();
    let sts = Peer::start(move |_| answer());
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    stage.run("-i demo -r arn:r")
}

#[test]
fn an_answer_that_never_comes_is_given_up() {
    let clock = ManualClock::new(NOW.parse().unwrap());
    let mut stage = Stage::new().keys();
    stage.clock = Arc::new(clock.clone());
    let sts = Peer::start(move |_| {
        clock.advance(Duration::from_secs(31));
        Reply::Silence
    });
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    let run = stage.run("-i demo -r arn:r");
    assert!(run.refusal().contains("the role arn:r cannot be had: 127.0.0.1:"), "{run:?}");
    assert!(run.stderr.contains("did not answer within 30 s\nhint: see whether it can be reached"), "{run:?}");
}

#[test]
fn a_web_page_in_an_answers_place_is_told_without_its_content() {
    for status in [200, 302, 403, 503] {
        let run = run(move || Reply::Answer(status, "<html><body>hunter2 log in here</body></html>".into()));
        assert!(
            run.refusal().contains("hint: a proxy or a login page of the network may have answered in its place"),
            "{run:?}"
        );
        assert!(!run.stderr.contains("hunter2"));
    }
}

#[test]
fn an_answer_without_end_is_not_read() {
    assert!(run(|| Reply::Flood).refusal().contains("is larger than 1024 KiB"));
}

#[test]
fn a_refusal_is_told_in_awss_words_but_without_secrets() {
    let run =
        run(|| refused("AccessDenied", "User: arn:aws:iam::1:user/ada is not authorized to perform: sts:AssumeRole"));
    assert!(
        run.refusal().contains("refused the role arn:r: AccessDenied (User: arn:aws:iam::1:user/ada is not authorized"),
        "{run:?}"
    );
    assert!(run.stderr.contains("\nhint: the role's trust policy must allow this identity"));

    let mut stage = Stage::new().keys();
    let secret = stage.vars.iter().find(|(name, _)| name == "AWS_SECRET_ACCESS_KEY").unwrap().1.clone();
    let sts = Peer::start(move |_| refused("Odd", &format!("your secret {secret}\u{1b}[31m is bad")));
    stage.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    let run = stage.run("-i demo -r arn:r");
    assert!(run.refusal().contains("Odd (your secret [redacted]") && !run.stderr.contains('\u{1b}'), "{run:?}");
}

#[test]
fn what_sts_says_of_a_wrong_signature_is_left_out_because_it_repeats_the_request() {
    let wrong = run(|| refused("SignatureDoesNotMatch", "The Canonical String should have been hunter2"));
    assert!(
        wrong.refusal().contains(": SignatureDoesNotMatch\nhint: the secret access key does not belong"),
        "{wrong:?}"
    );
    let odd = run(|| refused("hunter 2", ""));
    assert!(odd.refusal().contains("refused the role arn:r: an unknown code\n"), "{odd:?}");
}

#[test]
fn a_clock_that_is_off_by_an_hour_is_noticed() {
    for (date, told) in [
        ("Sun, 15 Nov 2026 18:17:40 GMT", "this machine's clock is 60 min ahead of that of 127.0.0.1:"),
        ("Sun, 15 Nov 2026 20:17:58 GMT", "this machine's clock is 60 min behind that of 127.0.0.1:"),
    ] {
        for status in [200, 403] {
            let run = run(move || Reply::With(status, "Date", date.into(), String::new()));
            assert!(
                run.refusal().contains(told) && run.stderr.contains("\nhint: set this machine's clock right"),
                "{run:?}"
            );
        }
    }
    let right = run(|| match assumed("AKROLE", "s", "t", "2026-11-15T20:17:49Z") {
        Reply::Answer(status, body) => Reply::With(status, "Date", "Sun, 15 Nov 2026 19:20:00 GMT".into(), body),
        _ => unreachable!(),
    });
    assert_eq!(right.signer(), "AKROLE");
}

#[test]
fn an_answer_that_lacks_something_is_not_used() {
    let cut = run(|| Reply::Answer(200, "<AssumeRoleResponse><Credentials><AccessKeyId>AK</AccessKeyId>".into()));
    assert!(cut.refusal().contains("that has no credentials in it"), "{cut:?}");
    let endless = run(|| assumed("AK", "s", "t", "never"));
    assert!(endless.refusal().contains("that does not say when the credentials end"), "{endless:?}");
}

#[test]
fn credentials_are_sent_nowhere_else() {
    let other = Peer::start(|_| Reply::Answer(200, String::new()));
    let to = other.url.clone();
    let run = run(move || Reply::With(307, "Location", format!("{to}/"), String::new()));
    assert!(run.refusal().contains("sends us to another place, where no credential of ours may go"), "{run:?}");
    assert!(other.seen().is_empty());
}

#[test]
fn who_cannot_be_reached_is_named() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = Stage::new().keys().var("AWS_ENDPOINT_URL_STS", format!("http://{nobody}")).run("-i demo -r arn:r");
    assert!(
        run.refusal()
            .contains(&format!("the role arn:r cannot be had: {nobody} cannot be reached: Connection refused")),
        "{run:?}"
    );
}
