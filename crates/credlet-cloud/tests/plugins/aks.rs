use credlet_cloud::azure::{AccessToken, AzureIdentity, EntraClient, ManagedIdentity};
use credlet_cloud::oauth::TokenError;
use credlet_http::fetch::percent_encode;

use crate::support::{FakeEndpoint, FakeReply, Sandbox, SeenRequest, granted, jwt, key, pem};

const SERVER: &str = "6dae42f8-4368-4678-94ff-3960e28e3630";
const TENANT: &str = "72f988bf-86f1-41af-91ab-2d7cd011db47";

fn flags(login: &str) -> String {
    format!("get-token --login {login} --server-id {SERVER} --tenant-id {TENANT} --client-id cid")
}

fn at(entra: &FakeEndpoint) -> Sandbox {
    Sandbox::new().var("AZURE_AUTHORITY_HOST", format!("{}/", entra.url))
}

#[test]
fn client_secret_token_is_cached_per_secret() {
    let entra = FakeEndpoint::start(|_| granted("eyJ.spn"));
    let mut sandbox = at(&entra);
    let secret = sandbox.watch.secret("client secret");
    sandbox.set("AZURE_CLIENT_SECRET", secret.expose());
    let run = sandbox.aks(&flags("spn"));
    assert_eq!((run.token(), run.expires()), ("eyJ.spn".into(), "2026-11-15T20:17:48Z".into()));
    let seen = &entra.seen()[0];
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("POST", "/72f988bf-86f1-41af-91ab-2d7cd011db47/oauth2/v2.0/token")
    );
    assert_eq!(["grant_type", "client_id"].map(|name| seen.field(name)), ["client_credentials", "cid"]);
    assert_eq!(seen.field("scope"), format!("{SERVER}%2F.default"));
    assert_eq!(seen.field("client_secret"), percent_encode(secret.expose()).as_str());
    assert_eq!(seen.field("client_assertion_type"), "");

    sandbox.aks(&flags("spn")).token();
    assert_eq!(entra.seen().len(), 1, "kept");
    for other in [flags("spn").replace(TENANT, "contoso.example"), flags("spn").replace("cid", "cid2")] {
        sandbox.aks(&other).token();
    }
    sandbox.set("AZURE_CLIENT_SECRET", "another");
    sandbox.aks(&flags("spn")).token();
    assert_eq!(entra.seen().len(), 4, "another tenant, another client, another secret");
}

#[test]
fn env_overrides_flags_unless_disabled() {
    let entra = FakeEndpoint::start(|_| granted("t"));
    let sandbox = at(&entra)
        .var("AAD_LOGIN_METHOD", "spn")
        .var("AAD_SERVICE_PRINCIPAL_CLIENT_ID", "by-kubelogin")
        .var("AAD_SERVICE_PRINCIPAL_CLIENT_SECRET", "s1")
        .var("ARM_CLIENT_ID", "by-terraform")
        .var("ARM_CLIENT_SECRET", "s2");
    sandbox.aks(&flags("msi")).token();
    sandbox.aks(&format!("{} --use-azurerm-env-vars", flags("msi"))).token();
    let host = format!("--authority-host {}", entra.url);
    let off = format!("{} --disable-environment-override --client-secret s3 {host}", flags("spn"));
    sandbox.aks(&off).token();
    let seen: Vec<_> = entra
        .seen()
        .iter()
        .map(|seen| (seen.field("client_id").to_owned(), seen.field("client_secret").to_owned()))
        .collect();
    let expected = [("by-kubelogin", "s1"), ("by-terraform", "s2"), ("cid", "s3")];
    assert_eq!(seen, expected.map(|(id, secret)| (id.to_owned(), secret.to_owned())));
}

#[test]
fn certificate_signs_client_assertion() {
    let entra = FakeEndpoint::start(|_| granted("eyJ.cert"));
    let sandbox = at(&entra);
    let certificate = key().certificate();
    let path = sandbox.file("spn.pem", format!("{}{}", pem("CERTIFICATE", &certificate), key().pem));
    let run = sandbox.aks(&format!("{} --client-certificate {}", flags("spn"), path.display()));
    assert_eq!(run.token(), "eyJ.cert");
    let seen = &entra.seen()[0];
    assert_eq!(seen.field("client_assertion_type"), "urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer");
    let (header, claims) = key().verified(seen.field("client_assertion"));
    assert_eq!(header["alg"], "PS256");
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    assert_eq!(header["x5c"][0], STANDARD.encode(&certificate));
    let print = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &certificate);
    assert_eq!(header["x5t#S256"], URL_SAFE_NO_PAD.encode(print));
    assert_eq!((claims["iss"].as_str(), claims["sub"].as_str()), (Some("cid"), Some("cid")));
    assert_eq!(claims["aud"], format!("{}/{TENANT}/oauth2/v2.0/token", entra.url));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 600);
}

#[test]
fn reports_invalid_certificates() {
    let certificate = pem("CERTIFICATE", &key().certificate());
    let encrypted =
        format!("{certificate}-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    let ec = rcgen::KeyPair::generate().unwrap().serialize_pem();
    for (content, told) in [
        (b"\x30\x82\x01\x00".to_vec(), "not in PEM format\nhint: convert it: `openssl pkcs12"),
        (b"".to_vec(), "invalid client certificate: no certificate found"),
        (certificate.clone().into_bytes(), "invalid key of the client certificate: not a private key in PEM format"),
        (
            encrypted.into_bytes(),
            "invalid key of the client certificate: encrypted keys are not supported\nhint: decrypt it",
        ),
        (format!("{certificate}{ec}").into_bytes(), "invalid key of the client certificate: not an RSA key"),
    ] {
        let sandbox = Sandbox::new();
        let path = sandbox.file("c.pem", content);
        let run = sandbox.aks(&format!("{} --client-certificate {}", flags("spn"), path.display()));
        assert!(run.error().contains(told), "{run:?}");
    }
    let run = Sandbox::new().aks(&format!("{} --client-certificate /nowhere/c.pem", flags("spn")));
    assert!(run.error().contains("failed to read client certificate: /nowhere/c.pem does not exist"), "{run:?}");
}

#[test]
fn federated_token_file_is_read_each_time() {
    let entra = FakeEndpoint::start(|seen| granted(&format!("for-{}", seen.field("client_assertion"))));
    let sandbox = at(&entra);
    let [first, second] = ["first", "second"].map(|sub| jwt(&format!(r#"{{"sub":"{sub}"}}"#)));
    let path = sandbox.file("token", format!("{first}\n"));
    let sandbox = sandbox
        .var("AZURE_FEDERATED_TOKEN_FILE", path.to_str().unwrap())
        .var("AZURE_CLIENT_ID", "wid")
        .var("AZURE_TENANT_ID", TENANT);
    let line = format!("get-token -l workloadidentity --server-id {SERVER}");
    assert_eq!(sandbox.aks(&line).token(), format!("for-{first}"));
    assert_eq!(entra.seen()[0].field("client_id"), "wid");
    sandbox.file("token", &second);
    assert_eq!(sandbox.aks(&line).token(), format!("for-{second}"));
    // The variables of Terraform do not override the client id of the workload's pod.
    let sandbox = sandbox.var("ARM_CLIENT_ID", "terraform").var("ARM_TENANT_ID", TENANT);
    sandbox.aks(&format!("{line} --use-azurerm-env-vars")).token();
    assert!(entra.seen().iter().all(|seen| seen.field("client_id") == "wid"));
    for (content, told) in [("", "empty"), ("two words", "not a JSON web token (JWT), not sent")] {
        sandbox.file("token", content);
        assert!(sandbox.aks(&line).error().contains(told), "{content}");
    }
}

#[test]
fn github_job_uses_its_id_token() {
    let job_token = jwt(r#"{"sub":"repo:acme/app"}"#);
    let issued = format!(r#"{{"count":1,"value":"{job_token}"}}"#);
    let server = FakeEndpoint::start(move |seen: &SeenRequest| match seen.path.split('?').next().unwrap() {
        "/id" => FakeReply::Status(200, issued.clone()),
        _ => granted("eyJ.github"),
    });
    let sandbox = at(&server);
    let bearer = sandbox.watch.secret("request token");
    let sandbox = sandbox
        .var("ACTIONS_ID_TOKEN_REQUEST_URL", format!("{}/id?api-version=2.0", server.url))
        .var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", bearer.expose());
    assert_eq!(sandbox.aks(&flags("workloadidentity")).token(), "eyJ.github");
    let seen = server.seen();
    assert_eq!(seen[0].path, "/id?api-version=2.0&audience=api%3A%2F%2FAzureADTokenExchange");
    assert_eq!(seen[0].header("authorization"), format!("bearer {}", bearer.expose()));
    assert_eq!(seen[1].field("client_assertion"), job_token);
    let run = at(&server).aks(&flags("workloadidentity"));
    assert!(run.error().contains("missing federated token file\nhint: set AZURE_FEDERATED"), "{run:?}");
}

#[test]
fn managed_identity_of_a_vm() {
    let imds = FakeEndpoint::start(|_| {
        FakeReply::Status(
            200,
            r#"{"access_token":"eyJ.msi","expires_in":"3599","expires_on":"1794772800","token_type":"Bearer"}"#.into(),
        )
    });
    let sandbox = Sandbox::new().var("AZURE_POD_IDENTITY_AUTHORITY_HOST", &*imds.url);
    let line = format!("get-token -l msi --server-id {SERVER}");
    let run = sandbox.aks(&line);
    assert_eq!(run.token(), "eyJ.msi");
    sandbox.aks(&format!("{line} --client-id mine")).token();
    sandbox.aks(&format!("{line} --identity-resource-id /subscriptions/x")).token();
    let seen = imds.seen();
    let base = format!("/metadata/identity/oauth2/token?api-version=2018-02-01&resource={SERVER}");
    assert_eq!(
        seen.iter().map(|seen| seen.path.clone()).collect::<Vec<_>>(),
        [base.clone(), format!("{base}&client_id=mine"), format!("{base}&msi_res_id=%2Fsubscriptions%2Fx"),]
    );
    assert!(seen.iter().all(|seen| seen.header("metadata") == "true"));
    assert_eq!(seen.len(), 3, "the machine is request each time");
}

#[test]
fn managed_identity_of_app_service() {
    let endpoint =
        FakeEndpoint::start(|_| FakeReply::Status(200, r#"{"access_token":"eyJ.app","expires_on":1794772800}"#.into()));
    let sandbox = Sandbox::new().var("IDENTITY_ENDPOINT", format!("{}/msi/token", endpoint.url));
    let header = sandbox.watch.secret("identity header");
    let run = sandbox.var("IDENTITY_HEADER", header.expose()).aks(&format!("-l msi --server-id {SERVER}"));
    assert_eq!((run.token(), run.expires()), ("eyJ.app".into(), "2026-11-15T20:00:00Z".into()));
    let seen = &endpoint.seen()[0];
    assert_eq!(seen.path, format!("/msi/token?api-version=2019-08-01&resource={SERVER}"));
    assert_eq!(seen.header("x-identity-header"), header.expose());
}

#[test]
fn managed_identity_of_azure_arc() {
    let sandbox = Sandbox::new();
    let secret = sandbox.watch.secret("key of the agent");
    let keys = sandbox.home.path().join("tokens");
    let path = sandbox.file("tokens/7f3c.key", secret.expose());
    // Like the agent: a request without the key gets a challenge with its path.
    let (basic, realm) = (format!("Basic {}", secret.expose()), format!("Basic realm={}", path.display()));
    let agent = FakeEndpoint::start(move |request| {
        if request.header("authorization") == basic {
            FakeReply::Status(
                200,
                r#"{"access_token":"eyJ.arc","expires_in":"86400","expires_on":"1794772800"}"#.into(),
            )
        } else {
            FakeReply::WithHeader(401, "WWW-Authenticate", realm.clone(), String::new())
        }
    });
    let sandbox = sandbox
        .var("IDENTITY_ENDPOINT", format!("{}/metadata/identity/oauth2/token", agent.url))
        .var("IMDS_ENDPOINT", &*agent.url);
    let ask = |identity, resource| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let entra = EntraClient::new(&sandbox.platform()).with_arc_key_dir(&keys);
        runtime.block_on(entra.token(&AzureIdentity::ManagedIdentity(identity), resource))
    };
    let token = ask(ManagedIdentity::default(), "6dae42f8-4368-4678-94ff-3960e28e3630/.default").unwrap();
    assert_eq!((token.token.expose(), token.expires), ("eyJ.arc", Some("2026-11-15T20:00:00Z".parse().unwrap())));
    let expected = format!("/metadata/identity/oauth2/token?api-version=2020-06-01&resource={SERVER}");
    let seen = agent.seen();
    assert_eq!(seen.iter().map(|request| &*request.path).collect::<Vec<_>>(), [&*expected; 2]);
    assert!(seen.iter().all(|request| request.header("metadata") == "true"));
    assert_eq!(seen[0].header("authorization"), "");

    // Azure Arc has no other identity, so a request for one must fail.
    let told = |result: Result<AccessToken, TokenError>| {
        let error = result.unwrap_err();
        sandbox.watch.error(&error);
        error.to_string()
    };
    let refused = told(ask(ManagedIdentity::new(Some("cid".into()), None), SERVER));
    assert!(refused.contains("supports only the system-assigned identity"), "{refused}");
    assert_eq!(agent.seen().len(), 2);
    // The agent rejects another key.
    std::fs::write(&path, "another").unwrap();
    assert!(
        told(ask(ManagedIdentity::default(), SERVER)).contains("rejected the request for managed identity token: 401")
    );
    std::fs::remove_file(&path).unwrap();
    assert!(told(ask(ManagedIdentity::default(), SERVER)).contains("failed to read key of the Azure Arc agent"));
}

#[test]
fn arc_challenge_cannot_name_other_files() {
    for realm in
        ["/etc/passwd", "/var/opt/azcmagent/tokens/../../../../etc/x.key", "/var/opt/azcmagent/tokens/x.pem", "x.key"]
    {
        let agent = FakeEndpoint::start(move |_| {
            FakeReply::WithHeader(401, "WWW-Authenticate", format!("Basic realm={realm}"), String::new())
        });
        let sandbox = Sandbox::new().var("IDENTITY_ENDPOINT", &*agent.url).var("IMDS_ENDPOINT", &*agent.url);
        let run = sandbox.aks(&format!("-l msi --server-id {SERVER}"));
        assert!(run.error().contains("it names no key file of the Azure Arc agent"), "{run:?}");
        assert_eq!(agent.seen().len(), 1);
    }
}

#[test]
fn reports_entra_error_code_without_secrets() {
    let sandbox = Sandbox::new();
    let secret = sandbox.watch.secret("client secret");
    let text = format!(
        r#"{{"error":"invalid_client","error_description":"bad {}","error_codes":[7000215]}}"#,
        secret.expose()
    );
    let entra = FakeEndpoint::start(move |_| FakeReply::Status(401, text.clone()));
    let run =
        sandbox.var("AZURE_AUTHORITY_HOST", &*entra.url).var("AZURE_CLIENT_SECRET", secret.expose()).aks(&flags("spn"));
    assert!(
        run.error().contains(
            "rejected the request for token of client cid: 401 Unauthorized (AADSTS7000215)\nhint: the client secret is wrong"
        ),
        "{run:?}"
    );
}

#[test]
fn reports_missing_and_unsupported_settings() {
    for (line, told) in [
        ("get-token -l spn", "missing `--server-id`"),
        ("get-token -l spn --server-id x --client-secret y", "missing `--tenant-id`"),
        ("get-token -l spn --server-id x --client-secret y -t z", "missing `--client-id`"),
        ("get-token -l spn --server-id x -t z --client-id c", "missing client secret"),
        ("get-token -l azurecli --server-id x", "unsupported method `azurecli`\nhint: keep the command `kubelogin`"),
        ("get-token -l azurepipelines --server-id x", "hint: keep the command `kubelogin`"),
        ("get-token -l magic --server-id x", "hint: use devicecode, interactive, spn, msi or workloadidentity"),
        ("get-token -l msi --server-id x --environment Mars", "invalid --environment: unknown environment `Mars`"),
        (
            "get-token -l spn --server-id x --client-secret y -t ../z --client-id c",
            "invalid tenant: neither an id nor a domain",
        ),
        ("get-token -l msi --server-id x --pop-enabled", "proof-of-possession"),
        ("get-token -l msi --server-id x --legacy", "--legacy"),
        ("convert-kubeconfig", "unknown command `convert-kubeconfig`"),
    ] {
        let run = Sandbox::new().aks(line);
        assert!(run.error().contains(told), "{line}: {run:?}");
    }
}
