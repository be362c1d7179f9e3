//! People who log in at Entra ID: what is asked of it, and for whom a login is kept.

use crate::support::{Peer, Reply, Seen, Stage};

const TENANT: &str = "72f988bf-86f1-41af-91ab-2d7cd011db47";

/// Says who it is, and gives no codes.
fn entra() -> Peer {
    Peer::start(|seen: &Seen| {
        let host = format!("http://{}", seen.header("host"));
        match seen.path.split_once("/v2.0/.well-known/openid-configuration") {
            Some(("/common", _)) => Reply::Answer(200, format!(r#"{{"issuer":"{host}/{{tenantid}}/v2.0"}}"#)),
            Some(("/evil.example", _)) => {
                Reply::Answer(200, format!(r#"{{"issuer":"https://evil.example/{TENANT}/v2.0"}}"#))
            }
            Some(_) => Reply::Answer(
                200,
                format!(
                    r#"{{"issuer":"{host}/{TENANT}/v2.0","device_authorization_endpoint":"{host}/devicecode","token_endpoint":"{host}/token","jwks_uri":"{host}/keys"}}"#
                ),
            ),
            None => Reply::Answer(400, r#"{"error":"unauthorized_client"}"#.into()),
        }
    })
}

fn log_in(entra: &Peer, more: &str) -> (Stage, String) {
    let stage = Stage::new().var("AZURE_AUTHORITY_HOST", &*entra.url);
    let run = stage.aks(&format!("get-token --server-id srv {more}"));
    let told = run.refusal().to_owned();
    (stage, told)
}

#[test]
fn a_code_is_asked_for_with_the_scopes_of_the_cluster() {
    let entra = entra();
    let (_, told) = log_in(&entra, &format!("--tenant-id {TENANT}"));
    assert!(told.contains("does not accept the client\nhint: correct --client-id and --tenant-id"), "{told}");
    let seen = entra.seen();
    assert_eq!(seen[0].path, format!("/{TENANT}/v2.0/.well-known/openid-configuration"));
    let asked = seen.last().unwrap();
    assert_eq!(asked.path, "/devicecode");
    assert_eq!(asked.field("client_id"), "80faf920-1908-4b52-b5ef-a8e7bedfc67a");
    assert_eq!(asked.field("scope"), "offline_access%20openid%20profile%20srv%2F.default");
}

#[test]
fn a_domain_is_looked_up_once_and_many_tenants_are_none() {
    let entra = entra();
    let (stage, _) = log_in(&entra, "--tenant-id contoso.example");
    let lookups = |entra: &Peer| entra.seen().iter().filter(|seen| seen.path.starts_with("/contoso")).count();
    assert_eq!(lookups(&entra), 1);
    stage.aks("get-token --server-id srv --tenant-id contoso.example").refusal();
    assert_eq!(lookups(&entra), 1);
    let (_, told) = log_in(&entra, "--tenant-id common");
    assert!(told.contains("the tenant `common` stands for many tenants\nhint: name one"), "{told}");
    let (_, told) = log_in(&entra, "--tenant-id evil.example");
    assert!(told.contains("stands for many tenants"), "another issuer is not believed: {told}");
}

#[test]
fn each_tenant_client_and_user_has_a_login_of_their_own() {
    let entra = entra();
    let stage = Stage::new().var("AZURE_AUTHORITY_HOST", &*entra.url);
    let dir = stage.home.path().join("logins");
    let logins = || {
        let files = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        files.filter(|name| !name.ends_with(".lock")).count()
    };
    let usual = format!("get-token --server-id srv --tenant-id {TENANT} --cache-dir {}", dir.display());
    for (more, expected) in [
        ("", 1),
        ("--login devicecode", 1),
        ("--client-id other", 2),
        ("--login-hint ada@example.test", 3),
        ("--login-hint bob@example.test", 4),
        ("--server-id srv2", 5),
    ] {
        stage.aks(&format!("{usual} {more}")).refusal();
        assert_eq!(logins(), expected, "{more}");
    }
}
