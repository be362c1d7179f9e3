//! A kubeconfig chooses variables and arguments: no file but a token leaves this machine, no secret travels over http, and
//! bearer secrets of a login go to hosts of their issuer only.

use std::path::Path;

use serde_json::json;

use crate::support::{FakeEndpoint, FakeReply, PluginRun, Sandbox, granted, jwt, key, watched_jwt};

const ADC: &str = "--use_application_default_credentials";
const AKS: &str = "--server-id s --tenant-id t --client-id c";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
const SAML: &str = "urn:ietf:params:oauth:token-type:saml2";

/// A plugin that reads a file named by the environment, and sends it to an endpoint named by the environment or prints it.
struct TokenFileCase {
    name: &'static str,
    run: fn(Sandbox, file: &Path, endpoint: &str) -> PluginRun,
}

const TOKEN_FILE_CASES: [TokenFileCase; 11] = [
    TokenFileCase {
        name: "AWS_WEB_IDENTITY_TOKEN_FILE",
        run: |sandbox, file, endpoint| {
            let sandbox = sandbox.var("AWS_WEB_IDENTITY_TOKEN_FILE", text(file)).var("AWS_ROLE_ARN", "arn:r");
            sandbox.var("AWS_ENDPOINT_URL_STS", endpoint).eks("-i demo")
        },
    },
    TokenFileCase {
        name: "web_identity_token_file",
        run: |sandbox, file, endpoint| {
            let config = format!("[default]\nrole_arn = r\nweb_identity_token_file = {}\n", file.display());
            let config = sandbox.file("aws-config", config);
            sandbox.var("AWS_CONFIG_FILE", text(&config)).var("AWS_ENDPOINT_URL", endpoint).eks("-i demo")
        },
    },
    TokenFileCase {
        name: "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        run: |sandbox, file, endpoint| {
            let sandbox = sandbox.var("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", text(file));
            sandbox.var("AWS_CONTAINER_CREDENTIALS_FULL_URI", endpoint).eks("-i demo")
        },
    },
    TokenFileCase {
        name: "AZURE_FEDERATED_TOKEN_FILE",
        run: |sandbox, file, endpoint| {
            let sandbox = sandbox.var("AZURE_FEDERATED_TOKEN_FILE", text(file)).var("AZURE_AUTHORITY_HOST", endpoint);
            sandbox.aks(&format!("-l workloadidentity {AKS}"))
        },
    },
    TokenFileCase {
        name: "--federated-token-file",
        run: |sandbox, file, endpoint| {
            let line = format!("-l workloadidentity {AKS} --federated-token-file {}", file.display());
            sandbox.aks(&format!("{line} --authority-host {endpoint}"))
        },
    },
    TokenFileCase {
        name: "credential_source of Google, text",
        run: |sandbox, file, endpoint| external(sandbox, &json!({ "file": file }), JWT, endpoint),
    },
    TokenFileCase {
        name: "credential_source of Google, JSON",
        run: |sandbox, file, endpoint| {
            let content = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file);
            let content = content.and_then(|_| std::fs::read(file).ok()).unwrap_or_default();
            let document = json!({ "member": String::from_utf8_lossy(&content) }).to_string();
            let file = if content.is_empty() { file.to_owned() } else { sandbox.file("member.json", document) };
            let format = json!({ "type": "json", "subject_token_field_name": "member" });
            external(sandbox, &json!({ "file": file, "format": format }), JWT, endpoint)
        },
    },
    TokenFileCase {
        name: "credential_source of Google, SAML",
        run: |sandbox, file, endpoint| external(sandbox, &json!({ "file": file }), SAML, endpoint),
    },
    TokenFileCase {
        name: "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE",
        run: |sandbox, file, _| sandbox.var("CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", text(file)).gke(""),
    },
    TokenFileCase {
        name: "OCI_CLI_SECURITY_TOKEN_FILE",
        run: |sandbox, file, _| {
            let sandbox = sandbox.var("OCI_CLI_AUTH", "security_token").var("OCI_CLI_KEY_CONTENT", &key().pem);
            sandbox.var("OCI_CLI_SECURITY_TOKEN_FILE", text(file)).oke("--cluster-id ocid1 --region eu-x-1")
        },
    },
    TokenFileCase {
        name: "--file of ci-token",
        run: |sandbox, file, _| sandbox.ci_token(&format!("--file {}", file.display())),
    },
];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The application default credentials of an external account.
fn external(sandbox: Sandbox, source: &serde_json::Value, kind: &str, endpoint: &str) -> PluginRun {
    let document = json!({ "type": "external_account", "audience": "a", "subject_token_type": kind, "token_url": endpoint,
        "credential_source": source });
    let path = sandbox.file("adc.json", document.to_string());
    sandbox.var("GOOGLE_APPLICATION_CREDENTIALS", text(&path)).gke(ADC)
}

#[test]
fn sends_only_files_that_are_tokens() {
    let ssh = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n";
    let shadow = "root:$6$hunter2:19000:0:99999:7:::\n";
    let ini = "[default]\naws_access_key_id = AKIA\naws_secret_access_key = hunter2\n";
    let kubeconfig = "apiVersion: v1\nusers:\n- name: ada\n  user:\n    token: hunter2\n";
    let (unsigned, encrypted) = (jwt("{}").rsplit_once('.').unwrap().0.to_owned(), format!("{}.a.b", jwt("{}")));
    let files: [(&str, Vec<u8>); 13] = [
        ("SSH key", ssh.into()),
        ("PEM key", key().pem.clone().into()),
        ("shadow", shadow.into()),
        ("INI", ini.into()),
        ("kubeconfig", kubeconfig.into()),
        ("JSON", br#"{"refresh_token":"1//hunter2"}"#.to_vec()),
        ("one secret word", b"hvs.hunter2\n".to_vec()),
        ("three words with dots", b"a.b.c".to_vec()),
        ("JWT without a signature", unsigned.into()),
        ("encrypted JWT", encrypted.into()),
        ("two JWTs", format!("{}\n{}", jwt("{}"), jwt("{}")).into()),
        ("binary", (0..=255).collect()),
        ("10 MB", vec![b'a'; 10_000_000]),
    ];
    let endpoint = FakeEndpoint::start(|_| FakeReply::Status(500, String::new()));
    for TokenFileCase { name, run } in TOKEN_FILE_CASES {
        for (content, bytes) in &files {
            let sandbox = Sandbox::new();
            let file = sandbox.file("victim", bytes);
            let run = run(sandbox, &file, &endpoint.url);
            assert!(!run.error().contains("hunter2"), "{name}, {content}: {run:?}");
        }
        let sandbox = Sandbox::new();
        let pipe = sandbox.home.path().join("pipe");
        credlet_testkit::make_fifo(&pipe);
        for file in [&*pipe, Path::new("/dev/zero"), Path::new("/")] {
            run(Sandbox::new(), file, &endpoint.url).error();
        }
    }
    assert_eq!(endpoint.seen().len(), 0, "{:?}", endpoint.seen());
}

#[test]
fn token_reaches_each_endpoint() {
    // Shows that the cases of the table are effective.
    for TokenFileCase { name, run } in &TOKEN_FILE_CASES[..7] {
        let sandbox = Sandbox::new();
        let token = watched_jwt(&sandbox.watch, "{}");
        let file = sandbox.file("token", token.expose());
        let endpoint = FakeEndpoint::start(|_| FakeReply::Status(500, String::new()));
        run(sandbox, &file, &endpoint.url).error();
        let seen = &endpoint.seen()[0];
        let sent = seen.body.contains(token.expose()) || seen.header("authorization") == token.expose();
        assert!(sent, "{name}: {seen:?}");
    }
}

#[test]
fn no_identity_token_over_remote_http() {
    for TokenFileCase { name, run } in &TOKEN_FILE_CASES[..7] {
        for endpoint in ["http://192.0.2.1", "http://169.254.66.66", "http://localhost.example", "http://0.0.0.0:1"] {
            let sandbox = Sandbox::new();
            let token = watched_jwt(&sandbox.watch, "{}");
            let file = sandbox.file("token", token.expose());
            let run = run(sandbox, &file, endpoint);
            assert!(run.error().contains("refused to send credentials to"), "{name}, {endpoint}: {run:?}");
        }
    }
}

/// A plugin that sends a secret to an endpoint named by the environment.
struct BearerCase {
    name: &'static str,
    run: fn(Sandbox, endpoint: &str) -> PluginRun,
}

/// Plugins with bearer secrets, which any recipient could use.
const BEARER_CASES: [BearerCase; 7] = [
    BearerCase {
        name: "SSO access token",
        run: |sandbox, endpoint| sso(sandbox, "2026-11-15T23:00:00Z").var("AWS_ENDPOINT_URL_SSO", endpoint).eks(SSO),
    },
    BearerCase {
        name: "SSO access token, by AWS_ENDPOINT_URL",
        run: |sandbox, endpoint| sso(sandbox, "2026-11-15T23:00:00Z").var("AWS_ENDPOINT_URL", endpoint).eks(SSO),
    },
    BearerCase {
        name: "refresh token of gcloud",
        run: |sandbox, endpoint| {
            let user =
                json!({ "type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r" });
            sandbox.file(".config/gcloud/application_default_credentials.json", user.to_string());
            sandbox.var("CLOUDSDK_AUTH_TOKEN_HOST", endpoint).gke(ADC)
        },
    },
    BearerCase {
        name: "access token for an impersonation",
        run: |sandbox, endpoint| {
            let path = sandbox.file("token", "ya29.mine");
            let sandbox = sandbox.var("CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", text(&path));
            // Additional slashes must not bypass the check.
            let sandbox = sandbox.var("CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS", format!("{endpoint}//"));
            sandbox.gke("--impersonate_service_account=robot@p")
        },
    },
    BearerCase {
        name: "client secret of Azure",
        run: |sandbox, endpoint| {
            let sandbox = sandbox.var("AZURE_CLIENT_SECRET", "s").var("AZURE_AUTHORITY_HOST", endpoint);
            sandbox.aks(&format!("-l spn {AKS}"))
        },
    },
    BearerCase {
        name: "identity header of App Service",
        run: |sandbox, endpoint| {
            let sandbox = sandbox.var("IDENTITY_ENDPOINT", endpoint).var("IDENTITY_HEADER", "h");
            sandbox.aks("-l msi --server-id s")
        },
    },
    BearerCase {
        name: "request token of a CI job",
        run: |sandbox, endpoint| {
            let sandbox = sandbox.var("GITHUB_SERVER_URL", "https://github.com");
            let sandbox =
                sandbox.var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "t").var("ACTIONS_ID_TOKEN_REQUEST_URL", endpoint);
            sandbox.ci_token("")
        },
    },
];

const SSO: &str = "-i demo --profile x";

/// Stores a login like `aws sso login`.
fn sso(sandbox: Sandbox, expires: &str) -> Sandbox {
    sandbox.file(
        ".aws/config",
        "[profile x]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = r\n\
         [sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp.example\n",
    );
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, b"corp");
    let name = credlet_api::hex(digest);
    let login = json!({ "accessToken": "a", "expiresAt": expires, "refreshToken": "r", "clientId": "c",
        "clientSecret": "s", "registrationExpiresAt": "2027-01-01T00:00:00Z" });
    sandbox.file(&format!(".aws/sso/cache/{name}.json"), login.to_string());
    sandbox
}

#[test]
fn bearer_secrets_go_to_their_issuer_only() {
    for BearerCase { name, run } in BEARER_CASES {
        for endpoint in ["https://192.0.2.1", "https://googleapis.com.evil.example"] {
            let run = run(Sandbox::new(), endpoint);
            assert!(run.error().contains("which is not a host of its issuer"), "{name}: {run:?}");
        }
        let run = run(Sandbox::new(), "http://192.0.2.1");
        assert!(run.error().contains("refused to send credentials to 192.0.2.1:80 over http"), "{name}: {run:?}");
    }
}

#[test]
fn sso_refresh_token_is_sent_only_to_aws() {
    // An expired token that cannot be refreshed counts as an expired login.
    let sandbox = sso(Sandbox::new(), "2026-11-15T19:00:00Z").var("AWS_ENDPOINT_URL_SSO_OIDC", "https://192.0.2.1");
    assert!(sandbox.eks(SSO).error().contains("SSO login of AWS profile `x` has expired"));
}

#[test]
fn ci_request_token_is_sent_only_to_its_server() {
    let sandbox = |server: &str| {
        Sandbox::new()
            .var("GITHUB_SERVER_URL", server)
            .var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "t")
            .var("ACTIONS_ID_TOKEN_REQUEST_URL", "https://evil.example/id")
    };
    for server in ["https://ghes.example", "nonsense", "https://xevil.example"] {
        let run = sandbox(server).ci_token("");
        assert!(run.error().contains("which is not a host of its issuer"), "{server}: {run:?}");
    }
}

#[test]
fn no_cached_token_after_identity_removed() {
    let server = FakeEndpoint::start(|seen| match &*seen.path {
        "/subject" => FakeReply::Status(200, jwt(r#"{"sub":"ada"}"#)),
        _ => granted("ya29.federated"),
    });
    let sandbox = Sandbox::new();
    let file = sandbox.file("subject", jwt(r#"{"sub":"ada"}"#));
    let sources = [json!({ "file": file }), json!({ "url": format!("{}/subject", server.url) })];
    let document = |source: &serde_json::Value| {
        json!({ "type": "external_account", "audience": "a", "subject_token_type": JWT, "token_url": server.url,
            "credential_source": source })
        .to_string()
    };
    let path = sandbox.file("adc.json", "");
    let sandbox = sandbox.var("GOOGLE_APPLICATION_CREDENTIALS", text(&path));
    for source in &sources {
        sandbox.file("adc.json", document(source));
        assert_eq!(sandbox.gke(ADC).token(), "ya29.federated");
    }
    let exchanges = || server.seen().iter().filter(|seen| seen.path != "/subject").count();
    assert_eq!(exchanges(), 1, "one identity, whichever way it came");
    std::fs::remove_file(&file).unwrap();
    sandbox.file("adc.json", document(&sources[0]));
    assert!(sandbox.gke(ADC).error().contains("does not exist"));

    let entra = FakeEndpoint::start(|_| granted("eyJ.workload"));
    let sandbox = Sandbox::new().var("AZURE_AUTHORITY_HOST", &*entra.url);
    let file = sandbox.file("token", jwt(r#"{"sub":"pod"}"#));
    let line = format!("-l workloadidentity {AKS} --federated-token-file {}", file.display());
    assert_eq!(sandbox.aks(&line).token(), "eyJ.workload");
    std::fs::remove_file(&file).unwrap();
    assert!(sandbox.aks(&line).error().contains("does not exist"));
}

#[test]
fn changed_identity_gets_its_own_token() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let who = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&who);
    let server = FakeEndpoint::start(move |seen| match &*seen.path {
        "/subject" => match now.load(Ordering::SeqCst) {
            2 => FakeReply::Status(404, "{}".into()),
            number => FakeReply::Status(200, jwt(&format!(r#"{{"sub":"{number}"}}"#))),
        },
        _ => granted(&format!("ya29.{}", now.load(Ordering::SeqCst))),
    });
    let document = json!({ "type": "external_account", "audience": "a", "subject_token_type": JWT,
        "token_url": server.url, "credential_source": { "url": format!("{}/subject", server.url) } });
    let sandbox = Sandbox::new();
    let path = sandbox.file("adc.json", document.to_string());
    let sandbox = sandbox.var("GOOGLE_APPLICATION_CREDENTIALS", text(&path));
    assert_eq!(sandbox.gke(ADC).token(), "ya29.0");
    who.store(1, Ordering::SeqCst);
    assert_eq!(sandbox.gke(ADC).token(), "ya29.1");
    who.store(2, Ordering::SeqCst);
    sandbox.gke(ADC).error();
}

#[test]
fn access_token_does_not_outlive_identity_token() {
    // 2026-11-15T19:30:00Z
    let token = jwt(r#"{"exp":1794771000}"#);
    let server = FakeEndpoint::start(|_| granted("opaque"));
    let sandbox = Sandbox::new().var("AZURE_AUTHORITY_HOST", &*server.url);
    let file = sandbox.file("token", &token);
    let line = format!("-l workloadidentity {AKS} --federated-token-file {}", file.display());
    assert_eq!(sandbox.aks(&line).expires(), "2026-11-15T19:30:00Z");
    let run = external(sandbox, &json!({ "file": file }), JWT, &server.url);
    assert_eq!(run.expires(), "2026-11-15T19:30:00Z");
}
