use std::process::ExitCode;
use std::sync::Arc;

use credlet_api::exec::{ApiVersion, ExecCredentialSpec};
use credlet_api::plugin;
use credlet_core::{FixedEnv, ManualClock, World};
use credlet_plugins::eks;

use crate::support::{NOW, Stage, Typist};

fn vector() -> Stage {
    Stage::new().var("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").var("AWS_SECRET_ACCESS_KEY", "secretexample")
}

#[test]
fn a_token_is_awsclis_to_the_byte_whoevers_flags_are_used() {
    let signature = "edf9c7bf61c0b4603f83db9ae8ae82f29024786c1a45947f26d172dc0929e63e";
    for line in [
        "--region us-east-1 eks get-token --cluster-name demo --output json",
        "eks get-token --cluster-name demo --region us-east-1",
        "token -i demo --region us-east-1",
        "--cluster-id=demo --region=us-east-1",
    ] {
        let run = vector().run(line);
        assert!(run.url().ends_with(signature), "{line}");
        assert_eq!(run.status().expiration_timestamp.unwrap().to_string(), "2026-11-15T19:31:49Z");
    }
    let by_variables = vector().var("AWS_REGION", "us-east-1").var("KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID", "demo");
    assert!(by_variables.run("token").url().ends_with(signature));
    let by_profile = vector().config("[default]\nregion = us-east-1\n");
    assert!(by_profile.run("-i demo").url().ends_with(signature));
}

#[test]
fn the_answer_is_in_the_version_asked_and_json_whatever_the_profile_wants() {
    let stage = vector();
    for (version, asked) in [
        (ApiVersion::V1, true),
        (ApiVersion::V1beta1, true),
        (ApiVersion::V1alpha1, true),
        (ApiVersion::V1beta1, false),
    ] {
        let env = FixedEnv::new(
            stage.vars.iter().map(|(name, value)| (&**name, &**value)).chain([("AWS_DEFAULT_OUTPUT", "text")]),
        );
        let clock = Arc::new(ManualClock::new(NOW.parse().unwrap()));
        let world = World { env: Arc::new(env), clock, ..World::system() };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let io = plugin::World {
            exec_info: asked.then(|| ExecCredentialSpec::default().encode(version).into()),
            stdin: &mut std::io::empty(),
            stdout: &mut stdout,
            stderr: &mut stderr,
        };
        let args = ["x", "--cluster-name", "demo", "--output", "text"].map(Into::into).to_vec();
        assert_eq!(eks::run(args, &world, Arc::new(Typist::default()), io), ExitCode::SUCCESS);
        let start = format!(
            r#"{{"kind":"ExecCredential","apiVersion":"{}","status":{{"expirationTimestamp":"#,
            version.as_str()
        );
        assert!(stdout.starts_with(start.as_bytes()), "{version:?}");
        assert!(stderr.is_empty());
    }
}

#[test]
fn the_token_alone_is_printed_for_a_script() {
    let run = vector().run("token -i demo --token-only");
    assert_eq!(run.code, ExitCode::SUCCESS);
    assert!(run.stdout.starts_with("k8s-aws-v1.") && run.stdout.lines().count() == 1);
}

#[test]
fn the_address_follows_the_settings() {
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
        let stage = vars.iter().fold(vector(), |stage, (name, value)| stage.var(name, *value));
        assert!(stage.run("-i demo").url().starts_with(url), "{vars:?}");
    }
    let services = "[default]\nservices = mine\n[services mine]\nsts =\n  endpoint_url = https://sts.example\n";
    assert!(vector().config(services).run("-i demo").url().starts_with("https://sts.example/?"));
    let evil = vector().var("AWS_REGION", "x.evil.example/");
    assert!(evil.run("-i demo").refusal().contains("the AWS region is not the name of a region"));
}

#[test]
fn a_token_ends_with_the_credentials_it_was_signed_with() {
    let soon = vector().var("AWS_CREDENTIAL_EXPIRATION", "2026-11-15T19:20:00Z");
    assert_eq!(soon.run("-i demo").status().expiration_timestamp.unwrap().to_string(), "2026-11-15T19:20:00Z");
    let over = vector().var("AWS_CREDENTIAL_EXPIRATION", "2026-11-15T19:17:00Z").run("-i demo");
    assert!(
        over.refusal()
            .starts_with("error: the AWS credentials of the environment expired at 2026-11-15T19:17:00Z\nhint: "),
        "{over:?}"
    );
}

#[test]
fn what_is_missing_or_wrong_on_the_command_line_is_said() {
    assert!(vector().run("token").refusal().starts_with("error: which cluster?\nhint: "));
    assert!(vector().run("eks list-clusters").refusal().contains("`eks` is no command of this plugin"));
    assert_eq!(vector().run("--cluster-nam demo").code, ExitCode::from(2));
    let help = vector().run("--help");
    assert_eq!((help.code, &*help.stderr), (ExitCode::SUCCESS, ""));
    assert!(help.stdout.contains("--role-arn"));
}

#[test]
fn a_token_that_no_server_would_take_is_not_made() {
    let long = vector().var("AWS_SESSION_TOKEN", "x".repeat(4096)).run("-i demo");
    assert!(long.refusal().contains("longer than the 4096 bytes that EKS takes"));
}
