use credlet_api::exec::ApiVersion;
use credlet_plugins::web::escaped;

use crate::support::{NOW, Peer, Reply, Seen, Stage, granted, jwt, kept, key};

const ADC: &str = "--use_application_default_credentials";
const SCOPES: &str = "https://www.googleapis.com/auth/cloud-platform https://www.googleapis.com/auth/userinfo.email";

fn account(email: &str, token_uri: &str) -> String {
    serde_json::json!({ "type": "service_account", "client_email": email, "private_key": key().pem,
        "private_key_id": "k1", "token_uri": token_uri })
    .to_string()
}

/// With a file of application default credentials.
fn adc(stage: Stage, text: &str) -> Stage {
    let path = stage.file("key.json", text);
    stage.var("GOOGLE_APPLICATION_CREDENTIALS", path.to_str().unwrap())
}

#[test]
fn a_machine_of_googles_has_a_token_for_its_account() {
    let server = Peer::start(|_| granted("ya29.machine"));
    let mut stage = Stage::new().var("NO_GCE_CHECK", "").var("GCE_METADATA_HOST", &server.url["http://".len()..]);
    let run = stage.gke(ADC);
    assert_eq!((run.token(), run.expires()), ("ya29.machine".into(), "2026-11-15T20:17:48Z".into()));
    let seen = &server.seen()[0];
    assert!(seen.path.starts_with("/computeMetadata/v1/instance/service-accounts/default/token?scopes="), "{seen:?}");
    assert_eq!(seen.field("scopes").replace("%3A", ":").replace("%2F", "/").replace("%2C", " "), SCOPES);
    assert_eq!(seen.header("metadata-flavor"), "Google");
    // Near as it is, it is asked each time.
    stage.asked = ApiVersion::V1beta1;
    assert_eq!(stage.gke(&format!("{ADC}=true")).token(), "ya29.machine");
    assert_eq!((server.seen().len(), kept(stage.home.path())), (2, 0));
}

#[test]
fn a_key_signs_an_assertion_and_the_token_is_kept_for_that_key_only() {
    let server = Peer::start(|seen| granted(&format!("ya29.{}", seen.body.len())));
    let token_uri = format!("{}/token", server.url);
    let stage = adc(Stage::new(), &account("sa@p.iam.gserviceaccount.com", &token_uri));
    let token = stage.gke(ADC).token();
    let seen = &server.seen()[0];
    assert_eq!(seen.field("grant_type"), "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer");
    let (header, claims) = key().verified(seen.field("assertion"));
    assert_eq!((header["alg"].as_str(), header["kid"].as_str()), (Some("RS256"), Some("k1")));
    let now = NOW.parse::<jiff::Timestamp>().unwrap().as_second();
    let expected = serde_json::json!({ "iss": "sa@p.iam.gserviceaccount.com", "scope": SCOPES, "aud": token_uri,
        "iat": now, "exp": now + 3600 });
    assert_eq!(claims, expected);

    assert_eq!(stage.gke(ADC).token(), token);
    assert_eq!(server.seen().len(), 1, "kept");
    stage.gke(&format!("{ADC} --cache=false")).token();
    assert_eq!(server.seen().len(), 2, "not kept");
    // Another account in the same file.
    stage.file("key.json", account("longer-name@p.iam.gserviceaccount.com", &token_uri));
    assert_ne!(stage.gke(ADC).token(), token);
    assert_eq!(server.seen().len(), 3);
}

#[test]
fn a_token_that_is_about_to_end_is_not_served_again() {
    let server = Peer::start(|_| Reply::Answer(200, r#"{"access_token":"short","expires_in":"9"}"#.into()));
    let stage = adc(Stage::new(), &account("a@b", &server.url));
    assert_eq!(stage.gke(ADC).expires(), "2026-11-15T19:17:58Z");
    stage.gke(ADC).token();
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn a_person_who_has_logged_in_for_applications_is_renewed() {
    let server = Peer::start(|_| granted("ya29.renewed"));
    let stage = Stage::new().var("CLOUDSDK_AUTH_TOKEN_HOST", format!("{}/token", server.url));
    let (secret, refresh) = (stage.watch.secret("client secret"), stage.watch.secret("refresh token"));
    stage.file(
        ".config/gcloud/application_default_credentials.json",
        format!(
            r#"{{"type":"authorized_user","client_id":"cid","client_secret":"{}","refresh_token":"{}"}}"#,
            secret.expose(),
            refresh.expose()
        ),
    );
    assert_eq!(stage.gke(ADC).token(), "ya29.renewed");
    let seen = &server.seen()[0];
    let fields = ["grant_type", "client_id", "client_secret", "refresh_token"].map(|name| seen.field(name));
    assert_eq!(fields, ["refresh_token", "cid", &escaped(secret.expose()), &escaped(refresh.expose())]);
}

/// Google's STS and IAM in one.
fn federation() -> Peer {
    Peer::start(|seen: &Seen| match seen.path.as_str() {
        "/sts" => granted("federated"),
        "/subject?format=json" => Reply::Answer(200, r#"{"value":"subject-by-url"}"#.into()),
        path if path.ends_with(":generateAccessToken") => {
            assert_eq!(seen.header("authorization"), "Bearer federated");
            Reply::Answer(200, r#"{"accessToken":"impersonated","expireTime":"2026-11-15T20:00:00Z"}"#.into())
        }
        path => Reply::Answer(404, path.to_owned()),
    })
}

fn external(server: &Peer, source: &str, impersonation: &str) -> String {
    format!(
        r#"{{"type":"external_account","audience":"//iam.googleapis.com/projects/1/x","token_url":"{}/sts",
            "subject_token_type":"urn:ietf:params:oauth:token-type:jwt","credential_source":{source}{impersonation}}}"#,
        server.url
    )
}

#[test]
fn a_foreign_token_in_a_file_is_exchanged_and_may_become_a_service_account() {
    let server = federation();
    let stage = Stage::new();
    let path = stage.file("subject.json", r#"{"jwt":"subject-in-file"}"#);
    let source =
        format!(r#"{{"file":"{}","format":{{"type":"json","subject_token_field_name":"jwt"}}}}"#, path.display());
    let stage = adc(stage, &external(&server, &source, ""));
    assert_eq!(stage.gke(ADC).token(), "federated");
    let seen = &server.seen()[0];
    assert_eq!(seen.field("subject_token"), "subject-in-file");
    assert_eq!(seen.field("grant_type"), "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange");
    assert_eq!(seen.field("audience"), "%2F%2Fiam.googleapis.com%2Fprojects%2F1%2Fx");

    let url = format!(
        r#","service_account_impersonation_url":"{}/v1/x:generateAccessToken","service_account_impersonation":{{"token_lifetime_seconds":900}}"#,
        server.url
    );
    let stage = adc(stage, &external(&server, &source, &url));
    let run = stage.gke(ADC);
    assert_eq!((run.token(), run.expires()), ("impersonated".into(), "2026-11-15T20:00:00Z".into()));
    let seen = server.seen();
    let asked: serde_json::Value = serde_json::from_str(&seen.last().unwrap().body).unwrap();
    assert_eq!(asked["lifetime"], "900s");
    let scope = seen[seen.len() - 2].field("scope");
    assert_eq!(scope, "https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform", "IAM wants nothing else");
    assert_eq!(asked["scope"].as_array().unwrap().len(), 2);

    // Whoever is in the file now is somebody else.
    let before = server.seen().len();
    stage.gke(ADC).token();
    assert_eq!(server.seen().len(), before, "kept");
    stage.file("subject.json", r#"{"jwt":"another-subject"}"#);
    stage.gke(ADC).token();
    assert_eq!(server.seen().len(), before + 2);
}

#[test]
fn a_foreign_token_at_an_address_is_fetched_with_its_headers() {
    let server = federation();
    let source = format!(
        r#"{{"url":"{}/subject?format=json","headers":{{"X-Key":"opens"}},"format":{{"type":"json","subject_token_field_name":"value"}}}}"#,
        server.url
    );
    let stage = adc(Stage::new(), &external(&server, &source, ""));
    assert_eq!(stage.gke(ADC).token(), "federated");
    let seen = server.seen();
    assert_eq!((seen[0].header("x-key"), seen[1].field("subject_token")), ("opens", "subject-by-url"));
}

#[test]
fn sources_that_need_other_programs_are_told_apart() {
    let server = federation();
    for (source, told) in [
        (r#"{"executable":{"command":"x"}}"#, "is a program"),
        (r#"{"environment_id":"aws1","url":"http://169.254.169.254"}"#, "is a signed request of another cloud's"),
        ("{}", "names no file and no url"),
    ] {
        let stage = adc(Stage::new(), &external(&server, source, ""));
        assert!(stage.gke(ADC).refusal().contains(told), "{source}");
    }
    assert!(server.seen().is_empty());
}

#[test]
fn a_service_account_is_impersonated_by_file_and_by_flag() {
    let server = Peer::start(|seen: &Seen| match seen.path.as_str() {
        "/token" => granted("federated"),
        _ => Reply::Answer(200, r#"{"accessToken":"other","expireTime":"2026-11-15T20:00:00Z"}"#.into()),
    });
    let from = account("a@b", &format!("{}/token", server.url));
    let url = format!("{}/v1/projects/-/serviceAccounts/t@p:generateAccessToken", server.url);
    let file = format!(
        r#"{{"type":"impersonated_service_account","service_account_impersonation_url":"{url}","delegates":["d@p"],"source_credentials":{from}}}"#
    );
    assert_eq!(adc(Stage::new(), &file).gke(ADC).token(), "other");
    let seen = server.seen();
    assert_eq!(seen[1].path, "/v1/projects/-/serviceAccounts/t@p:generateAccessToken");
    assert!(seen[1].body.contains(r#""delegates":["d@p"]"#), "{}", seen[1].body);

    let stage =
        adc(Stage::new(), &from).var("CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS", format!("{}/", server.url));
    assert_eq!(stage.gke(&format!("{ADC} --impersonate_service_account=d@p,t@p")).token(), "other");
    let seen = server.seen();
    assert_eq!(seen[3].path, "/v1/projects/-/serviceAccounts/t%40p:generateAccessToken");
    assert!(seen[3].body.contains(r#""delegates":["projects/-/serviceAccounts/d@p"]"#), "{}", seen[3].body);
}

#[test]
fn a_token_that_is_itself_a_jwt_never_outlives_itself() {
    let token = jwt(r#"{"exp":1794772800}"#);
    let server = Peer::start(move |_| granted(&token));
    let stage = adc(Stage::new(), &account("a@b", &server.url));
    assert_eq!(stage.gke(ADC).expires(), "2026-11-15T20:00:00Z");
}

#[test]
fn nothing_anywhere_says_where_was_looked() {
    let run = Stage::new().gke(ADC);
    assert!(run.refusal().contains("there is no file in GOOGLE_APPLICATION_CREDENTIALS or of"), "{run:?}");
    assert!(
        run.stderr.contains("; NO_GCE_CHECK is set\nhint: log in with `gcloud auth application-default login`"),
        "{run:?}"
    );
    assert!(Stage::new().gke("--use_edge_cloud --location x --cluster y").refusal().contains("Distributed Cloud Edge"));
}

#[test]
fn gcloud_sees_that_the_plugin_is_there() {
    let run = Stage::new().gke("--version");
    assert_eq!((run.code, run.stderr.as_str()), (std::process::ExitCode::SUCCESS, ""));
    assert!(run.stdout.starts_with("credlet-gke "), "{run:?}");
}

#[test]
fn old_tokens_are_swept_away() {
    let server = Peer::start(|_| granted("ya29.x"));
    let stage = adc(Stage::new(), &account("a@b", &server.url));
    stage.gke(ADC).token();
    let old = stage.file(".cache/credlet/gcp/old", "{}");
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    stage.file("key.json", account("other@b", &server.url));
    stage.gke(ADC).token();
    assert!(!old.exists());
    assert!(kept(stage.home.path()) >= 2, "what is new stays");
}
