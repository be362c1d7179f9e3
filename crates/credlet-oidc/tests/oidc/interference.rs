//! Other local users and web pages that try to receive, complete or abort a login.

use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use credlet_oidc::OidcOptions;

use crate::Sandbox;
use credlet_testkit::browser::{
    BrowserProfile, as_another_user, can_be_another_user, get, get_as_another_user, location,
};

/// Runs a login. `interfere` gets the start URL and returns the user's browser, which then completes the login.
async fn log_in(sandbox: &Sandbox, interfere: impl FnOnce(&str) -> BrowserProfile + Send + 'static) {
    let options = OidcOptions { skip_open_browser: true, ..sandbox.options() };
    log_in_with(sandbox, &options, interfere).await;
}

async fn log_in_with(
    sandbox: &Sandbox,
    options: &OidcOptions,
    interfere: impl FnOnce(&str) -> BrowserProfile + Send + 'static,
) {
    let (outcome, page) = tokio::join!(sandbox.run(options), async {
        let url = sandbox.start_url().await;
        let visit = move || interfere(&url).follow(&url);
        tokio::task::spawn_blocking(visit).await.unwrap()
    });
    assert!(page.contains("You are logged in"), "{page}");
    outcome.unwrap();
}

fn address(url: &str) -> SocketAddr {
    url.strip_prefix("http://").unwrap().split('/').next().unwrap().parse().unwrap()
}

/// The callback URL to which the issuer redirects `browser`.
fn callback(browser: &mut BrowserProfile, url: &str) -> String {
    let host = format!("http://localhost:{}", address(url).port());
    let taken = browser.follow_to(url, &host);
    let to_issuer = location(&browser.get(&taken)).unwrap();
    browser.follow_to(&to_issuer, &host)
}

#[tokio::test]
async fn callback_with_wrong_state_is_ignored() {
    let sandbox = Sandbox::new();
    let issuer = sandbox.issuer.clone();
    log_in(&sandbox, move |url| {
        let mut browser = BrowserProfile::default();
        let real = callback(&mut browser, url);
        let base = format!("http://localhost:{}/", address(url).port());
        let state = real.split(['?', '&']).find(|pair| pair.starts_with("state=")).unwrap();
        for query in [
            "?state=x",
            "?code=x&state=x",
            "?code=x",
            "?error=access_denied",
            "?error=access_denied&state=x",
            "?state=",
            &format!("?error=access_denied&{state}x"),
            &format!("?error=access_denied&{state}&{state}"),
        ] {
            // From a web page in the same browser, and from a program without its cookies.
            for page in [browser.get(&format!("{base}{query}")), get(&format!("{base}{query}"), "")] {
                assert!(page.starts_with("HTTP/1.1 400") && page.contains("Not this login"), "{query}: {page}");
            }
        }
        assert_eq!(issuer.seen("/token"), 0);
        browser
    })
    .await;
}

#[tokio::test]
async fn callback_without_the_cookie_is_ignored() {
    let sandbox = Sandbox::new();
    let issuer = sandbox.issuer.clone();
    log_in(&sandbox, move |url| {
        let mut browser = BrowserProfile::default();
        let real = callback(&mut browser, url);
        for cookie in
            ["", "cookie: credlet-login=x\r\n", &format!("cookie: credlet-login-{}=\r\n", address(url).port())]
        {
            let page = get(&real, cookie);
            assert!(page.starts_with("HTTP/1.1 403") && page.contains("started in another browser"), "{page}");
        }
        assert_eq!(issuer.seen("/token"), 0);
        browser
    })
    .await;
}

#[tokio::test]
async fn second_browser_is_rejected() {
    let sandbox = Sandbox::new();
    log_in(&sandbox, |url| {
        let mut browser = BrowserProfile::default();
        let first = callback(&mut browser, url);
        let page = BrowserProfile::default().follow(url);
        assert!(page.starts_with("HTTP/1.1 409") && page.contains("already open"), "{page}");
        assert!(!page.contains("set-cookie"), "{page}");
        // The first browser may reload its page.
        assert_ne!(callback(&mut browser, url), first, "another code");
        browser
    })
    .await;
}

#[tokio::test]
async fn start_page_requires_the_token() {
    let sandbox = Sandbox::new();
    log_in(&sandbox, |url| {
        let base = format!("http://{}", address(url));
        let token = url.rsplit('/').next().unwrap();
        let query = format!("/?credlet-login={token}&credlet-login={token}");
        for path in
            ["/", "/login", "/login/", "/login/x", "/?credlet-login=", "/?credlet-login=x", &query, "/favicon.ico"]
        {
            let page = get(&format!("{base}{path}"), "");
            assert!(page.starts_with("HTTP/1.1 40") && location(&page).is_none(), "{path}: {page}");
        }
        // An embedding web page, DNS rebinding, another method.
        assert!(get(url, "sec-fetch-dest: image\r\n").starts_with("HTTP/1.1 403"));
        assert!(get(url, "sec-fetch-dest: iframe\r\n").starts_with("HTTP/1.1 403"));
        let mut stream = TcpStream::connect(address(url)).unwrap();
        let path = url.strip_prefix(&base).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: evil.example\r\n\r\n").unwrap();
        assert!(std::io::read_to_string(stream).unwrap().starts_with("HTTP/1.1 421"));
        let mut stream = TcpStream::connect(address(url)).unwrap();
        write!(stream, "POST {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        assert!(std::io::read_to_string(stream).unwrap().starts_with("HTTP/1.1 405"));
        BrowserProfile::default()
    })
    .await;
}

#[tokio::test]
async fn cookie_is_scoped_to_host_and_login() {
    let sandbox = Sandbox::new();
    log_in(&sandbox, |url| {
        let mut browser = BrowserProfile::default();
        let port = address(url).port();
        let start = browser.get(url);
        assert!(!start.contains("set-cookie"), "{start}");
        let taken = location(&start).unwrap();
        assert!(taken.starts_with(&format!("http://localhost:{port}/?credlet-login=")), "{taken}");
        let response = browser.get(&taken);
        let cookie = response.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert!(pair.starts_with(&format!("credlet-login-{port}=")) && pair.len() > 43, "{pair}");
        assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax");
        browser
    })
    .await;
}

#[tokio::test]
async fn redirect_url_with_path_is_used_unchanged() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let sandbox = Sandbox::new();
    // The path begins like that of the start page.
    let redirect_url = format!("http://127.0.0.1:{port}/login/back");
    let options = OidcOptions {
        redirect_url: Some(redirect_url.clone()),
        listen_address: Vec::new(),
        skip_open_browser: true,
        ..sandbox.options()
    };
    log_in_with(&sandbox, &options, move |url| {
        assert_eq!(address(url).port(), port);
        let start = BrowserProfile::default().get(url);
        assert!(location(&start).unwrap().starts_with(&format!("{redirect_url}?credlet-login=")), "{start}");
        BrowserProfile::default()
    })
    .await;
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
async fn ipv6_port_in_use_leads_to_another_port() {
    let Ok(squatter) = TcpListener::bind("[::1]:0") else {
        println!("skipped: no IPv6");
        return;
    };
    squatter.set_nonblocking(true).unwrap();
    let taken = squatter.local_addr().unwrap().port();
    let sandbox = Sandbox::new();
    let listen_address = vec![format!("127.0.0.1:{taken}"), "127.0.0.1:0".to_owned()];
    let options = OidcOptions { listen_address, skip_open_browser: true, ..sandbox.options() };
    log_in_with(&sandbox, &options, move |url| {
        assert_ne!(address(url).port(), taken);
        // The other address of the redirect host is bound too.
        let other = format!("[::1]:{}", address(url).port());
        assert!(get(&format!("http://{other}/"), "").starts_with("HTTP/1.1 400"));
        assert_eq!(TcpListener::bind(other).unwrap_err().kind(), ErrorKind::AddrInUse);
        BrowserProfile::default()
    })
    .await;
    let redirect = sandbox.issuer.requests_for("/auth")[0].query["redirect_uri"].clone();
    assert!(redirect.starts_with("http://localhost:") && !redirect.ends_with(&format!(":{taken}")), "{redirect}");
    assert_eq!(squatter.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "no browser went there");

    // Without another port the login fails, without a cooldown.
    let options = OidcOptions { listen_address: vec![format!("127.0.0.1:{taken}")], force_refresh: true, ..options };
    sandbox.issuer.state().refresh_tokens.clear();
    let error = sandbox.run(&options).await.unwrap_err();
    assert!(error.to_chained_string().contains(&format!("[::1]:{taken}")), "{}", error.to_chained_string());
    assert!(error.hint().unwrap().contains("--listen-address"));
    drop(squatter);
    sandbox.output.0.lock().unwrap().clear();
    log_in_with(&sandbox, &options, |_| BrowserProfile::default()).await;
}

#[tokio::test]
async fn connection_of_other_user_is_rejected() {
    if !can_be_another_user() {
        return;
    }
    let sandbox = Sandbox::new();
    let issuer = sandbox.issuer.clone();
    log_in(&sandbox, move |url| {
        let (address, token) = (address(url), url.rsplit('/').next().unwrap());
        let v6 = SocketAddr::new("::1".parse().unwrap(), address.port());
        let mut browser = BrowserProfile::default();
        let paths =
            ["/".to_owned(), format!("/login/{token}"), format!("/?credlet-login={token}"), "/?state=x".to_owned()];
        for path in &paths {
            assert_eq!(get_as_another_user(address, path), "", "{path}");
        }
        if TcpStream::connect(v6).is_ok() {
            assert_eq!(get_as_another_user(v6, &paths[1]), "");
        }
        // Not even with the state and the code.
        let real = callback(&mut browser, url);
        let path = real.strip_prefix(&format!("http://localhost:{}", address.port())).unwrap();
        assert_eq!(get_as_another_user(address, path), "");
        assert_eq!(issuer.seen("/token"), 0);
        browser
    })
    .await;
    let printed = sandbox.output.all();
    assert_eq!(printed.matches("Refused a connection of user 2002").count(), 1, "{printed}");
}

#[tokio::test]
async fn idle_connections_of_another_user_are_closed() {
    if !can_be_another_user() {
        return;
    }
    let sandbox = Sandbox::new();
    log_in(&sandbox, |url| {
        // Opened one after the other, and held until the last one is closed.
        let script = r#"for i in {1..300}; do exec {fd}<>"/dev/tcp/$1/$2"; done
            IFS= read -r -N 1 -u "$fd"; echo "closed $?"; read -r"#;
        let mut other = as_another_user(script, address(url), "");
        let mut stdout = std::io::BufReader::new(other.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        assert_eq!(line, "closed 1\n");
        let mut browser = BrowserProfile::default();
        callback(&mut browser, url);
        drop(other.stdin.take());
        other.wait().unwrap();
        browser
    })
    .await;
    let printed = sandbox.output.all();
    assert!(printed.contains("Refused a connection of user 2002"), "they were not closed by a timeout: {printed}");
}
