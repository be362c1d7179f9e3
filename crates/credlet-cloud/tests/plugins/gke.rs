use credlet_api::exec::ApiVersion;
use credlet_http::fetch::percent_encode;
use credlet_platform::dirs::CACHE_IN_HOME;

use crate::support::{FakeEndpoint, FakeReply, NOW, Sandbox, SeenRequest, files_in, granted, jwt, key};

const ADC: &str = "--use_application_default_credentials";
const SCOPES: &str = "https://www.googleapis.com/auth/cloud-platform https://www.googleapis.com/auth/userinfo.email";

fn account(email: &str, token_uri: &str) -> String {
    serde_json::json!({ "type": "service_account", "client_email": email, "private_key": key().pem,
        "private_key_id": "k1", "token_uri": token_uri })
    .to_string()
}

/// The number of files in the token cache.
fn cached_files(sandbox: &Sandbox) -> usize {
    files_in(&sandbox.home.path().join(CACHE_IN_HOME).join("credlet/gcp")).len()
}

/// Sets the application default credentials.
fn adc(sandbox: Sandbox, text: &str) -> Sandbox {
    let path = sandbox.file("key.json", text);
    sandbox.var("GOOGLE_APPLICATION_CREDENTIALS", path.to_str().unwrap())
}

#[test]
fn metadata_server_token() {
    let server = FakeEndpoint::start(|_| granted("ya29.machine"));
    let mut sandbox = Sandbox::new().var("NO_GCE_CHECK", "").var("GCE_METADATA_HOST", &server.url["http://".len()..]);
    let run = sandbox.gke(ADC);
    assert_eq!((run.token(), run.expires()), ("ya29.machine".into(), "2026-11-15T20:17:48Z".into()));
    let seen = &server.seen()[0];
    assert!(seen.path.starts_with("/computeMetadata/v1/instance/service-accounts/default/token?scopes="), "{seen:?}");
    assert_eq!(seen.field("scopes").replace("%3A", ":").replace("%2F", "/").replace("%2C", " "), SCOPES);
    assert_eq!(seen.header("metadata-flavor"), "Google");
    // Tokens of the metadata server are not cached.
    sandbox.version = ApiVersion::V1beta1;
    assert_eq!(sandbox.gke(&format!("{ADC}=true")).token(), "ya29.machine");
    assert_eq!((server.seen().len(), cached_files(&sandbox)), (2, 0));
}

#[test]
fn service_account_token_is_cached_per_key() {
    let server = FakeEndpoint::start(|seen| granted(&format!("ya29.{}", seen.body.len())));
    let token_uri = format!("{}/token", server.url);
    let sandbox = adc(Sandbox::new(), &account("sa@p.iam.gserviceaccount.com", &token_uri));
    let token = sandbox.gke(ADC).token();
    let seen = &server.seen()[0];
    assert_eq!(seen.field("grant_type"), "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer");
    let (header, claims) = key().verified(seen.field("assertion"));
    assert_eq!((header["alg"].as_str(), header["kid"].as_str()), (Some("RS256"), Some("k1")));
    let now = NOW.parse::<jiff::Timestamp>().unwrap().as_second();
    let expected = serde_json::json!({ "iss": "sa@p.iam.gserviceaccount.com", "scope": SCOPES, "aud": token_uri,
        "iat": now, "exp": now + 3600 });
    assert_eq!(claims, expected);

    assert_eq!(sandbox.gke(ADC).token(), token);
    assert_eq!(server.seen().len(), 1, "kept");
    sandbox.gke(&format!("{ADC} --cache=false")).token();
    assert_eq!(server.seen().len(), 2, "not kept");
    // Another account in the same file.
    sandbox.file("key.json", account("longer-name@p.iam.gserviceaccount.com", &token_uri));
    assert_ne!(sandbox.gke(ADC).token(), token);
    assert_eq!(server.seen().len(), 3);
}

#[test]
fn expiring_token_is_not_served_from_cache() {
    let server = FakeEndpoint::start(|_| FakeReply::Status(200, r#"{"access_token":"short","expires_in":"9"}"#.into()));
    let sandbox = adc(Sandbox::new(), &account("a@b", &server.url));
    assert_eq!(sandbox.gke(ADC).expires(), "2026-11-15T19:17:58Z");
    sandbox.gke(ADC).token();
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn refreshes_application_default_login() {
    let server = FakeEndpoint::start(|_| granted("ya29.renewed"));
    let sandbox = Sandbox::new().var("CLOUDSDK_AUTH_TOKEN_HOST", format!("{}/token", server.url));
    let (secret, refresh) = (sandbox.watch.secret("client secret"), sandbox.watch.secret("refresh token"));
    sandbox.file(
        ".config/gcloud/application_default_credentials.json",
        format!(
            r#"{{"type":"authorized_user","client_id":"cid","client_secret":"{}","refresh_token":"{}"}}"#,
            secret.expose(),
            refresh.expose()
        ),
    );
    assert_eq!(sandbox.gke(ADC).token(), "ya29.renewed");
    let seen = &server.seen()[0];
    let fields = ["grant_type", "client_id", "client_secret", "refresh_token"].map(|name| seen.field(name));
    assert_eq!(fields, ["refresh_token", "cid", &percent_encode(secret.expose()), &percent_encode(refresh.expose())]);
}

/// A token of another identity provider.
fn subject(name: &str) -> String {
    jwt(&format!(r#"{{"sub":"{name}"}}"#))
}

/// Starts an endpoint for STS, IAM and the subject token.
fn federation() -> FakeEndpoint {
    FakeEndpoint::start(|seen: &SeenRequest| match seen.path.as_str() {
        "/sts" => granted("federated"),
        "/subject?format=json" => FakeReply::Status(200, format!(r#"{{"value":"{}"}}"#, subject("by-url"))),
        path if path.ends_with(":generateAccessToken") => {
            assert_eq!(seen.header("authorization"), "Bearer federated");
            FakeReply::Status(200, r#"{"accessToken":"impersonated","expireTime":"2026-11-15T20:00:00Z"}"#.into())
        }
        path => FakeReply::Status(404, path.to_owned()),
    })
}

fn external(server: &FakeEndpoint, source: &str, impersonation: &str) -> String {
    format!(
        r#"{{"type":"external_account","audience":"//iam.googleapis.com/projects/1/x","token_url":"{}/sts",
            "subject_token_type":"urn:ietf:params:oauth:token-type:jwt","credential_source":{source}{impersonation}}}"#,
        server.url
    )
}

#[test]
fn exchanges_token_file_and_impersonates() {
    let server = federation();
    let sandbox = Sandbox::new();
    let path = sandbox.file("subject.json", format!(r#"{{"jwt":"{}"}}"#, subject("in-file")));
    let source =
        format!(r#"{{"file":"{}","format":{{"type":"json","subject_token_field_name":"jwt"}}}}"#, path.display());
    let sandbox = adc(sandbox, &external(&server, &source, ""));
    assert_eq!(sandbox.gke(ADC).token(), "federated");
    let seen = &server.seen()[0];
    assert_eq!(seen.field("subject_token"), subject("in-file"));
    assert_eq!(seen.field("grant_type"), "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange");
    assert_eq!(seen.field("audience"), "%2F%2Fiam.googleapis.com%2Fprojects%2F1%2Fx");

    let url = format!(
        r#","service_account_impersonation_url":"{}/v1/x:generateAccessToken","service_account_impersonation":{{"token_lifetime_seconds":900}}"#,
        server.url
    );
    let sandbox = adc(sandbox, &external(&server, &source, &url));
    let run = sandbox.gke(ADC);
    assert_eq!((run.token(), run.expires()), ("impersonated".into(), "2026-11-15T20:00:00Z".into()));
    let seen = server.seen();
    let request: serde_json::Value = serde_json::from_str(&seen.last().unwrap().body).unwrap();
    assert_eq!(request["lifetime"], "900s");
    let scope = seen[seen.len() - 2].field("scope");
    assert_eq!(scope, "https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform", "IAM wants nothing else");
    assert_eq!(request["scope"].as_array().unwrap().len(), 2);

    // Another identity in the same file.
    let before = server.seen().len();
    sandbox.gke(ADC).token();
    assert_eq!(server.seen().len(), before, "kept");
    sandbox.file("subject.json", format!(r#"{{"jwt":"{}"}}"#, subject("another")));
    sandbox.gke(ADC).token();
    assert_eq!(server.seen().len(), before + 2);
}

#[test]
fn fetches_subject_token_with_headers() {
    let server = federation();
    let source = format!(
        r#"{{"url":"{}/subject?format=json","headers":{{"X-Key":"opens"}},"format":{{"type":"json","subject_token_field_name":"value"}}}}"#,
        server.url
    );
    let sandbox = adc(Sandbox::new(), &external(&server, &source, ""));
    assert_eq!(sandbox.gke(ADC).token(), "federated");
    let seen = server.seen();
    assert_eq!((seen[0].header("x-key"), seen[1].field("subject_token")), ("opens", &*subject("by-url")));
}

#[test]
fn reports_unsupported_credential_sources() {
    let server = federation();
    for (source, told) in [
        (r#"{"executable":{"command":"x"}}"#, "an executable is not supported"),
        (r#"{"environment_id":"aws1","url":"http://169.254.169.254"}"#, "a signed AWS request is not supported"),
        ("{}", "must have a file or a url"),
    ] {
        let sandbox = adc(Sandbox::new(), &external(&server, source, ""));
        assert!(sandbox.gke(ADC).error().contains(told), "{source}");
    }
    assert!(server.seen().is_empty());
}

#[test]
fn impersonates_by_file_and_flag() {
    let server = FakeEndpoint::start(|seen: &SeenRequest| match seen.path.as_str() {
        "/token" => granted("federated"),
        _ => FakeReply::Status(200, r#"{"accessToken":"other","expireTime":"2026-11-15T20:00:00Z"}"#.into()),
    });
    let from = account("a@b", &format!("{}/token", server.url));
    let url = format!("{}/v1/projects/-/serviceAccounts/t@p:generateAccessToken", server.url);
    let file = format!(
        r#"{{"type":"impersonated_service_account","service_account_impersonation_url":"{url}","delegates":["d@p"],"source_credentials":{from}}}"#
    );
    assert_eq!(adc(Sandbox::new(), &file).gke(ADC).token(), "other");
    let seen = server.seen();
    assert_eq!(seen[1].path, "/v1/projects/-/serviceAccounts/t@p:generateAccessToken");
    assert!(seen[1].body.contains(r#""delegates":["d@p"]"#), "{}", seen[1].body);

    let sandbox =
        adc(Sandbox::new(), &from).var("CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS", format!("{}/", server.url));
    assert_eq!(sandbox.gke(&format!("{ADC} --impersonate_service_account=d@p,t@p")).token(), "other");
    let seen = server.seen();
    assert_eq!(seen[3].path, "/v1/projects/-/serviceAccounts/t%40p:generateAccessToken");
    assert!(seen[3].body.contains(r#""delegates":["projects/-/serviceAccounts/d@p"]"#), "{}", seen[3].body);
}

#[test]
fn jwt_expiry_limits_token_expiry() {
    let token = jwt(r#"{"exp":1794772800}"#);
    let server = FakeEndpoint::start(move |_| granted(&token));
    let sandbox = adc(Sandbox::new(), &account("a@b", &server.url));
    assert_eq!(sandbox.gke(ADC).expires(), "2026-11-15T20:00:00Z");
}

#[test]
fn reports_all_tried_google_sources() {
    let run = Sandbox::new().gke(ADC);
    assert!(run.error().contains("GOOGLE_APPLICATION_CREDENTIALS is not set, and there is no"), "{run:?}");
    assert!(
        run.stderr.contains("; NO_GCE_CHECK is set\nhint: log in with `gcloud auth application-default login`"),
        "{run:?}"
    );
    assert!(Sandbox::new().gke("--use_edge_cloud --location x --cluster y").error().contains("Distributed Cloud Edge"));
}

#[test]
fn version_flag_for_gcloud() {
    let run = Sandbox::new().gke("--version");
    assert_eq!((run.code, run.stderr.as_str()), (std::process::ExitCode::SUCCESS, ""));
    assert!(run.stdout.starts_with("credlet-gke "), "{run:?}");
}

#[test]
fn removes_old_tokens() {
    let server = FakeEndpoint::start(|_| granted("ya29.x"));
    let sandbox = adc(Sandbox::new(), &account("a@b", &server.url));
    sandbox.gke(ADC).token();
    let old = sandbox.file(&format!("{CACHE_IN_HOME}/credlet/gcp/{}", "a".repeat(64)), "{}");
    let foreign = sandbox.file(&format!("{CACHE_IN_HOME}/credlet/gcp/notes"), "mine");
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    for path in [&old, &foreign] {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
    }
    sandbox.file("key.json", account("other@b", &server.url));
    sandbox.gke(ADC).token();
    assert!(!old.exists() && foreign.exists(), "only entries are removed");
    assert!(cached_files(&sandbox) >= 2, "what is new stays");
}
