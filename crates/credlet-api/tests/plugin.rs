//! The harness: a function becomes a plugin that says the right thing in the right place.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;
use std::time::Duration;

use credlet_api::exec::{ApiVersion, Cluster, ExecCredentialSpec, ExecCredentialStatus, ExecInfo, ProxyConfig};
use credlet_api::image::{AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse};
use credlet_api::plugin::{self, Failure, Question, World};

struct Said {
    code: ExitCode,
    stdout: String,
    stderr: String,
}

fn run<Q: Question>(
    exec_info: Option<&str>,
    stdin: &str,
    plugin: impl FnOnce(Q) -> Result<Q::Answer, Failure>,
) -> Said {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let world = World {
        exec_info: exec_info.map(Into::into),
        stdin: &mut stdin.as_bytes(),
        stdout: &mut stdout,
        stderr: &mut stderr,
    };
    let code = plugin::run(world, plugin);
    Said { code, stdout: String::from_utf8(stdout).unwrap(), stderr: String::from_utf8(stderr).unwrap() }
}

fn told(version: ApiVersion) -> String {
    ExecCredentialSpec::default().encode(version)
}

#[test]
fn the_answer_is_in_the_version_that_was_asked_for() {
    for version in ApiVersion::ALL {
        let at = "2030-01-02T03:04:05.9Z".parse().unwrap();
        let said = run(Some(&told(version)), "", |info: ExecInfo| {
            assert_eq!(info.version, version);
            Ok(ExecCredentialStatus::token("tok").expiring(at))
        });
        assert_eq!(said.code, ExitCode::SUCCESS);
        assert_eq!(said.stderr, "");
        assert_eq!(
            said.stdout,
            format!(
                "{{\"kind\":\"ExecCredential\",\"apiVersion\":\"{version}\",\
                 \"status\":{{\"expirationTimestamp\":\"2030-01-02T03:04:05Z\",\"token\":\"tok\"}}}}\n"
            )
        );
    }
}

#[test]
fn a_failure_goes_to_standard_error_and_nothing_to_standard_output() {
    let said = run(Some(&told(ApiVersion::V1)), "", |_: ExecInfo| {
        let cause = std::io::Error::other("no \u{1b}[31mnetwork");
        Err(Failure::new("cannot log in").because(&cause).hint("run `acme login`").exit_with(7.try_into().unwrap()))
    });
    assert_eq!(said.code, ExitCode::from(7));
    assert_eq!(said.stdout, "");
    assert_eq!(said.stderr, "error: cannot log in: no U+001B[31mnetwork\nhint: run `acme login`\n");
}

#[test]
fn a_plugin_run_by_hand_explains_itself() {
    let said = run(None, "", |_: ExecInfo| unreachable!());
    assert_eq!(said.code, ExitCode::from(1));
    assert!(said.stderr.starts_with("error: KUBERNETES_EXEC_INFO is unset or empty"), "{}", said.stderr);
    assert!(said.stderr.contains("\nhint: "), "{}", said.stderr);
}

#[test]
fn an_answer_no_client_would_take_is_the_plugins_mistake() {
    for (status, mistake) in [
        (ExecCredentialStatus::default(), "neither a token nor a certificate"),
        (ExecCredentialStatus::token("hunter2\n"), "control character"),
        (ExecCredentialStatus::certificate("c", ""), "no clientKeyData"),
        (
            ExecCredentialStatus { proxy_config: Some(ProxyConfig::default()), ..ExecCredentialStatus::token("t") },
            "lockFilePath",
        ),
    ] {
        let said = run(Some(&told(ApiVersion::V1)), "", |_: ExecInfo| Ok(status));
        assert_eq!(said.code, ExitCode::from(1));
        assert_eq!(said.stdout, "");
        assert!(said.stderr.contains(mistake) && !said.stderr.contains("hunter2"), "{}", said.stderr);
    }
}

#[test]
fn a_plugin_can_ask_for_the_cluster() {
    let cluster = Some(Cluster { server: "https://h".into(), ..Cluster::default() });
    let told = ExecCredentialSpec { cluster, ..ExecCredentialSpec::default() }.encode(ApiVersion::V1beta1);
    let said = run(Some(&told), "", |info: ExecInfo| {
        assert_eq!(info.connection()?.server(), "https://h");
        Ok(ExecCredentialStatus::token("tok"))
    });
    assert_eq!(said.code, ExitCode::SUCCESS);
}

#[test]
fn an_image_provider_is_asked_on_standard_input() {
    use credlet_api::image::ApiVersion;
    for version in ApiVersion::ALL {
        let request = format!(
            r#"{{"kind":"CredentialProviderRequest","apiVersion":"{version}","image":"r.io/a","serviceAccountToken":"s","serviceAccountAnnotations":{{"k":"v"}}}}"#
        );
        let said = run(None, &request, |request: CredentialProviderRequest| {
            assert_eq!(request.image, "r.io/a");
            assert_eq!(request.service_account_annotations["k"], "v");
            let auth = AuthConfig { username: "u<".into(), password: "p".into() };
            Ok(CredentialProviderResponse {
                cache_key_type: CacheKeyType::Registry,
                cache_duration: Some(Duration::from_secs(300)),
                auth: [("r.io".to_owned(), auth)].into(),
            })
        });
        assert_eq!(said.code, ExitCode::SUCCESS, "{}", said.stderr);
        assert_eq!(
            said.stdout,
            format!(
                "{{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"{version}\",\"cacheKeyType\":\"Registry\",\
                 \"cacheDuration\":\"5m0s\",\"auth\":{{\"r.io\":{{\"username\":\"u\\u003c\",\"password\":\"p\"}}}}}}\n"
            )
        );
    }
}

#[test]
fn a_request_that_is_none_is_refused_without_being_quoted() {
    let long = format!("{{\"image\":\"{}\"}}", "x".repeat(2 << 20));
    for request in ["", "hunter2", "{\"kind\":\"hunter2\"}", "{\"image\":5,\"x\":\"hunter2\"}", &*long] {
        let said = run(None, request, |_: CredentialProviderRequest| unreachable!());
        assert_eq!(said.code, ExitCode::from(1));
        assert!(said.stdout.is_empty() && said.stderr.starts_with("error: "), "{}", said.stderr);
        assert!(!said.stderr.contains("hunter2"), "{}", said.stderr);
    }
}
