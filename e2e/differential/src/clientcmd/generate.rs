use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::address;
use crate::random::{self, json as any, maybe, pick, rarely};

/// Few names, so that files define the same entries.
const NAMES: &[&str] = &["one", "two", "three"];

pub(super) fn case(rng: &mut Rng) -> Value {
    let files: Vec<Value> = (0..pick(rng, &[1, 1, 1, 2, 2, 3])).map(|_| file(rng)).collect();
    let mut case = json!({"files": files});
    if rarely(rng, 15) {
        case["explicit"] = rng.usize(..files.len()).into();
    }
    if rarely(rng, 4) {
        case["overrides"] = overrides(rng);
    }
    case
}

fn file(rng: &mut Rng) -> Value {
    json!({
        "place": if rarely(rng, 20) { "nowhere" } else { pick(rng, &["top", "top", "top", "sub", "sub"]) },
        "style": pick(rng, &["yaml", "yaml", "json", "flow", "document", "pretty"]),
        "doc": if rarely(rng, 60) { any(rng, 2) } else { config(rng) },
    })
}

fn name(rng: &mut Rng) -> Value {
    if rarely(rng, 200) { odd(rng) } else { pick(rng, NAMES).into() }
}

/// Some files must be completely valid.
fn text(rng: &mut Rng) -> String {
    if rarely(rng, 8) {
        random::text(rng)
    } else {
        (pick(rng, &["", "word", "two words", "é", "a: b", "#", "--x=y"])).to_owned()
    }
}

/// An invalid value.
fn odd(rng: &mut Rng) -> Value {
    match rng.usize(..4) {
        0 => {
            json!({"$plain": pick(rng, &["~", "", "yes", "0x1F", "1e3", "12:30", "0o7", "07", "2001-01-01", ".inf", "null", "True", "1_000"])})
        }
        1 => text(rng).into(),
        _ => any(rng, 1),
    }
}

fn config(rng: &mut Rng) -> Value {
    let mut config = Map::new();
    maybe(rng, 2, &mut config, "apiVersion", |rng| if rarely(rng, 80) { odd(rng) } else { "v1".into() });
    maybe(rng, 2, &mut config, "kind", |rng| if rarely(rng, 80) { odd(rng) } else { "Config".into() });
    if !rarely(rng, 25) {
        let chosen = name(rng);
        config.insert("current-context".to_owned(), chosen);
    }
    maybe(rng, 10, &mut config, "preferences", |rng| if rarely(rng, 8) { any(rng, 2) } else { json!({}) });
    maybe(rng, 30, &mut config, "unknown", |rng| any(rng, 2));
    maybe(rng, 30, &mut config, "Contexts", |rng| any(rng, 2));
    maybe(rng, 30, &mut config, "extensions", extensions);
    for (list, item, of) in [
        ("contexts", "context", context as fn(&mut Rng) -> Value),
        ("clusters", "cluster", cluster),
        ("users", "user", user),
    ] {
        if rarely(rng, 25) {
            continue;
        }
        if rarely(rng, 300) {
            config.insert(list.to_owned(), odd(rng));
            continue;
        }
        // Most files have each name at most once.
        let names: Vec<Value> = match rng.usize(..60) {
            0 => (0..2).map(|_| pick(rng, NAMES).into()).collect(),
            _ => NAMES.iter().filter(|_| rng.usize(..20) > 0).map(|name| (*name).into()).collect(),
        };
        let entries = names.into_iter().map(|name| {
            let mut entry = Map::new();
            // Entries without a name: clientcmd selects them for contexts without a name, credlet does not.
            entry.insert("name".to_owned(), name);
            if !rarely(rng, 60) {
                let value = if rarely(rng, 300) { odd(rng) } else { of(rng) };
                entry.insert(item.to_owned(), value);
            }
            Value::Object(entry)
        });
        let entries: Vec<Value> = entries.collect();
        config.insert(list.to_owned(), entries.into());
    }
    Value::Object(config)
}

fn context(rng: &mut Rng) -> Value {
    let mut context = Map::new();
    if !rarely(rng, 15) {
        let cluster = name(rng);
        context.insert("cluster".to_owned(), cluster);
    }
    if !rarely(rng, 10) {
        let user = name(rng);
        context.insert("user".to_owned(), user);
    }
    maybe(rng, 2, &mut context, "namespace", |rng| {
        if rarely(rng, 50) { odd(rng) } else { (pick(rng, &["kube-system", "ns", ""])).into() }
    });
    maybe(rng, 30, &mut context, "extensions", extensions);
    Value::Object(context)
}

fn cluster(rng: &mut Rng) -> Value {
    const SERVERS: &[&str] = &[
        "https://one.example",
        "https://two.example:6443",
        "https://127.0.0.1:6443/",
        "https://h/k8s/c-1",
        "https://h/p?q=1#f",
        "https://[::1]:6443",
        "HTTPS://upper.example",
        "https://one.example",
        "https://two.example:6443",
        "https://h//p",
        "https://h/%7Ea",
    ];
    const BAD: &[&str] = &[
        "http://plain.example",
        "",
        "h:6443",
        "example.com",
        "https://",
        "https://a b",
        "ftp://h",
        "https://u:p@h",
        "https://h:99999",
        "/x",
        "https://h:x",
    ];
    let mut cluster = Map::new();
    if !rarely(rng, 20) {
        let server = match rng.usize(..15) {
            0 => (pick(rng, BAD)).into(),
            1 => address::odd(rng).into(),
            2 if rarely(rng, 5) => odd(rng),
            _ => (pick(rng, SERVERS)).into(),
        };
        cluster.insert("server".to_owned(), server);
    }
    maybe(rng, 6, &mut cluster, "tls-server-name", |rng| (pick(rng, &["name.example", "", "10.0.0.1"])).into());
    maybe(rng, 10, &mut cluster, "insecure-skip-tls-verify", |rng| {
        if rarely(rng, 40) { odd(rng) } else { rng.bool().into() }
    });
    maybe(rng, 4, &mut cluster, "certificate-authority", |rng| path(rng, &["CA", "CA", "CA", "CERT"]));
    maybe(rng, 4, &mut cluster, "certificate-authority-data", |rng| {
        data(rng, &["@base64:CA@", "@base64:CA@", "@base64:CERT@"])
    });
    maybe(rng, 8, &mut cluster, "proxy-url", |rng| {
        if rarely(rng, 3) {
            return address::odd(rng).into();
        }
        (pick(
            rng,
            &[
                "http://p:3128",
                "https://p",
                "socks5://p:1080",
                "http://u:p@p:1",
                "ftp://p",
                "p:3128",
                "",
                "http://",
                "http://a b",
                "socks5h://p",
                "http://p/x",
            ],
        ))
        .into()
    });
    maybe(
        rng,
        8,
        &mut cluster,
        "disable-compression",
        |rng| if rarely(rng, 40) { odd(rng) } else { rng.bool().into() },
    );
    maybe(rng, 4, &mut cluster, "extensions", extensions);
    Value::Object(cluster)
}

fn extensions(rng: &mut Rng) -> Value {
    if rarely(rng, 80) {
        return odd(rng);
    }
    let entry = |rng: &mut Rng, index: usize| {
        let exec = if index == 0 { !rarely(rng, 4) } else { rarely(rng, 20) };
        let name = if exec { "client.authentication.k8s.io/exec".to_owned() } else { format!("{index}{}", text(rng)) };
        let mut entry = Map::new();
        entry.insert("name".to_owned(), name.into());
        if !rarely(rng, 15) {
            let value = match rng.usize(..3) {
                0 => json!({"audience": text(rng), "b": 1, "a": {"d": [1, 2.5], "c": null}}),
                1 => json!({"apiVersion": "v1", "kind": "Thing", "x": any(rng, 2)}),
                _ => any(rng, 2),
            };
            entry.insert("extension".to_owned(), value);
        }
        Value::Object(entry)
    };
    (0..rng.usize(1..3)).map(|index| entry(rng, index)).collect()
}

fn user(rng: &mut Rng) -> Value {
    let mut user = Map::new();
    let kind = rng.usize(..8);
    let n = |kinds: &[usize]| if kinds.contains(&kind) { 1 } else { 60 };
    maybe(rng, n(&[0]), &mut user, "token", |rng| {
        if rarely(rng, 60) { odd(rng) } else { (pick(rng, &["t1", "t2", ""])).into() }
    });
    maybe(rng, n(&[1]), &mut user, "tokenFile", |rng| path(rng, &["token", "token", "token", "empty", "none"]));
    maybe(rng, n(&[2]), &mut user, "client-certificate-data", |rng| {
        data(rng, &["@base64:CERT@", "@base64:CERT@", "@base64:CERT@", "@base64:CERT2@"])
    });
    maybe(rng, n(&[2]), &mut user, "client-key-data", |rng| {
        data(rng, &["@base64:KEY@", "@base64:KEY@", "@base64:KEY@", "@base64:KEY2@"])
    });
    maybe(rng, n(&[3]), &mut user, "client-certificate", |rng| path(rng, &["CERT", "CERT", "CERT", "CERT2"]));
    maybe(rng, n(&[3]), &mut user, "client-key", |rng| path(rng, &["KEY", "KEY", "KEY", "KEY2"]));
    maybe(rng, n(&[4]), &mut user, "username", |rng| (pick(rng, &["ada", "", "b:c"])).into());
    maybe(rng, n(&[4]), &mut user, "password", |rng| (pick(rng, &["secret", ""])).into());
    maybe(rng, n(&[5, 6]), &mut user, "exec", |rng| if rarely(rng, 30) { odd(rng) } else { exec(rng) });
    maybe(rng, n(&[7]) * 3, &mut user, "auth-provider", |rng| {
        let mut provider = Map::new();
        maybe(rng, 1, &mut provider, "name", |rng| {
            (pick(rng, &["oidc", "oidc", "oidc", "gcp", "azure", "x", ""])).into()
        });
        maybe(rng, 2, &mut provider, "config", |rng| {
            if rarely(rng, 40) {
                odd(rng)
            } else {
                json!({"client-id": "c", "idp-issuer-url": "https://issuer.example"})
            }
        });
        Value::Object(provider)
    });
    maybe(rng, 8, &mut user, "as", |rng| (pick(rng, &["bob", "bob", ""])).into());
    // Rejected on their own.
    let n = if user.contains_key("as") { 2 } else { 80 };
    maybe(rng, n, &mut user, "as-uid", |rng| (pick(rng, &["7", ""])).into());
    maybe(rng, n, &mut user, "as-groups", |rng| if rarely(rng, 40) { odd(rng) } else { json!(["g", text(rng)]) });
    maybe(
        rng,
        n,
        &mut user,
        "as-user-extra",
        |rng| if rarely(rng, 40) { odd(rng) } else { json!({"scope": ["a", "b"]}) },
    );
    maybe(rng, 40, &mut user, "impersonate", |rng| any(rng, 1));
    maybe(rng, 40, &mut user, "Token", |rng| any(rng, 1));
    maybe(rng, 200, &mut user, "token#2", |rng| any(rng, 1));
    Value::Object(user)
}

fn exec(rng: &mut Rng) -> Value {
    let mut exec = Map::new();
    let versions = ["v1", "v1", "v1", "v1", "v1", "v1", "v1beta1", "v1beta1", "v1beta1", "v1beta1", "v1alpha1", "v9"];
    if !rarely(rng, 25) {
        exec.insert("apiVersion".to_owned(), format!("client.authentication.k8s.io/{}", pick(rng, &versions)).into());
    }
    if !rarely(rng, 25) {
        let command = pick(
            rng,
            &[
                "plugin",
                "plugin",
                "./plugin",
                "sub/plugin",
                "/usr/bin/plugin",
                "../plugin",
                "a b",
                "",
                "./a/../plugin",
                "/a//b/",
            ],
        );
        exec.insert("command".to_owned(), if rarely(rng, 40) { odd(rng) } else { command.into() });
    }
    maybe(rng, 3, &mut exec, "args", |rng| {
        if rarely(rng, 60) {
            odd(rng)
        } else {
            (0..rng.usize(..3)).map(|_| Value::from(text(rng).replace('\0', ""))).collect()
        }
    });
    maybe(rng, 4, &mut exec, "env", |rng| {
        if rarely(rng, 20) {
            return odd(rng);
        }
        (0..rng.usize(..3))
            .map(|_| json!({"name": pick(rng, &["A", "B", "C_D", ""]), "value": text(rng).replace('\0', "")}))
            .collect()
    });
    if !rarely(rng, 10) {
        let bad = rarely(rng, 15);
        let mode = if bad { pick(rng, &["never", ""]) } else { pick(rng, &["Never", "IfAvailable", "Always"]) };
        exec.insert("interactiveMode".to_owned(), mode.into());
    }
    maybe(rng, 4, &mut exec, "provideClusterInfo", |rng| if rarely(rng, 50) { odd(rng) } else { rng.bool().into() });
    maybe(rng, 5, &mut exec, "installHint", |rng| text(rng).into());
    maybe(rng, 40, &mut exec, "unknown", |rng| any(rng, 1));
    Value::Object(exec)
}

fn path(rng: &mut Rng, files: &[&str]) -> Value {
    let file = pick(rng, files);
    match rng.usize(..60) {
        0 => odd(rng),
        1 => "".into(),
        2 => "missing".into(),
        3 => "junk".into(),
        4 => "empty".into(),
        5 => format!("../{file}").into(),
        6 => format!("sub/{file}").into(),
        7..24 => format!("@ROOT@/{file}").into(),
        24..32 => format!("./{file}").into(),
        _ => file.into(),
    }
}

fn data(rng: &mut Rng, values: &[&str]) -> Value {
    match rng.usize(..60) {
        0 => odd(rng),
        1 => "".into(),
        2 => "anVuaw==".into(),
        3 => "not base64".into(),
        4 => format!("{}\n", pick(rng, values)).into(),
        _ => (pick(rng, values)).into(),
    }
}

fn overrides(rng: &mut Rng) -> Value {
    let mut overrides = Map::new();
    maybe(rng, 4, &mut overrides, "context", |rng| (pick(rng, &["one", "two", "three", "four", ""])).into());
    maybe(rng, 6, &mut overrides, "cluster", |rng| (pick(rng, &["one", "two", "three", "four", ""])).into());
    maybe(rng, 6, &mut overrides, "user", |rng| (pick(rng, &["one", "two", "three", "four", ""])).into());
    maybe(rng, 6, &mut overrides, "namespace", |rng| (pick(rng, &["mine", ""])).into());
    maybe(rng, 6, &mut overrides, "server", |rng| {
        (pick(rng, &["https://mine.example", "http://mine.example", "", "mine"])).into()
    });
    maybe(rng, 8, &mut overrides, "tlsServerName", |rng| (pick(rng, &["mine.example", ""])).into());
    maybe(rng, 8, &mut overrides, "insecure", |rng| rng.bool().into());
    maybe(rng, 8, &mut overrides, "ca", |rng| (pick(rng, &["@ROOT@/CA", "@ROOT@/missing", "@ROOT@/junk", ""])).into());
    maybe(rng, 8, &mut overrides, "proxyURL", |rng| (pick(rng, &["http://mine:1", "ftp://mine", ""])).into());
    maybe(rng, 8, &mut overrides, "disableCompression", |rng| rng.bool().into());
    maybe(rng, 6, &mut overrides, "token", |rng| (pick(rng, &["mine", ""])).into());
    maybe(rng, 10, &mut overrides, "username", |rng| (pick(rng, &["me", ""])).into());
    maybe(rng, 10, &mut overrides, "password", |rng| (pick(rng, &["mine", ""])).into());
    maybe(rng, 10, &mut overrides, "certificate", |rng| {
        (pick(rng, &["@ROOT@/CERT", "@ROOT@/CERT2", "@ROOT@/missing"])).into()
    });
    maybe(rng, 10, &mut overrides, "key", |rng| (pick(rng, &["@ROOT@/KEY", "@ROOT@/KEY2"])).into());
    maybe(rng, 8, &mut overrides, "as", |rng| (pick(rng, &["carol", ""])).into());
    maybe(rng, 10, &mut overrides, "asUID", |rng| (pick(rng, &["9", ""])).into());
    maybe(rng, 10, &mut overrides, "asGroups", |_| json!(["h"]));
    Value::Object(overrides)
}
