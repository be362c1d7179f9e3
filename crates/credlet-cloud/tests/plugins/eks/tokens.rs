use std::process::ExitCode;
use std::sync::Arc;

use credlet_api::exec::{ApiVersion, ExecCredentialSpec};
use credlet_cloud::eks;
use credlet_exec::{FixedEnv, ManualClock, Platform};
use credlet_plugin as plugin;

use crate::support::{FakeMfaPrompt, NOW, Sandbox};

fn vector() -> Sandbox {
    Sandbox::new().var("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").var("AWS_SECRET_ACCESS_KEY", "secretexample")
}

#[test]
fn token_is_same_with_all_flag_styles() {
    let signature = "edf9c7bf61c0b4603f83db9ae8ae82f29024786c1a45947f26d172dc0929e63e";
    for line in [
        "--region us-east-1 eks get-token --cluster-name demo --output json",
        "eks get-token --cluster-name demo --region us-east-1",
        "token -i demo --region us-east-1",
        "--cluster-id=demo --region=us-east-1",
    ] {
        let run = vector().eks(line);
        assert!(run.url().ends_with(signature), "{line}");
        assert_eq!(run.expires(), "2026-11-15T19:31:49Z");
    }
    let by_variables = vector().var("AWS_REGION", "us-east-1").var("KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID", "demo");
    assert!(by_variables.eks("token").url().ends_with(signature));
    let by_profile = vector().config("[default]\nregion = us-east-1\n");
    assert!(by_profile.eks("-i demo").url().ends_with(signature));
}

#[test]
fn prints_requested_api_version_as_json() {
    let sandbox = vector();
    for (version, has_info) in [
        (ApiVersion::V1, true),
        (ApiVersion::V1beta1, true),
        (ApiVersion::V1alpha1, true),
        (ApiVersion::V1beta1, false),
    ] {
        let env = FixedEnv::new(
            sandbox.vars.iter().map(|(name, value)| (&**name, &**value)).chain([("AWS_DEFAULT_OUTPUT", "text")]),
        );
        let clock = Arc::new(ManualClock::new(NOW.parse().unwrap()));
        let platform = Platform { env: Arc::new(env), clock, ..Platform::system() };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let io = plugin::PluginIo {
            exec_info: has_info.then(|| ExecCredentialSpec::default().encode(version).into()),
            stdin: &mut std::io::empty(),
            stdout: &mut stdout,
            stderr: &mut stderr,
        };
        let args = ["x", "--cluster-name", "demo", "--output", "text"].map(Into::into).to_vec();
        assert_eq!(eks::run(args, &platform, Arc::new(FakeMfaPrompt::default()), io), ExitCode::SUCCESS);
        let start = format!(
            r#"{{"kind":"ExecCredential","apiVersion":"{}","status":{{"expirationTimestamp":"#,
            version.as_str()
        );
        assert!(stdout.starts_with(start.as_bytes()), "{version:?}");
        assert!(stderr.is_empty());
    }
}

#[test]
fn token_only_prints_plain_token() {
    let run = vector().eks("token -i demo --token-only");
    assert_eq!(run.code, ExitCode::SUCCESS);
    assert!(run.stdout.starts_with("k8s-aws-v1.") && run.stdout.lines().count() == 1);
}

#[test]
fn sts_endpoint_follows_settings() {
    for (vars, url) in [
        (vec![], "https://sts.amazonaws.com/?"),
        (
            vec![("AWS_REGION", "eu-west-3"), ("AWS_DEFAULT_REGION", "eu-west-1")],
            "https://sts.eu-west-3.amazonaws.com/?",
        ),
        (vec![("AWS_REGION", "eu-west-3"), ("AWS_STS_REGIONAL_ENDPOINTS", "legacy")], "https://sts.amazonaws.com/?"),
        (vec![("AWS_REGION", "cn-north-1")], "https://sts.cn-north-1.amazonaws.com.cn/?"),
        (
            vec![("AWS_REGION", "us-east-2"), ("AWS_USE_FIPS_ENDPOINT", "true")],
            "https://sts-fips.us-east-2.amazonaws.com/?",
        ),
        (vec![("AWS_REGION", "us-east-2"), ("AWS_USE_DUALSTACK_ENDPOINT", "true")], "https://sts.us-east-2.api.aws/?"),
        (vec![("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:5111/")], "http://127.0.0.1:5111/?"),
        (
            vec![("AWS_ENDPOINT_URL", "http://127.0.0.1:5111"), ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")],
            "https://sts.amazonaws.com/?",
        ),
    ] {
        let sandbox = vars.iter().fold(vector(), |sandbox, (name, value)| sandbox.var(name, *value));
        assert!(sandbox.eks("-i demo").url().starts_with(url), "{vars:?}");
    }
    let services = "[default]\nservices = mine\n[services mine]\nsts =\n  endpoint_url = https://sts.example\n";
    assert!(vector().config(services).eks("-i demo").url().starts_with("https://sts.example/?"));
    let evil = vector().var("AWS_REGION", "x.evil.example/");
    assert!(evil.eks("-i demo").error().contains("the region is not a valid region name"));
}

#[test]
fn token_expires_with_credentials() {
    let soon = vector().var("AWS_CREDENTIAL_EXPIRATION", "2026-11-15T19:20:00Z");
    assert_eq!(soon.eks("-i demo").expires(), "2026-11-15T19:20:00Z");
    let over = vector().var("AWS_CREDENTIAL_EXPIRATION", "2026-11-15T19:17:00Z").eks("-i demo");
    assert!(
        over.error().starts_with("error: AWS credentials of the environment expired at 2026-11-15T19:17:00Z\nhint: "),
        "{over:?}"
    );
}

#[test]
fn reports_invalid_arguments() {
    assert!(vector().eks("token").error().starts_with("error: missing cluster name\nhint: "));
    assert!(vector().eks("eks list-clusters").error().contains("unknown command `eks`"));
    assert_eq!(vector().eks("--cluster-nam demo").code, ExitCode::from(2));
    let help = vector().eks("--help");
    assert_eq!((help.code, &*help.stderr), (ExitCode::SUCCESS, ""));
    assert!(help.stdout.contains("--role-arn"));
}

#[test]
fn rejects_token_over_size_limit() {
    let long = vector().var("AWS_SESSION_TOKEN", "x".repeat(4096)).eks("-i demo");
    assert!(long.error().contains("exceeds the limit of 4096 bytes"));
}
