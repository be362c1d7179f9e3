//! Invalid plugins and outputs: errors name the plugin, have hints and leak no secrets.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use credlet_api::exec::{ApiVersion, Cluster, ExecConfig, InvalidCredential};
use credlet_exec::{Error, ExecOptions, InvalidOutput, KeyPairError, LookupError, ProcessExit, RunError};
use credlet_testkit::ca::{KeyType, TestCa};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::{OutputStream, TestPlugin};

use crate::{cache, config, exec_plugin, fetch, options, run};

/// Runs the plugin and returns its error, after a leak check.
async fn error_of(watch: &LeakCheck, plugin: &TestPlugin) -> Error {
    let error = run(plugin).await.expect_err("no credential");
    watch.error(&error);
    watch.text(error.stderr());
    error.hints().iter().for_each(|hint| watch.text(hint));
    error
}

async fn invalid_output_of(watch: &LeakCheck, stdout: impl Into<String>) -> InvalidOutput {
    match error_of(watch, &TestPlugin::new().prints(stdout)).await {
        Error::InvalidOutput { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn missing_program_is_named() {
    for command in ["no-such-plugin-anywhere", "/no/such/plugin", "./no-such-plugin"] {
        let plugin = exec_plugin(ExecConfig::new(command, ApiVersion::V1), None, ExecOptions::default());
        let error = fetch(&plugin).await.unwrap_err();
        assert!(matches!(&error, Error::NotInstalled { reason, .. } if reason.is_missing()), "{error}");
        assert!(error.to_string().contains(command.trim_start_matches("./")), "{error}");
        assert!(!error.hints().is_empty());
    }
}

#[tokio::test]
async fn unusable_file_is_reported_as_such() {
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
    assert!(matches!(&error, Error::NotStarted { reason: RunError::Spawn { .. }, .. }), "{error}");

    let error = run_file("no-interpreter", "#!/no/such/interpreter\n", 0o755).await;
    assert!(matches!(&error, Error::NotStarted { .. }), "{error}");
    assert!(error.hints()[0].contains("interpreter"), "{error:?}");

    let config = ExecConfig::new(dir.path().to_str().unwrap(), ApiVersion::V1);
    let error = fetch(&exec_plugin(config, None, ExecOptions::default())).await.unwrap_err();
    assert!(matches!(&error, Error::NotInstalled { reason: LookupError::Directory { .. }, .. }), "{error}");
}

#[tokio::test]
async fn failure_message_has_no_secrets() {
    let watch = LeakCheck::new();
    let (token, password) = (watch.secret("token"), watch.secret("password"));
    let stderr = format!(
        "DEBUG sending Authorization: Bearer {}\n\u{1b}[31merror: login for {} expired\n",
        token.expose(),
        password.expose()
    );
    // It prints its token, writes it to standard error as well, and then fails.
    let plugin = TestPlugin::answering(token.expose()).prints_to(OutputStream::Stderr, stderr).exits(10);
    let config = config(&plugin).env("PASSWORD", password.expose());
    let error = fetch(&exec_plugin(config, None, ExecOptions::default())).await.unwrap_err();
    watch.error(&error);
    watch.text(error.stderr());
    let Error::Failed { exit: ProcessExit::Exited(10), message, .. } = &error else { panic!("{error:?}") };
    assert_eq!(message, "login for [redacted] expired");
    assert!(error.to_string().ends_with("exited with code 10: login for [redacted] expired"));
    assert!(error.stderr().contains("Bearer [redacted]"), "{}", error.stderr());
}

#[tokio::test]
async fn redacts_credentials_in_stderr() {
    let watch = LeakCheck::new();
    for shape in [
        "token=SECRET",
        "password=SECRET",
        "VAULT_TOKEN=SECRET",
        "\"token\" is missing {\"token\":\"SECRET\"}",
        "POST https://ada:SECRET@host/ failed",
        "GET /cb?code=SECRET&state=x",
        "\u{1b}[36mtoken\u{1b}[0m=SECRET",
        "loaded pkcs11:token=a?pin-value=SECRET",
        "AKIAIOSFODNN7EXAMPLE aws_secret_access_key = SECRET",
        "token=eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.SECRET",
    ] {
        let secret = watch.secret("in its stderr");
        let plugin = TestPlugin::failing(1, shape.replace("SECRET", secret.expose()));
        let error = error_of(&watch, &plugin).await;
        watch.error(&error);
        watch.text(error.stderr());
        assert!(error.to_string().contains("[redacted]"), "{error}");
    }
}

#[tokio::test]
async fn uses_message_of_a_status_object() {
    let watch = LeakCheck::new();
    let status =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"log in with acme-authenticator first"}"#;
    let error =
        error_of(&watch, &TestPlugin::new().prints(status).prints_to(OutputStream::Stderr, "trace\n").exits(1)).await;
    assert!(error.to_string().ends_with("exited with code 1: log in with acme-authenticator first"), "{error}");
}

#[tokio::test]
async fn reports_the_killing_signal() {
    let watch = LeakCheck::new();
    let error = error_of(&watch, &TestPlugin::new().dies_by(9)).await;
    assert!(error.to_string().ends_with("was killed by SIGKILL"), "{error}");
    let Error::Failed { exit, .. } = error else { panic!("{error:?}") };
    assert_eq!((exit, exit.code()), (ProcessExit::Killed(9), -1));
}

#[tokio::test]
async fn distinguishes_invalid_outputs() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let token = token.expose();
    let meta = r#""kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
    let answer = |reason: InvalidCredential| InvalidOutput::Credential(reason);

    assert_eq!(invalid_output_of(&watch, "").await, answer(InvalidCredential::Empty));
    assert!(matches!(
        invalid_output_of(&watch, format!("your token is {token}\n- ok")).await,
        InvalidOutput::Credential(InvalidCredential::InvalidDocument(_))
    ));
    assert!(matches!(
        invalid_output_of(&watch, format!(r#"{{{meta},"status":{{"token":"{token}"#)).await,
        InvalidOutput::Credential(InvalidCredential::InvalidDocument(_))
    ));
    assert!(matches!(
        invalid_output_of(&watch, format!(r#"{{{meta},"status":{{"token":"{token}"}}}} {token}"#)).await,
        InvalidOutput::Credential(InvalidCredential::InvalidDocument(_))
    ));
    assert!(matches!(
        invalid_output_of(&watch, format!(r#"{{{meta},"status":{{"token":"{token}\n"}}}}"#)).await,
        InvalidOutput::Credential(InvalidCredential::ControlCharacterInToken { .. })
    ));
    assert_eq!(
        invalid_output_of(&watch, format!(r#"{{{meta},"status":{{"token":"{token}","clientCertificateData":"x"}}}}"#))
            .await,
        answer(InvalidCredential::MissingClientKey)
    );
    // A raw line break in the token, as from `printf`.
    assert!(matches!(
        invalid_output_of(&watch, format!("{{{meta},\"status\":{{\"token\":\"{token}\n\"}}}}")).await,
        InvalidOutput::Credential(InvalidCredential::InvalidDocument(_))
    ));
}

#[tokio::test]
async fn version_mismatch_has_a_hint() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let plugin = TestPlugin::answering(token.expose()).api_version("client.authentication.k8s.io/v1beta1");
    let error = error_of(&watch, &plugin).await;
    assert!(error.to_string().contains("unexpected apiVersion client.authentication.k8s.io/v1beta1"), "{error}");
    assert!(error.hints()[0].contains("apiVersion: client.authentication.k8s.io/v1beta1"), "{:?}", error.hints());
}

#[tokio::test]
async fn rejects_yaml_bomb() {
    let watch = LeakCheck::new();
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", format!("*a{},", level - 1).repeat(10)));
    }
    let InvalidOutput::Credential(InvalidCredential::InvalidDocument(fault)) = invalid_output_of(&watch, bomb).await
    else {
        panic!()
    };
    assert_eq!(fault, credlet_api::DocumentError::TooComplex);
}

#[tokio::test]
async fn rejects_mismatched_key_pair() {
    let ca = TestCa::new();
    for key_type in [KeyType::P256, KeyType::P384, KeyType::Ed25519, KeyType::Rsa2048] {
        let watch = LeakCheck::new();
        let (ada, grace) = (ca.client("ada").key_type(key_type).issue(), ca.client("grace").key_type(key_type).issue());
        watch.adopt("key", ada.key_pem());
        watch.adopt("other key", grace.key_pem());
        let plugin = TestPlugin::new().answers_with_certificate(ada.cert_pem(), ada.key_pem());
        let fetched = run(&plugin).await.unwrap();
        watch.text(format!("{fetched:?}"));
        let certificate = fetched.value.certificate.unwrap();
        assert!(certificate.validity.not_before < certificate.validity.not_after);
        // Intermediates follow the certificate.
        let chain = format!("{}{}", ada.cert_pem(), ca.pem());
        let plugin = TestPlugin::new().answers_with_certificate(chain, ada.key_pem());
        assert!(run(&plugin).await.is_ok());

        let pair = async |cert: &str, key: &str| match error_of(
            &watch,
            &TestPlugin::new().answers_with_certificate(cert, key),
        )
        .await
        {
            Error::InvalidOutput { reason: InvalidOutput::KeyPair(reason), .. } => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(pair(ada.cert_pem(), grace.key_pem()).await, KeyPairError::Mismatch, "{key_type:?}");
        assert_eq!(pair(ca.pem(), ada.key_pem()).await, KeyPairError::Mismatch, "{key_type:?}");
        assert_eq!(pair("bar", ada.key_pem()).await, KeyPairError::MissingCertificate);
        assert_eq!(pair(ada.cert_pem(), "foo").await, KeyPairError::MissingKey);
        assert_eq!(pair(ada.key_pem(), ada.cert_pem()).await, KeyPairError::MissingCertificate);
        let cut = format!("{}\n-----END CERTIFICATE-----\n", &ada.cert_pem()[..200]);
        assert!(matches!(
            pair(&cut, ada.key_pem()).await,
            KeyPairError::InvalidCertificate | KeyPairError::MissingCertificate
        ));
    }
}

#[tokio::test]
async fn reports_size_of_a_large_ca_bundle() {
    let plugin = TestPlugin::answering("token");
    let cluster = Cluster { certificate_authority_data: vec![b'x'; 150_000], ..Cluster::default() };
    let config = config(&plugin).provide_cluster_info(true);
    let error = fetch(&exec_plugin(config, Some(cluster), ExecOptions::default())).await.unwrap_err();
    assert!(error.to_string().contains("KUBERNETES_EXEC_INFO is too long: 200"), "{error}");
    assert!(error.to_string().contains("131072"), "{error}");
    assert!(error.hints()[0].contains("200000 bytes of it are certificate-authority-data"), "{:?}", error.hints());
    assert_eq!(plugin.runs(), 0);
}

#[tokio::test]
async fn reports_size_of_all_arguments() {
    let plugin = TestPlugin::answering("token");
    let config = config(&plugin).args((0..200).map(|_| "x".repeat(100_000)));
    let error = fetch(&exec_plugin(config, None, ExecOptions::default())).await.unwrap_err();
    assert!(
        matches!(&error, Error::NotStarted { reason: RunError::ArgumentsTooLarge { bytes }, .. } if *bytes > 20_000_000)
    );
}

#[tokio::test]
async fn invalid_config_is_rejected_without_a_run() {
    let config = ExecConfig::new("", ApiVersion::V1).env("", "x").env("A", "hunter2\0");
    let built = credlet_exec::ExecPlugin::new(config, None, ExecOptions::default(), crate::platform());
    let error = built.map(drop).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    assert_eq!(
        error.to_string(),
        "invalid exec section of the kubeconfig user: `command` is empty; `env[0].name` is empty; \
         invalid `env[1]`: contains a NUL character"
    );
}

#[tokio::test]
async fn invalid_output_keeps_the_cached_credential() {
    let watch = LeakCheck::new();
    let (token, other) = (watch.secret("token"), watch.secret("other token"));
    let ca = TestCa::new();
    let (ada, grace) = (ca.client("ada").issue(), ca.client("grace").issue());
    // The second output expires later, but its key pair does not match. client-go would use the first credential until 2040.
    let plugin = TestPlugin::answering(token.expose())
        .expiring_in(Duration::from_secs(3600))
        .on_the_next_run()
        .answers(other.expose())
        .certificate(ada.cert_pem(), grace.key_pem())
        .expiring_at("2040-01-01T00:00:00Z");
    let cache = cache(&plugin);
    let before = cache.get().await.unwrap();
    let error = cache.replace(&before, Default::default()).await.unwrap_err();
    watch.error(&*error);
    let after = cache.get().await.unwrap();
    assert_eq!(after.value().token, Some(token));
    assert_eq!(after.expires(), before.expires());
}

#[tokio::test]
async fn zero_timeout_is_enforced() {
    let plugin = TestPlugin::answering("token").hangs();
    let error = fetch(&exec_plugin(config(&plugin), None, options(Duration::ZERO))).await.unwrap_err();
    assert_eq!(error.time_limit(), Some(Duration::ZERO));
}
