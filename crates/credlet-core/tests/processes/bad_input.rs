//! Each kind of bad plugin, and that its error names it, helps, and leaks nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use credlet_api::exec::{AnswerError, ApiVersion, Cluster, ExecConfig};
use credlet_core::{Ended, Error, ExecOptions, KeyPairError, LookupError, Nonsense, RunError};
use credlet_testkit::ca::{Ca, KeyType};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::{Plugin, Stream};

use crate::{config, exec_plugin, fetch, flight, options, run};

/// The error of one run, noted by the watch.
async fn error_of(watch: &Watch, plugin: &Plugin) -> Error {
    let error = run(plugin).await.expect_err("no credential");
    watch.error(&error);
    watch.text(error.stderr());
    error.hints().iter().for_each(|hint| watch.text(hint));
    error
}

async fn nonsense_of(watch: &Watch, stdout: impl Into<String>) -> Nonsense {
    match error_of(watch, &Plugin::new().prints(stdout)).await {
        Error::Nonsense { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_missing_program_is_named() {
    for command in ["no-such-plugin-anywhere", "/no/such/plugin", "./no-such-plugin"] {
        let plugin = exec_plugin(ExecConfig::new(command, ApiVersion::V1), None, ExecOptions::default());
        let error = fetch(&plugin).await.unwrap_err();
        assert!(matches!(&error, Error::NotInstalled { reason, .. } if reason.is_missing()), "{error}");
        assert!(error.to_string().contains(command.trim_start_matches("./")), "{error}");
        assert!(!error.hints().is_empty());
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_run_is_said_to_be_there() {
    let dir = tempfile::tempdir().unwrap();
    let run_file = async |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let config = ExecConfig::new(path.to_str().unwrap(), ApiVersion::V1);
        fetch(&exec_plugin(config, None, ExecOptions::default())).await.unwrap_err()
    };
    let error = run_file("data", "#!/bin/sh\n", 0o644).await;
    assert!(matches!(&error, Error::NotInstalled { reason: LookupError::NotExecutable { .. }, .. }), "{error}");
    assert!(error.hints()[0].contains("chmod +x"));

    let error = run_file("no-shebang", "hello\n", 0o755).await;
    assert!(matches!(&error, Error::NotStarted { reason: RunError::Start { .. }, .. }), "{error}");

    let error = run_file("no-interpreter", "#!/no/such/interpreter\n", 0o755).await;
    assert!(matches!(&error, Error::NotStarted { .. }), "{error}");
    assert!(error.hints()[0].contains("interpreter"), "{error:?}");

    let config = ExecConfig::new(dir.path().to_str().unwrap(), ApiVersion::V1);
    let error = fetch(&exec_plugin(config, None, ExecOptions::default())).await.unwrap_err();
    assert!(matches!(&error, Error::NotInstalled { reason: LookupError::Directory { .. }, .. }), "{error}");
}

#[tokio::test]
async fn a_plugin_that_fails_is_quoted_without_its_secrets() {
    let watch = Watch::new();
    let (token, password) = (watch.secret("token"), watch.secret("password"));
    let stderr = format!(
        "DEBUG sending Authorization: Bearer {}\n\u{1b}[31merror: login for {} expired\n",
        token.expose(),
        password.expose()
    );
    // It prints its token, writes it to standard error as well, and then fails.
    let plugin = Plugin::answering(token.expose()).prints_to(Stream::Stderr, stderr).exits(10);
    let config = config(&plugin).env("PASSWORD", password.expose());
    let error = fetch(&exec_plugin(config, None, ExecOptions::default())).await.unwrap_err();
    watch.error(&error);
    watch.text(error.stderr());
    let Error::Failed { ended: Ended::Exited(10), message, .. } = &error else { panic!("{error:?}") };
    assert_eq!(message, "U+001B[31merror: login for [redacted] expired");
    assert!(error.to_string().ends_with("exited with code 10: U+001B[31merror: login for [redacted] expired"));
    assert!(error.stderr().contains("Bearer [redacted]"), "{}", error.stderr());
}

#[tokio::test]
async fn a_plugin_may_say_why_it_failed_in_a_status_object() {
    let watch = Watch::new();
    let status =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"log in with acme-authenticator first"}"#;
    let error = error_of(&watch, &Plugin::new().prints(status).prints_to(Stream::Stderr, "trace\n").exits(1)).await;
    assert!(error.to_string().ends_with("exited with code 1: log in with acme-authenticator first"), "{error}");
}

#[tokio::test]
async fn a_plugin_that_is_killed_is_said_to_be() {
    let watch = Watch::new();
    let error = error_of(&watch, &Plugin::new().dies_by(9)).await;
    assert!(error.to_string().ends_with("was ended by SIGKILL"), "{error}");
    let Error::Failed { ended, .. } = error else { panic!("{error:?}") };
    assert_eq!((ended, ended.code()), (Ended::Killed(9), -1));
}

#[tokio::test]
async fn each_kind_of_nonsense_is_told_apart() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let token = token.expose();
    let meta = r#""kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
    let answer = |reason: AnswerError| Nonsense::Answer(reason);

    assert_eq!(nonsense_of(&watch, "").await, answer(AnswerError::Empty));
    assert!(matches!(
        nonsense_of(&watch, format!("your token is {token}\n- ok")).await,
        Nonsense::Answer(AnswerError::Unreadable(_))
    ));
    assert!(matches!(
        nonsense_of(&watch, format!(r#"{{{meta},"status":{{"token":"{token}"#)).await,
        Nonsense::Answer(AnswerError::Unreadable(_))
    ));
    assert!(matches!(
        nonsense_of(&watch, format!(r#"{{{meta},"status":{{"token":"{token}"}}}} {token}"#)).await,
        Nonsense::Answer(AnswerError::Unreadable(_))
    ));
    assert!(matches!(
        nonsense_of(&watch, format!(r#"{{{meta},"status":{{"token":"{token}\n"}}}}"#)).await,
        Nonsense::Answer(AnswerError::ControlCharacterInToken { .. })
    ));
    assert_eq!(
        nonsense_of(&watch, format!(r#"{{{meta},"status":{{"token":"{token}","clientCertificateData":"x"}}}}"#)).await,
        answer(AnswerError::OnlyCertificate)
    );
    // A raw line break inside the token, as `printf` makes it.
    assert!(matches!(
        nonsense_of(&watch, format!("{{{meta},\"status\":{{\"token\":\"{token}\n\"}}}}")).await,
        Nonsense::Answer(AnswerError::Unreadable(_))
    ));
}

#[tokio::test]
async fn another_version_comes_with_the_line_to_change() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let plugin = Plugin::answering(token.expose()).api_version("client.authentication.k8s.io/v1beta1");
    let error = error_of(&watch, &plugin).await;
    assert!(error.to_string().contains("asked for client.authentication.k8s.io/v1 and answered in"), "{error}");
    assert!(error.hints()[0].contains("apiVersion: client.authentication.k8s.io/v1beta1"), "{:?}", error.hints());
}

#[tokio::test]
async fn a_yaml_bomb_is_refused() {
    let watch = Watch::new();
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", format!("*a{},", level - 1).repeat(10)));
    }
    let Nonsense::Answer(AnswerError::Unreadable(fault)) = nonsense_of(&watch, bomb).await else { panic!() };
    assert_eq!(fault, credlet_api::Fault::TooComplex);
}

#[tokio::test]
async fn a_pair_must_be_a_pair() {
    let ca = Ca::new();
    for key_type in [KeyType::P256, KeyType::P384, KeyType::Ed25519, KeyType::Rsa2048] {
        let watch = Watch::new();
        let (ada, grace) = (ca.client("ada").key_type(key_type).issue(), ca.client("grace").key_type(key_type).issue());
        watch.adopt("key", ada.key_pem());
        watch.adopt("other key", grace.key_pem());
        let plugin = Plugin::new().answers_with_certificate(ada.cert_pem(), ada.key_pem());
        let fetched = run(&plugin).await.unwrap();
        watch.text(format!("{fetched:?}"));
        let certificate = fetched.value.certificate.unwrap();
        assert!(certificate.leaf.not_before < certificate.leaf.not_after);
        // The intermediates come along; the certificate must come first.
        let chain = format!("{}{}", ada.cert_pem(), ca.pem());
        let plugin = Plugin::new().answers_with_certificate(chain, ada.key_pem());
        assert!(run(&plugin).await.is_ok());

        let pair =
            async |cert: &str, key: &str| match error_of(&watch, &Plugin::new().answers_with_certificate(cert, key))
                .await
            {
                Error::Nonsense { reason: Nonsense::KeyPair(reason), .. } => reason,
                other => panic!("{other:?}"),
            };
        assert_eq!(pair(ada.cert_pem(), grace.key_pem()).await, KeyPairError::Mismatch, "{key_type:?}");
        assert_eq!(pair(ca.pem(), ada.key_pem()).await, KeyPairError::Mismatch, "{key_type:?}");
        assert_eq!(pair("bar", ada.key_pem()).await, KeyPairError::NoCertificate);
        assert_eq!(pair(ada.cert_pem(), "foo").await, KeyPairError::NoKey);
        assert_eq!(pair(ada.key_pem(), ada.cert_pem()).await, KeyPairError::NoCertificate);
        let cut = format!("{}\n-----END CERTIFICATE-----\n", &ada.cert_pem()[..200]);
        assert!(matches!(pair(&cut, ada.key_pem()).await, KeyPairError::BadCertificate | KeyPairError::NoCertificate));
    }
}

#[tokio::test]
async fn a_certificate_authority_too_large_for_the_environment_is_measured() {
    let plugin = Plugin::answering("token");
    let cluster = Cluster { certificate_authority_data: vec![b'x'; 150_000], ..Cluster::default() };
    let config = config(&plugin).provide_cluster_info(true);
    let error = fetch(&exec_plugin(config, Some(cluster), ExecOptions::default())).await.unwrap_err();
    assert!(error.to_string().contains("KUBERNETES_EXEC_INFO has 200"), "{error}");
    assert!(error.to_string().contains("131072"), "{error}");
    assert!(error.hints()[0].contains("200000 bytes of it are certificate-authority-data"), "{:?}", error.hints());
    assert_eq!(plugin.runs(), 0);
}

#[tokio::test]
async fn arguments_that_are_too_much_together_are_measured() {
    let plugin = Plugin::answering("token");
    let config = config(&plugin).args((0..200).map(|_| "x".repeat(100_000)));
    let error = fetch(&exec_plugin(config, None, ExecOptions::default())).await.unwrap_err();
    assert!(matches!(&error, Error::NotStarted { reason: RunError::TooMuch { bytes }, .. } if *bytes > 20_000_000));
}

#[tokio::test]
async fn a_misconfigured_plugin_is_refused_before_anything_runs() {
    let config = ExecConfig::new("", ApiVersion::V1).env("", "x").env("A", "hunter2\0");
    let built = credlet_core::ExecPlugin::new(config, None, ExecOptions::default(), crate::world());
    let error = built.map(drop).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    assert_eq!(
        error.to_string(),
        "the exec section of the kubeconfig user is wrong: `command` is empty; `env[0].name` is empty; \
         `env[1]` contains a NUL character"
    );
}

#[tokio::test]
async fn a_bad_answer_changes_nothing_about_the_credential_we_have() {
    let watch = Watch::new();
    let (token, other) = (watch.secret("token"), watch.secret("other token"));
    let ca = Ca::new();
    let (ada, grace) = (ca.client("ada").issue(), ca.client("grace").issue());
    // The second answer expires later, but its pair is none: with client-go the first one would now live until 2040.
    let plugin = Plugin::answering(token.expose())
        .expiring_in(Duration::from_secs(3600))
        .on_the_next_run()
        .answers(other.expose())
        .certificate(ada.cert_pem(), grace.key_pem())
        .expiring_at("2040-01-01T00:00:00Z");
    let flight = flight(&plugin);
    let before = flight.get().await.unwrap();
    let error = flight.replace(&before, Default::default()).await.unwrap_err();
    watch.error(&*error);
    let after = flight.get().await.unwrap();
    assert_eq!(after.value().token, Some(token));
    assert_eq!(after.expires(), before.expires());
}

#[tokio::test]
async fn a_limit_of_nothing_is_kept_too() {
    let plugin = Plugin::answering("token").hangs();
    let error = fetch(&exec_plugin(config(&plugin), None, options(Duration::ZERO))).await.unwrap_err();
    assert_eq!(error.time_limit(), Some(Duration::ZERO));
}
