//! User logins at Entra ID: requests, and separation of stored logins.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{FakeEndpoint, FakeReply, Sandbox, SeenRequest};
use credlet_testkit::browser::{BrowserProfile, can_be_another_user, get, get_as_another_user, location};

const TENANT: &str = "72f988bf-86f1-41af-91ab-2d7cd011db47";

/// Serves discovery documents and rejects device code requests.
fn entra() -> FakeEndpoint {
    FakeEndpoint::start(|seen: &SeenRequest| {
        let host = format!("http://{}", seen.header("host"));
        match seen.path.split_once("/v2.0/.well-known/openid-configuration") {
            Some(("/common", _)) => FakeReply::Status(200, format!(r#"{{"issuer":"{host}/{{tenantid}}/v2.0"}}"#)),
            Some(("/evil.example", _)) => {
                FakeReply::Status(200, format!(r#"{{"issuer":"https://evil.example/{TENANT}/v2.0"}}"#))
            }
            Some(_) => FakeReply::Status(
                200,
                format!(
                    r#"{{"issuer":"{host}/{TENANT}/v2.0","authorization_endpoint":"{host}/authorize","device_authorization_endpoint":"{host}/devicecode","token_endpoint":"{host}/token","jwks_uri":"{host}/keys"}}"#
                ),
            ),
            None => FakeReply::Status(400, r#"{"error":"unauthorized_client"}"#.into()),
        }
    })
}

fn log_in(entra: &FakeEndpoint, more: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::new().var("AZURE_AUTHORITY_HOST", &*entra.url);
    let run = sandbox.aks(&format!("get-token --server-id srv {more}"));
    let told = run.error().to_owned();
    (sandbox, told)
}

#[test]
fn device_code_request_has_cluster_scopes() {
    let entra = entra();
    let (_, told) = log_in(&entra, &format!("--tenant-id {TENANT}"));
    assert!(told.contains("rejected the client\nhint: correct --client-id and --tenant-id"), "{told}");
    let seen = entra.seen();
    assert_eq!(seen[0].path, format!("/{TENANT}/v2.0/.well-known/openid-configuration"));
    let request = seen.last().unwrap();
    assert_eq!(request.path, "/devicecode");
    assert_eq!(request.field("client_id"), "80faf920-1908-4b52-b5ef-a8e7bedfc67a");
    assert_eq!(request.field("scope"), "offline_access%20openid%20profile%20srv%2F.default");
}

#[test]
fn tenant_domain_is_resolved_once() {
    let entra = entra();
    let (sandbox, _) = log_in(&entra, "--tenant-id contoso.example");
    let lookups = |entra: &FakeEndpoint| entra.seen().iter().filter(|seen| seen.path.starts_with("/contoso")).count();
    assert_eq!(lookups(&entra), 1);
    sandbox.aks("get-token --server-id srv --tenant-id contoso.example").error();
    assert_eq!(lookups(&entra), 1);
    let (_, told) = log_in(&entra, "--tenant-id common");
    assert!(told.contains("invalid tenant `common`: refers to more than one tenant\nhint: pass one"), "{told}");
    let (_, told) = log_in(&entra, "--tenant-id evil.example");
    assert!(told.contains("refers to more than one tenant"), "another issuer is not believed: {told}");
}

#[test]
fn logins_are_separate_per_tenant_client_user() {
    let entra = entra();
    let sandbox = Sandbox::new().var("AZURE_AUTHORITY_HOST", &*entra.url);
    let dir = sandbox.home.path().join("logins");
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
        sandbox.aks(&format!("{usual} {more}")).error();
        assert_eq!(logins(), expected, "{more}");
    }
}

/// Installs a browser that passes its argument to the test through a FIFO.
fn browser(sandbox: &Sandbox) -> std::path::PathBuf {
    let fifo = sandbox.home.path().join("opened");
    credlet_testkit::make_fifo(&fifo);
    let script = sandbox.file("browser", format!("#!/bin/sh\necho \"$*\" >'{}'\n", fifo.display()));
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o700)).unwrap();
    fifo
}

#[test]
fn interactive_login_is_bound_to_one_browser_of_this_user() {
    let entra = entra();
    let mut sandbox = Sandbox::new().var("AZURE_AUTHORITY_HOST", &*entra.url).var("PATH", "/usr/bin:/bin");
    let fifo = browser(&sandbox);
    sandbox.set("BROWSER", sandbox.home.path().join("browser").to_str().unwrap());
    let line = format!("get-token --server-id srv --tenant-id {TENANT} --login interactive");
    let login = std::thread::spawn(move || sandbox.aks(&line));

    let url = std::fs::read_to_string(fifo).unwrap().trim().to_owned();
    let (address, _) = url.strip_prefix("http://").unwrap().split_once("/login/").unwrap();
    let address: SocketAddr = address.parse().unwrap();
    assert_eq!(address.ip().to_string(), "127.0.0.1");
    let host = format!("http://localhost:{}", address.port());
    let other_family = SocketAddr::new("::1".parse().unwrap(), address.port());
    // Not every machine has IPv6.
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        TcpStream::connect(other_family).unwrap();
    }
    if can_be_another_user() {
        assert_eq!(get_as_another_user(address, "/?error=access_denied&state=x"), "");
        assert_eq!(get_as_another_user(address, &url[url.find("/login/").unwrap()..]), "");
    }
    assert!(get(&format!("{host}/?error=access_denied&state=x"), "").contains("Not this login"));
    let mut browser = BrowserProfile::default();
    let authorize = browser.follow_to(&url, &entra.url);
    assert!(BrowserProfile::default().follow(&url).contains("already open"));
    let state = authorize.split('&').find_map(|pair| pair.strip_prefix("state=")).unwrap();
    let refused = format!("{host}/?error=access_denied&state={state}");
    assert!(get(&refused, "").contains("started in another browser"));
    let page = browser.get(&refused);
    assert!(location(&page).is_none() && page.contains("You are not logged in"), "{page}");
    let run = login.join().unwrap();
    assert!(run.error().contains("the login was refused at the issuer (access_denied)"), "{}", run.stderr);
}

#[test]
fn redirect_url_sets_listen_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let entra = entra();
    let told = |host: &str| {
        let url = format!("http://{host}:{port}");
        log_in(&entra, &format!("--tenant-id {TENANT} --login interactive --redirect-url {url}")).1
    };
    for host in ["127.0.0.1", "localhost"] {
        let told = told(host);
        assert!(told.contains(&format!("failed to listen for the browser on 127.0.0.1:{port}")), "{told}");
        assert!(
            told.contains("hint: stop the program that uses the port, name another one with --redirect-url"),
            "{told}"
        );
    }
}
