//! Proxy selection by Go's rules.

use std::net::Ipv6Addr;
use std::path::Path;

use credlet_exec::FixedEnv;
use credlet_http::{ProxyScheme, ServerAddr, proxy_for};
use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::address;
use crate::comparison::{Comparison, Difference, ReferenceProgram};
use crate::random::{maybe, pick, rarely};

pub(crate) struct ProxyComparison;

impl Comparison for ProxyComparison {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn reference(&self) -> ReferenceProgram {
        ReferenceProgram::OracleProcess("proxy")
    }

    fn generate(&self, rng: &mut Rng) -> Value {
        let mut env = Map::new();
        maybe(rng, 2, &mut env, "HTTPS_PROXY", |rng| proxy_url(rng).into());
        maybe(rng, 2, &mut env, "https_proxy", |rng| proxy_url(rng).into());
        maybe(rng, 3, &mut env, "HTTP_PROXY", |rng| proxy_url(rng).into());
        maybe(rng, 4, &mut env, "http_proxy", |rng| proxy_url(rng).into());
        maybe(rng, 2, &mut env, "NO_PROXY", |rng| no_proxy(rng).into());
        maybe(rng, 3, &mut env, "no_proxy", |rng| no_proxy(rng).into());
        maybe(rng, 20, &mut env, "REQUEST_METHOD", |_| "GET".into());
        let scheme = if rarely(rng, 5) { "http" } else { "https" };
        let port = pick(rng, &["", "", ":443", ":6443", ":80", ":8443"]);
        json!({"env": env, "scheme": scheme, "host": host(rng), "port": port})
    }

    fn query(&self, case: &Value, _: &Path) -> Value {
        let text = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
        let scheme = if text("scheme") == "http" { "http" } else { "https" };
        let host = Some(text("host")).filter(|host| !host.is_empty()).unwrap_or_else(|| "h".to_owned());
        let env = if case["env"].is_object() { case["env"].clone() } else { json!({}) };
        json!({"env": env, "url": format!("{scheme}://{host}{}", text("port"))})
    }

    fn ours(&self, query: &Value) -> (Value, String) {
        let url = query["url"].as_str().expect("a URL");
        let vars = query["env"].as_object().expect("variables");
        let env = FixedEnv::new(vars.iter().map(|(name, value)| (name, value.as_str().unwrap_or_default())));
        let server = match ServerAddr::parse(url) {
            Ok(server) => server,
            Err(error) => return (json!({"error": "ORACLE"}), error.to_string()),
        };
        let answer = match proxy_for(None, &server, &env) {
            Err(error) => return (json!({"error": ""}), error.to_string()),
            Ok(None) => json!({}),
            Ok(Some(proxy)) => {
                let scheme = match proxy.scheme() {
                    ProxyScheme::Http => "http",
                    ProxyScheme::Https => "https",
                    _ => "socks5",
                };
                let mut answer = json!({"proxy": format!("{scheme}://{}", proxy.target())});
                if let Some((user, password)) = proxy.user() {
                    answer["user"] = user.expose().into();
                    answer["password"] = password.expose().into();
                }
                answer
            }
        };
        (answer, String::new())
    }

    fn plain(&self, theirs: &mut Value) {
        let Some(members) = theirs.as_object_mut() else { return };
        // Ports are compared as numbers.
        if let Some(Value::String(proxy)) = members.get_mut("proxy")
            && let Some((place, port)) = proxy.clone().rsplit_once(':')
            && let Ok(port) = port.parse::<u16>()
        {
            *proxy = format!("{place}:{port}");
        }
        if let Some(error) = members.get_mut("error") {
            let text = error.as_str().unwrap_or_default();
            *error = if text.starts_with("ORACLE") { "ORACLE".into() } else { "".into() };
        }
    }

    /// Go detects these while connecting: to this machine without a host, to a host called `http` for an invalid URL.
    fn deliberate(&self, query: &Value, difference: &Difference<'_>) -> Option<&'static str> {
        let (scheme, place) = difference.theirs["proxy"].as_str()?.split_once("://")?;
        let (host, port) = place.rsplit_once(':')?;
        let value = |name| query["env"][name].as_str().is_some_and(|value| value.starts_with(&format!("{host}://")));
        let variables = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];
        let named_like_a_scheme = scheme == "http" && port == "80" && variables.into_iter().any(value);
        let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or_default();
        let ipv6 = inside.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
        let odd = |c: char| !c.is_ascii_graphic() || !ipv6 && ":%".contains(c);
        let unusable = host.is_empty() || host.contains(odd) || port.parse::<u16>().is_err() || named_like_a_scheme;
        let said = |name: &str| difference.theirs[name].as_str().is_some_and(|text| text.contains('\u{fffd}'));
        if difference.why.ends_with("that is not UTF-8") && (said("user") || said("password")) {
            return Some("a proxy's user name and password are UTF-8");
        }
        (unusable && difference.why.ends_with("has an invalid host or port"))
            .then_some("a proxy without a usable host and port is an error at once")
    }

    fn plant(&self, query: &mut Value) {
        if let Some(env) = query["env"].as_object_mut()
            && let Some(lower) = env.remove("no_proxy")
        {
            env.insert("NO_PROXY".to_owned(), lower);
        }
    }

    fn kind(&self, theirs: &Value) -> String {
        let kinds = ["proxy", "error"];
        kinds.into_iter().find(|kind| theirs.get(kind).is_some()).unwrap_or("direct").to_owned()
    }
}

const HOSTS: &[&str] = &[
    "foo.com",
    "FOO.com",
    "a.foo.com",
    "a.b.foo.com",
    "xfoo.com",
    "foo.com.",
    "com",
    "bar",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "127.0.0.1",
    "127.1.2.3",
    "1.2.3.4",
    "1.2.3.5",
    "10.0.0.1",
    "10.255.0.1",
    "192.168.1.1",
    "0.0.0.0",
    "[::1]",
    "[::]",
    "[fe80::1]",
    "[2001:db8::1]",
    "[2001:db8:1::1]",
    "[::ffff:1.2.3.4]",
    "[::ffff:127.0.0.1]",
    "foo-bar.com",
    "1.2.3",
    "01.2.3.4",
    "xn--bcher-kva.example",
];

fn host(rng: &mut Rng) -> String {
    (pick(rng, HOSTS)).to_owned()
}

fn no_proxy(rng: &mut Rng) -> String {
    const NETWORKS: &[&str] = &[
        "1.2.3.4/32",
        "1.2.3.4/24",
        "10.0.0.0/8",
        "0.0.0.0/0",
        "::/0",
        "2001:db8::/32",
        "::ffff:1.2.3.4/120",
        "fe80::/10",
        "1.2.3.4/33",
        "1.2.3.4/08",
        "1.2.3.4/",
        "/8",
        "10/8",
        "::ffff:0:0/96",
        "127.0.0.0/8",
        "::1/128",
        "1.2.3.4/+8",
        "*",
        ".",
        "*.",
        "",
        "..foo.com",
        "*.*.com",
    ];
    let mut list = String::new();
    for index in 0..rng.usize(..4) {
        if index > 0 {
            list.push_str(pick(rng, &[",", ", ", " ,", ",,", " ", ";"]));
        }
        if rarely(rng, 3) {
            list.push_str(pick(rng, NETWORKS));
            continue;
        }
        list.push_str(pick(rng, &["", "", "", ".", "*.", "*", " "]));
        let host = host(rng);
        let bare = if rng.bool() { host.trim_matches(['[', ']']).to_owned() } else { host };
        list.push_str(&bare);
        list.push_str(pick(rng, &["", "", "", ":443", ":6443", ":80", ":", ":x", "."]));
    }
    list
}

fn proxy_url(rng: &mut Rng) -> String {
    if rarely(rng, 30) {
        return String::new();
    }
    // Most are valid.
    match rng.usize(..3) {
        0 => address::odd(rng),
        _ => {
            let scheme = pick(rng, &["http://", "https://", "socks5://", "socks5h://", "HTTP://", ""]);
            format!("{scheme}{}proxy{}", user(rng), pick(rng, &["", ":3128", ":80", "/"]))
        }
    }
}

/// User info of a proxy: often none, else a name and a password with escaped characters and characters that should be escaped.
fn user(rng: &mut Rng) -> String {
    const PARTS: &[&str] = &[
        "u", "pass", "%40", "%3A", ":", "+", "%2B", "%20", "%2f", "%C3%BC", "%25", "&", "=", "$", ";", ",", "~", "!",
        "*",
    ];
    if rng.bool() {
        return String::new();
    }
    let mut user: String = (0..rng.usize(..6)).map(|_| pick(rng, PARTS)).collect();
    user.push('@');
    user
}
