use crate::support::Sandbox;

const CREDENTIALS: &str = "[default]\naws_access_key_id = AKDEFAULT\naws_secret_access_key = s\n\
    [blue]\naws_access_key_id = AKBLUE\naws_secret_access_key = s\naws_session_token = t\n";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file(".aws/credentials", CREDENTIALS);
    sandbox
}

#[test]
fn profile_flag_precedes_env_keys() {
    assert_eq!(sandbox().eks("-i x").access_key_id(), "AKDEFAULT");
    assert_eq!(sandbox().var("AWS_PROFILE", "blue").eks("-i x").access_key_id(), "AKBLUE");
    assert_eq!(sandbox().keys().var("AWS_PROFILE", "blue").eks("-i x").access_key_id(), "AKIDEXAMPLE");
    assert_eq!(sandbox().keys().eks("-i x --profile blue").access_key_id(), "AKBLUE");
    assert_eq!(sandbox().var("AWS_PROFILE", "none").eks("-i x --profile blue").access_key_id(), "AKBLUE");
    assert!(sandbox().eks("-i x --profile blue").url().contains("&X-Amz-Security-Token=t&"));
}

#[test]
fn credentials_file_then_process_then_config() {
    let process = r#"credential_process = /bin/echo '{"Version":1,"AccessKeyId":"AKPROCESS","SecretAccessKey":"s"}'"#;
    let config = format!(
        "[default]\n{process}\n[profile green]\naws_access_key_id = AKCONFIG\naws_secret_access_key = s\n{process}\n[profile red]\naws_access_key_id=AKRED\naws_secret_access_key:s"
    );
    let sandbox = sandbox().config(&config);
    assert_eq!(sandbox.eks("-i x").access_key_id(), "AKDEFAULT");
    assert_eq!(sandbox.eks("-i x --profile green").access_key_id(), "AKPROCESS");
    assert_eq!(sandbox.eks("-i x --profile red").access_key_id(), "AKRED");
}

#[test]
fn custom_file_locations() {
    let sandbox = Sandbox::new().var("AWS_SHARED_CREDENTIALS_FILE", "~/elsewhere");
    sandbox.file("elsewhere", CREDENTIALS);
    assert_eq!(sandbox.eks("-i x").access_key_id(), "AKDEFAULT");
}

#[test]
fn unknown_profile_lists_others() {
    let sandbox = sandbox().config("[profile green]\n[sso-session corp]\n[services x]\n");
    let refusal = sandbox.eks("-i x --profile bleu");
    assert!(refusal.error().starts_with("error: AWS profile `bleu` not found in "), "{refusal:?}");
    assert!(refusal.error().ends_with("hint: use one of: blue, default, green\n"));
}

#[test]
fn rejects_key_id_without_secret() {
    let run = Sandbox::new().var("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").eks("-i x");
    assert!(run.error().contains("AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"));
    let run = Sandbox::new().config("[default]\naws_access_key_id = x\n").eks("-i x");
    assert!(run.error().contains("profile `default` has aws_access_key_id but is missing aws_secret_access_key"));
}

#[test]
fn reports_all_tried_sources() {
    let run = Sandbox::new().eks("-i x");
    let refusal = run.error();
    for part in [
        "no AWS credentials found",
        "AWS_ACCESS_KEY_ID is not set",
        "profile `default` not found",
        "AWS_EC2_METADATA_DISABLED is set",
        "hint: select a profile",
    ] {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
}

#[test]
fn reports_invalid_profiles() {
    for (config, told) in [
        ("role_arn = a", "has role_arn but is missing source_profile or credential_source"),
        (
            "role_arn = a\nsource_profile = y\ncredential_source = Environment",
            "has both source_profile and credential_source",
        ),
        ("role_arn = a\nsource_profile = nobody", "refers to unknown source_profile `nobody`"),
        ("role_arn = a\nsource_profile = x", "has the source_profile `x`, which forms a cycle"),
        (
            "role_arn = a\nsource_profile = y\n[profile y]\nrole_arn = b\nsource_profile = x",
            "has the source_profile `x`, which forms a cycle",
        ),
        (
            "role_arn = a\nsource_profile = y\n[profile y]\nregion = r",
            "has the source_profile `y`, which has no credentials",
        ),
        ("role_arn = a\ncredential_source = Moon", "has an unsupported credential_source"),
        (
            "role_arn = a\ncredential_source = Environment",
            "has the credential_source Environment, which has no credentials",
        ),
        ("sso_account_id = 1\nsso_role_name = r", "uses SSO but is missing sso_start_url"),
        (
            "sso_account_id = 1\nsso_role_name = r\nsso_start_url = s\nsso_region = x.evil.example/",
            "has an invalid sso_region",
        ),
        ("sso_session = corp\nsso_account_id = 1\nsso_role_name = r", "refers to unknown sso_session `corp`"),
        ("login_session = arn:x", "uses `aws login`, which is not supported"),
        ("web_identity_token_file = f", "is set without AWS_ROLE_ARN"),
    ] {
        let run = Sandbox::new().config(&format!("[profile x]\n{config}\n")).eks("-i c --profile x");
        assert!(run.error().contains(told), "{config}: {}", run.stderr);
    }
}

#[test]
fn reports_process_failure_without_output() {
    for (command, told) in [
        ("/bin/false", "exited with code 1: no output on stderr"),
        ("/bin/echo hunter2", "printed invalid output: must be JSON with Version, AccessKeyId and SecretAccessKey"),
        (
            r#"/bin/echo '{"Version":2,"AccessKeyId":"hunter2","SecretAccessKey":"hunter2"}'"#,
            "printed invalid output: unsupported Version, must be 1",
        ),
        (
            r#"/bin/echo '{"Version":1,"AccessKeyId":"","SecretAccessKey":"hunter2"}'"#,
            "printed invalid output: empty key",
        ),
        (
            r#"/bin/echo '{"Version":1,"AccessKeyId":"a","SecretAccessKey":"hunter2","Expiration":"hunter2"}'"#,
            "printed invalid output: Expiration is not a time",
        ),
        (
            r#"/bin/echo '{"Version":1,"AccessKeyId":"a","SecretAccessKey":"hunter2","Expiration":"2020-01-01T00:00:00Z"}'"#,
            "expired at 2020-01-01T00:00:00Z",
        ),
        ("/no/such/program", "failed to run credential_process of AWS profile `default`: "),
        ("'open", "unterminated quote"),
    ] {
        let run = Sandbox::new().config(&format!("[default]\ncredential_process = {command}\n")).eks("-i c");
        assert!(run.error().contains(told), "{command}: {}", run.stderr);
        assert!(!run.stderr.contains("hunter2"), "{command}: {}", run.stderr);
    }
}
