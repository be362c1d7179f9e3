//! Plugins with given input and output.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;
use std::time::Duration;

use credlet_api::exec::{ApiVersion, Cluster, ExecCredentialSpec, ExecCredentialStatus, ExecInfo, ProxyConfig};
use credlet_api::image::{AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse};
use credlet_plugin::{self as plugin, Failure, PluginIo, PluginRequest};

struct PluginOutput {
    code: ExitCode,
    stdout: String,
    stderr: String,
}

fn run<R: PluginRequest>(
    exec_info: Option<&str>,
    stdin: &str,
    plugin: impl FnOnce(R) -> Result<R::Response, Failure>,
) -> PluginOutput {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let io = PluginIo {
        exec_info: exec_info.map(Into::into),
        stdin: &mut stdin.as_bytes(),
        stdout: &mut stdout,
        stderr: &mut stderr,
    };
    let code = plugin::run(io, plugin);
    PluginOutput { code, stdout: String::from_utf8(stdout).unwrap(), stderr: String::from_utf8(stderr).unwrap() }
}

fn exec_info(version: ApiVersion) -> String {
    ExecCredentialSpec::default().encode(version)
}

#[test]
fn output_has_requested_version() {
    for version in ApiVersion::ALL {
        let at = "2030-01-02T03:04:05.9Z".parse().unwrap();
        let output = run(Some(&exec_info(version)), "", |info: ExecInfo| {
            assert_eq!(info.version, version);
            Ok(ExecCredentialStatus::token("tok").with_expiration(at))
        });
        assert_eq!(output.code, ExitCode::SUCCESS);
        assert_eq!(output.stderr, "");
        assert_eq!(
            output.stdout,
            format!(
                "{{\"kind\":\"ExecCredential\",\"apiVersion\":\"{version}\",\
                 \"status\":{{\"expirationTimestamp\":\"2030-01-02T03:04:05Z\",\"token\":\"tok\"}}}}\n"
            )
        );
    }
}

#[test]
fn failure_is_printed_on_stderr_only() {
    let output = run(Some(&exec_info(ApiVersion::V1)), "", |_: ExecInfo| {
        let cause = std::io::Error::other("no \u{1b}[31mnetwork");
        Err(Failure::new("cannot log in").because(&cause).hint("run `acme login`").exit_with(7.try_into().unwrap()))
    });
    assert_eq!(output.code, ExitCode::from(7));
    assert_eq!(output.stdout, "");
    assert_eq!(output.stderr, "error: cannot log in: no U+001B[31mnetwork\nhint: run `acme login`\n");
}

#[test]
fn missing_exec_info_has_a_hint() {
    let output = run(None, "", |_: ExecInfo| unreachable!());
    assert_eq!(output.code, ExitCode::from(1));
    assert!(output.stderr.starts_with("error: KUBERNETES_EXEC_INFO is not set"), "{}", output.stderr);
    assert!(output.stderr.contains("\nhint: "), "{}", output.stderr);
}

#[test]
fn invalid_credential_is_not_printed() {
    for (status, mistake) in [
        (ExecCredentialStatus::default(), "missing credential"),
        (ExecCredentialStatus::token("hunter2\n"), "control character"),
        (ExecCredentialStatus::certificate("c", ""), "missing clientKeyData"),
        (
            ExecCredentialStatus { proxy_config: Some(ProxyConfig::default()), ..ExecCredentialStatus::token("t") },
            "lockFilePath",
        ),
    ] {
        let output = run(Some(&exec_info(ApiVersion::V1)), "", |_: ExecInfo| Ok(status));
        assert_eq!(output.code, ExitCode::from(1));
        assert_eq!(output.stdout, "");
        assert!(output.stderr.contains(mistake) && !output.stderr.contains("hunter2"), "{}", output.stderr);
    }
}

#[test]
fn plugin_gets_cluster_connection() {
    let cluster = Some(Cluster { server: "https://h".into(), ..Cluster::default() });
    let exec_info = ExecCredentialSpec { cluster, ..ExecCredentialSpec::default() }.encode(ApiVersion::V1beta1);
    let output = run(Some(&exec_info), "", |info: ExecInfo| {
        assert_eq!(info.connection()?.server(), "https://h");
        Ok(ExecCredentialStatus::token("tok"))
    });
    assert_eq!(output.code, ExitCode::SUCCESS);
}

#[test]
fn image_provider_reads_stdin() {
    use credlet_api::image::ProviderApiVersion;
    for version in ProviderApiVersion::ALL {
        let request = format!(
            r#"{{"kind":"CredentialProviderRequest","apiVersion":"{version}","image":"r.io/a","serviceAccountToken":"s","serviceAccountAnnotations":{{"k":"v"}}}}"#
        );
        let output = run(None, &request, |request: CredentialProviderRequest| {
            assert_eq!(request.image, "r.io/a");
            assert_eq!(request.service_account_annotations["k"], "v");
            let auth = AuthConfig { username: "u<".into(), password: "p".into() };
            Ok(CredentialProviderResponse {
                cache_key_type: CacheKeyType::Registry,
                cache_duration: Some(Duration::from_secs(300)),
                auth: [("r.io".to_owned(), auth)].into(),
            })
        });
        assert_eq!(output.code, ExitCode::SUCCESS, "{}", output.stderr);
        assert_eq!(
            output.stdout,
            format!(
                "{{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"{version}\",\"cacheKeyType\":\"Registry\",\
                 \"cacheDuration\":\"5m0s\",\"auth\":{{\"r.io\":{{\"username\":\"u\\u003c\",\"password\":\"p\"}}}}}}\n"
            )
        );
    }
}

#[test]
fn invalid_request_is_not_quoted() {
    let long = format!("{{\"image\":\"{}\"}}", "x".repeat(2 << 20));
    for request in ["", "hunter2", "{\"kind\":\"hunter2\"}", "{\"image\":5,\"x\":\"hunter2\"}", &*long] {
        let output = run(None, request, |_: CredentialProviderRequest| unreachable!());
        assert_eq!(output.code, ExitCode::from(1));
        assert!(output.stdout.is_empty() && output.stderr.starts_with("error: "), "{}", output.stderr);
        assert!(!output.stderr.contains("hunter2"), "{}", output.stderr);
    }
}
