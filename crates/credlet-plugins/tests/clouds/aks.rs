use credlet_plugins::azure::{AccessToken, Entra, Identity, Managed};
use credlet_plugins::oauth::Error;
use credlet_plugins::web::escaped;

use crate::support::{Peer, Reply, Seen, Stage, granted, key, pem};

const SERVER: &str = "6dae42f8-4368-4678-94ff-3960e28e3630";
const TENANT: &str = "72f988bf-86f1-41af-91ab-2d7cd011db47";

fn flags(login: &str) -> String {
    format!("get-token --login {login} --server-id {SERVER} --tenant-id {TENANT} --client-id cid")
}

fn at(entra: &Peer) -> Stage {
    Stage::new().var("AZURE_AUTHORITY_HOST", format!("{}/", entra.url))
}

#[test]
fn a_service_principal_logs_in_with_its_secret_and_is_kept_for_that_secret() {
    let entra = Peer::start(|_| granted("eyJ.spn"));
    let mut stage = at(&entra);
    let secret = stage.watch.secret("client secret");
    stage.set("AZURE_CLIENT_SECRET", secret.expose());
    let run = stage.aks(&flags("spn"));
    assert_eq!((run.token(), run.expires()), ("eyJ.spn".into(), "2026-11-15T20:17:48Z".into()));
    let seen = &entra.seen()[0];
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("POST", "/72f988bf-86f1-41af-91ab-2d7cd011db47/oauth2/v2.0/token")
    );
    assert_eq!(["grant_type", "client_id"].map(|name| seen.field(name)), ["client_credentials", "cid"]);
    assert_eq!(seen.field("scope"), format!("{SERVER}%2F.default"));
    assert_eq!(seen.field("client_secret"), escaped(secret.expose()).as_str());
    assert_eq!(seen.field("client_assertion_type"), "");

    stage.aks(&flags("spn")).token();
    assert_eq!(entra.seen().len(), 1, "kept");
    for other in [flags("spn").replace(TENANT, "contoso.example"), flags("spn").replace("cid", "cid2")] {
        stage.aks(&other).token();
    }
    stage.set("AZURE_CLIENT_SECRET", "another");
    stage.aks(&flags("spn")).token();
    assert_eq!(entra.seen().len(), 4, "another tenant, another client, another secret");
}

#[test]
fn variables_go_before_flags_unless_that_is_switched_off() {
    let entra = Peer::start(|_| granted("t"));
    let stage = at(&entra)
        .var("AAD_LOGIN_METHOD", "spn")
        .var("AAD_SERVICE_PRINCIPAL_CLIENT_ID", "by-kubelogin")
        .var("AAD_SERVICE_PRINCIPAL_CLIENT_SECRET", "s1")
        .var("ARM_CLIENT_ID", "by-terraform")
        .var("ARM_CLIENT_SECRET", "s2");
    stage.aks(&flags("msi")).token();
    stage.aks(&format!("{} --use-azurerm-env-vars", flags("msi"))).token();
    let host = format!("--authority-host {}", entra.url);
    let off = format!("{} --disable-environment-override --client-secret s3 {host}", flags("spn"));
    stage.aks(&off).token();
    let seen: Vec<_> = entra
        .seen()
        .iter()
        .map(|seen| (seen.field("client_id").to_owned(), seen.field("client_secret").to_owned()))
        .collect();
    let expected = [("by-kubelogin", "s1"), ("by-terraform", "s2"), ("cid", "s3")];
    assert_eq!(seen, expected.map(|(id, secret)| (id.to_owned(), secret.to_owned())));
}

#[test]
fn a_certificate_signs_who_we_are() {
    let entra = Peer::start(|_| granted("eyJ.cert"));
    let stage = at(&entra);
    let certificate = key().certificate();
    let path = stage.file("spn.pem", format!("{}{}", pem("CERTIFICATE", &certificate), key().pem));
    let run = stage.aks(&format!("{} --client-certificate {}", flags("spn"), path.display()));
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
fn certificates_of_no_use_are_told_apart() {
    let certificate = pem("CERTIFICATE", &key().certificate());
    let encrypted =
        format!("{certificate}-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    let ec = rcgen::KeyPair::generate().unwrap().serialize_pem();
    for (content, told) in [
        (b"\x30\x82\x01\x00".to_vec(), "is not in PEM form\nhint: make it so: `openssl pkcs12"),
        (b"".to_vec(), "the client certificate holds no certificate"),
        (certificate.clone().into_bytes(), "the key of the client certificate is not a private key in PEM form"),
        (encrypted.into_bytes(), "the key of the client certificate is encrypted\nhint: decrypt it"),
        (format!("{certificate}{ec}").into_bytes(), "the key of the client certificate is not an RSA key"),
    ] {
        let stage = Stage::new();
        let path = stage.file("c.pem", content);
        let run = stage.aks(&format!("{} --client-certificate {}", flags("spn"), path.display()));
        assert!(run.refusal().contains(told), "{run:?}");
    }
    let run = Stage::new().aks(&format!("{} --client-certificate /nowhere/c.pem", flags("spn")));
    assert!(run.refusal().contains("the client certificate cannot be read from /nowhere/c.pem"), "{run:?}");
}

#[test]
fn a_workload_shows_the_token_in_its_file_which_may_change() {
    let entra = Peer::start(|seen| granted(&format!("for-{}", seen.field("client_assertion"))));
    let stage = at(&entra);
    let path = stage.file("token", "first\n");
    let stage = stage
        .var("AZURE_FEDERATED_TOKEN_FILE", path.to_str().unwrap())
        .var("AZURE_CLIENT_ID", "wid")
        .var("AZURE_TENANT_ID", TENANT);
    let line = format!("get-token -l workloadidentity --server-id {SERVER}");
    assert_eq!(stage.aks(&line).token(), "for-first");
    assert_eq!(entra.seen()[0].field("client_id"), "wid");
    stage.file("token", "second");
    assert_eq!(stage.aks(&line).token(), "for-second");
    // Terraform's variables are about another client than the one whose pod this is.
    let stage = stage.var("ARM_CLIENT_ID", "terraform").var("ARM_TENANT_ID", TENANT);
    stage.aks(&format!("{line} --use-azurerm-env-vars")).token();
    assert!(entra.seen().iter().all(|seen| seen.field("client_id") == "wid"));
    for (content, told) in [("", "is empty"), ("two words", "holds more than a token")] {
        stage.file("token", content);
        assert!(stage.aks(&line).refusal().contains(told), "{content}");
    }
}

#[test]
fn a_job_of_github_asks_for_a_token_and_shows_it() {
    let server = Peer::start(|seen: &Seen| match seen.path.split('?').next().unwrap() {
        "/id" => Reply::Answer(200, r#"{"count":1,"value":"job-token"}"#.into()),
        _ => granted("eyJ.github"),
    });
    let stage = at(&server);
    let bearer = stage.watch.secret("request token");
    let stage = stage
        .var("ACTIONS_ID_TOKEN_REQUEST_URL", format!("{}/id?api-version=2.0", server.url))
        .var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", bearer.expose());
    assert_eq!(stage.aks(&flags("workloadidentity")).token(), "eyJ.github");
    let seen = server.seen();
    assert_eq!(seen[0].path, "/id?api-version=2.0&audience=api%3A%2F%2FAzureADTokenExchange");
    assert_eq!(seen[0].header("authorization"), format!("bearer {}", bearer.expose()));
    assert_eq!(seen[1].field("client_assertion"), "job-token");
    let run = at(&server).aks(&flags("workloadidentity"));
    assert!(
        run.refusal().contains("the file with the federated token is missing\nhint: set AZURE_FEDERATED"),
        "{run:?}"
    );
}

#[test]
fn a_machine_has_identities() {
    let imds = Peer::start(|_| {
        Reply::Answer(
            200,
            r#"{"access_token":"eyJ.msi","expires_in":"3599","expires_on":"1794772800","token_type":"Bearer"}"#.into(),
        )
    });
    let stage = Stage::new().var("AZURE_POD_IDENTITY_AUTHORITY_HOST", &*imds.url);
    let line = format!("get-token -l msi --server-id {SERVER}");
    let run = stage.aks(&line);
    assert_eq!(run.token(), "eyJ.msi");
    stage.aks(&format!("{line} --client-id mine")).token();
    stage.aks(&format!("{line} --identity-resource-id /subscriptions/x")).token();
    let seen = imds.seen();
    let base = format!("/metadata/identity/oauth2/token?api-version=2018-02-01&resource={SERVER}");
    assert_eq!(
        seen.iter().map(|seen| seen.path.clone()).collect::<Vec<_>>(),
        [base.clone(), format!("{base}&client_id=mine"), format!("{base}&msi_res_id=%2Fsubscriptions%2Fx"),]
    );
    assert!(seen.iter().all(|seen| seen.header("metadata") == "true"));
    assert_eq!(seen.len(), 3, "the machine is asked each time");
}

#[test]
fn an_app_service_has_its_own_endpoint() {
    let endpoint = Peer::start(|_| Reply::Answer(200, r#"{"access_token":"eyJ.app","expires_on":1794772800}"#.into()));
    let stage = Stage::new().var("IDENTITY_ENDPOINT", format!("{}/msi/token", endpoint.url));
    let header = stage.watch.secret("identity header");
    let run = stage.var("IDENTITY_HEADER", header.expose()).aks(&format!("-l msi --server-id {SERVER}"));
    assert_eq!((run.token(), run.expires()), ("eyJ.app".into(), "2026-11-15T20:00:00Z".into()));
    let seen = &endpoint.seen()[0];
    assert_eq!(seen.path, format!("/msi/token?api-version=2019-08-01&resource={SERVER}"));
    assert_eq!(seen.header("x-identity-header"), header.expose());
}

#[test]
fn arcs_agent_gives_a_token_to_who_can_read_its_key() {
    let stage = Stage::new();
    let secret = stage.watch.secret("key of the agent");
    let keys = stage.home.path().join("tokens");
    let path = stage.file("tokens/7f3c.key", secret.expose());
    // As the agent does: without the key it says where that lies.
    let (basic, realm) = (format!("Basic {}", secret.expose()), format!("Basic realm={}", path.display()));
    let agent = Peer::start(move |asked| {
        if asked.header("authorization") == basic {
            Reply::Answer(200, r#"{"access_token":"eyJ.arc","expires_in":"86400","expires_on":"1794772800"}"#.into())
        } else {
            Reply::With(401, "WWW-Authenticate", realm.clone(), String::new())
        }
    });
    let stage = stage
        .var("IDENTITY_ENDPOINT", format!("{}/metadata/identity/oauth2/token", agent.url))
        .var("IMDS_ENDPOINT", &*agent.url);
    let ask = |identity, resource| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let entra = Entra::new(&stage.world()).arc_keys(&keys);
        runtime.block_on(entra.token(&Identity::Managed(identity), resource))
    };
    let token = ask(Managed::default(), "6dae42f8-4368-4678-94ff-3960e28e3630/.default").unwrap();
    assert_eq!((token.token.expose(), token.expires), ("eyJ.arc", Some("2026-11-15T20:00:00Z".parse().unwrap())));
    let expected = format!("/metadata/identity/oauth2/token?api-version=2020-06-01&resource={SERVER}");
    let seen = agent.seen();
    assert_eq!(seen.iter().map(|asked| &*asked.path).collect::<Vec<_>>(), [&*expected; 2]);
    assert!(seen.iter().all(|asked| asked.header("metadata") == "true"));
    assert_eq!(seen[0].header("authorization"), "");

    // It has no other identity, so that nobody gets this one's token for another's.
    let told = |result: Result<AccessToken, Error>| {
        let error = result.unwrap_err();
        stage.watch.error(&error);
        error.to_string()
    };
    let refused = told(ask(Managed::new(Some("cid".into()), None), SERVER));
    assert!(refused.contains("has no identity but its own"), "{refused}");
    assert_eq!(agent.seen().len(), 2);
    // The agent has changed its mind since.
    std::fs::write(&path, "another").unwrap();
    assert!(told(ask(Managed::default(), SERVER)).contains("refused a token of this machine's identity: 401"));
    std::fs::remove_file(&path).unwrap();
    assert!(told(ask(Managed::default(), SERVER)).contains("the key of Arc's agent cannot be read"));
}

#[test]
fn arcs_agent_cannot_have_other_files_read() {
    for realm in
        ["/etc/passwd", "/var/opt/azcmagent/tokens/../../../../etc/x.key", "/var/opt/azcmagent/tokens/x.pem", "x.key"]
    {
        let agent =
            Peer::start(move |_| Reply::With(401, "WWW-Authenticate", format!("Basic realm={realm}"), String::new()));
        let stage = Stage::new().var("IDENTITY_ENDPOINT", &*agent.url).var("IMDS_ENDPOINT", &*agent.url);
        let run = stage.aks(&format!("-l msi --server-id {SERVER}"));
        assert!(run.refusal().contains("that names no key of Arc's agent"), "{run:?}");
        assert_eq!(agent.seen().len(), 1);
    }
}

#[test]
fn a_refusal_is_told_by_its_number_and_without_secrets() {
    let stage = Stage::new();
    let secret = stage.watch.secret("client secret");
    let text = format!(
        r#"{{"error":"invalid_client","error_description":"bad {}","error_codes":[7000215]}}"#,
        secret.expose()
    );
    let entra = Peer::start(move |_| Reply::Answer(401, text.clone()));
    let run =
        stage.var("AZURE_AUTHORITY_HOST", &*entra.url).var("AZURE_CLIENT_SECRET", secret.expose()).aks(&flags("spn"));
    assert!(
        run.refusal().contains(
            "refused a token for the client cid: 401 Unauthorized (AADSTS7000215)\nhint: the client secret is wrong"
        ),
        "{run:?}"
    );
}

#[test]
fn what_is_missing_or_not_known_here_is_told() {
    for (line, told) in [
        ("get-token -l spn", "`--server-id` is missing"),
        ("get-token -l spn --server-id x --client-secret y", "`--tenant-id` is missing"),
        ("get-token -l spn --server-id x --client-secret y -t z", "`--client-id` is missing"),
        ("get-token -l spn --server-id x -t z --client-id c", "the client's secret is missing"),
        (
            "get-token -l azurecli --server-id x",
            "is `azurecli`, which is not known here\nhint: leave the command `kubelogin`",
        ),
        ("get-token -l azurepipelines --server-id x", "hint: leave the command `kubelogin`"),
        ("get-token -l magic --server-id x", "hint: devicecode, interactive, spn, msi and workloadidentity are"),
        ("get-token -l msi --server-id x --environment Mars", "--environment is `Mars`"),
        (
            "get-token -l spn --server-id x --client-secret y -t ../z --client-id c",
            "the tenant is neither an id nor a domain",
        ),
        ("get-token -l msi --server-id x --pop-enabled", "proof of possession"),
        ("get-token -l msi --server-id x --legacy", "--legacy"),
        ("convert-kubeconfig", "`convert-kubeconfig` is no command of this plugin"),
    ] {
        let run = Stage::new().aks(line);
        assert!(run.refusal().contains(told), "{line}: {run:?}");
    }
}
