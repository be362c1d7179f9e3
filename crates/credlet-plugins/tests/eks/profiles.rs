use crate::support::Stage;

const CREDENTIALS: &str = "[default]\naws_access_key_id = AKDEFAULT\naws_secret_access_key = s\n\
    [blue]\naws_access_key_id = AKBLUE\naws_secret_access_key = s\naws_session_token = t\n";

fn stage() -> Stage {
    let stage = Stage::new();
    stage.file(".aws/credentials", CREDENTIALS);
    stage
}

#[test]
fn a_profile_on_the_command_line_goes_before_keys_in_the_environment_and_a_variable_after() {
    assert_eq!(stage().run("-i x").signer(), "AKDEFAULT");
    assert_eq!(stage().var("AWS_PROFILE", "blue").run("-i x").signer(), "AKBLUE");
    assert_eq!(stage().keys().var("AWS_PROFILE", "blue").run("-i x").signer(), "AKIDEXAMPLE");
    assert_eq!(stage().keys().run("-i x --profile blue").signer(), "AKBLUE");
    assert_eq!(stage().var("AWS_PROFILE", "none").run("-i x --profile blue").signer(), "AKBLUE");
    assert!(stage().run("-i x --profile blue").url().contains("&X-Amz-Security-Token=t&"));
}

#[test]
fn the_credentials_file_goes_before_a_process_and_a_process_before_the_config_file() {
    let process = r#"credential_process = /bin/echo '{"Version":1,"AccessKeyId":"AKPROCESS","SecretAccessKey":"s"}'"#;
    let config = format!(
        "[default]\n{process}\n[profile green]\naws_access_key_id = AKCONFIG\naws_secret_access_key = s\n{process}\n[profile red]\naws_access_key_id=AKRED\naws_secret_access_key:s"
    );
    let stage = stage().config(&config);
    assert_eq!(stage.run("-i x").signer(), "AKDEFAULT");
    assert_eq!(stage.run("-i x --profile green").signer(), "AKPROCESS");
    assert_eq!(stage.run("-i x --profile red").signer(), "AKRED");
}

#[test]
fn files_can_lie_elsewhere() {
    let stage = Stage::new().var("AWS_SHARED_CREDENTIALS_FILE", "~/elsewhere");
    stage.file("elsewhere", CREDENTIALS);
    assert_eq!(stage.run("-i x").signer(), "AKDEFAULT");
}

#[test]
fn a_profile_that_does_not_exist_is_told_with_those_that_do() {
    let stage = stage().config("[profile green]\n[sso-session corp]\n[services x]\n");
    let refusal = stage.run("-i x --profile bleu");
    assert!(refusal.refusal().starts_with("error: there is no AWS profile `bleu` in "), "{refusal:?}");
    assert!(refusal.refusal().ends_with("hint: there is: blue, default, green\n"));
}

#[test]
fn half_a_pair_of_keys_is_a_mistake_and_not_none() {
    let run = Stage::new().var("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").run("-i x");
    assert!(run.refusal().contains("AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"));
    let run = Stage::new().config("[default]\naws_access_key_id = x\n").run("-i x");
    assert!(
        run.refusal().contains("the AWS profile `default` has an aws_access_key_id without an aws_secret_access_key")
    );
}

#[test]
fn without_any_credentials_it_is_told_where_was_looked_and_what_to_do() {
    let run = Stage::new().run("-i x");
    let refusal = run.refusal();
    for part in [
        "there are no AWS credentials",
        "AWS_ACCESS_KEY_ID is not set",
        "there is no profile `default`",
        "AWS_EC2_METADATA_DISABLED is set",
        "hint: name a profile",
    ] {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
}

#[test]
fn roles_that_cannot_be_are_told_by_their_profile() {
    for (config, told) in [
        ("role_arn = a", "has a role_arn, but neither source_profile nor credential_source"),
        (
            "role_arn = a\nsource_profile = y\ncredential_source = Environment",
            "has both source_profile and credential_source",
        ),
        ("role_arn = a\nsource_profile = nobody", "has the source_profile `nobody`, which does not exist"),
        ("role_arn = a\nsource_profile = x", "has the source_profile `x`, which leads back to itself"),
        (
            "role_arn = a\nsource_profile = y\n[profile y]\nrole_arn = b\nsource_profile = x",
            "has the source_profile `x`, which leads back to itself",
        ),
        (
            "role_arn = a\nsource_profile = y\n[profile y]\nregion = r",
            "has the source_profile `y`, which has no credentials",
        ),
        ("role_arn = a\ncredential_source = Moon", "has a credential_source other than"),
        (
            "role_arn = a\ncredential_source = Environment",
            "has the credential_source Environment, where there are no credentials",
        ),
        ("sso_account_id = 1\nsso_role_name = r", "uses SSO without sso_start_url"),
        (
            "sso_session = corp\nsso_account_id = 1\nsso_role_name = r",
            "has the sso_session `corp`, which does not exist",
        ),
        ("login_session = arn:x", "uses `aws login`, which only awscli can read"),
        ("web_identity_token_file = f", "is set without AWS_ROLE_ARN"),
    ] {
        let run = Stage::new().config(&format!("[profile x]\n{config}\n")).run("-i c --profile x");
        assert!(run.refusal().contains(told), "{config}: {}", run.stderr);
    }
}

#[test]
fn a_process_that_fails_or_answers_nonsense_is_told_without_its_output() {
    for (command, told) in [
        ("/bin/false", "exited with code 1: it says nothing"),
        ("/bin/echo hunter2", "printed something other than Version, AccessKeyId and SecretAccessKey in JSON"),
        (
            r#"/bin/echo '{"Version":2,"AccessKeyId":"hunter2","SecretAccessKey":"hunter2"}'"#,
            "printed an answer of a Version other than 1",
        ),
        (r#"/bin/echo '{"Version":1,"AccessKeyId":"","SecretAccessKey":"hunter2"}'"#, "printed an empty key"),
        (
            r#"/bin/echo '{"Version":1,"AccessKeyId":"a","SecretAccessKey":"hunter2","Expiration":"hunter2"}'"#,
            "printed an Expiration that is not a time",
        ),
        (
            r#"/bin/echo '{"Version":1,"AccessKeyId":"a","SecretAccessKey":"hunter2","Expiration":"2020-01-01T00:00:00Z"}'"#,
            "expired at 2020-01-01T00:00:00Z",
        ),
        ("/no/such/program", "cannot be run: `/no/such/program` is not installed"),
        ("'open", "has a quote that is left open"),
    ] {
        let run = Stage::new().config(&format!("[default]\ncredential_process = {command}\n")).run("-i c");
        assert!(run.refusal().contains(told), "{command}: {}", run.stderr);
        assert!(!run.stderr.contains("hunter2"), "{command}: {}", run.stderr);
    }
}
