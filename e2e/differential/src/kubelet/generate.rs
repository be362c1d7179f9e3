use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::KubeletComparison;
use crate::random::{json as any, maybe, pick, rarely, text};

pub(super) fn case(about: KubeletComparison, rng: &mut Rng) -> Value {
    match about {
        KubeletComparison::Name => json!({"image": written(rng)}),
        KubeletComparison::Match => {
            let image = if rarely(rng, 8) { pattern(rng) } else { full(rng) };
            let pattern = if rng.bool() { near(rng, &image) } else { pattern(rng) };
            json!({"pattern": pattern, "image": image})
        }
        KubeletComparison::Keyring => {
            let image = full(rng);
            let keys = (0..rng.usize(..6)).map(|_| if rng.bool() { near(rng, &image) } else { key(rng) });
            let keys: Vec<String> = keys.collect();
            json!({"keys": keys, "image": image})
        }
        KubeletComparison::Config => json!({"doc": config(rng), "style": pick(rng, &["yaml", "yaml", "json", "flow"])}),
        KubeletComparison::Request => json!({
            "version": pick(rng, &["v1", "v1beta1", "v1alpha1"]), "image": text(rng), "token": if rng.bool() { text(rng) } else { String::new() },
            "annotations": annotations(rng),
        }),
        KubeletComparison::Response => {
            let version = pick(rng, &["v1", "v1", "v1beta1", "v1alpha1"]);
            json!({"version": version, "doc": response(rng, version), "style": pick(rng, &["json", "json", "json", "pretty"])})
        }
        KubeletComparison::Key => json!({
            "image": full(rng), "namespace": text(rng), "account": text(rng), "uid": text(rng), "token": text(rng),
            "annotations": annotations(rng), "byToken": rng.bool(),
        }),
    }
}

const HOSTS: &[&str] = &[
    "docker.io",
    "index.docker.io",
    "gcr.io",
    "quay.io",
    "123.dkr.ecr.us-east-1.amazonaws.com",
    "localhost",
    "localhost:5000",
    "r.io:443",
    "r.io",
    "R.io",
    "[::1]:5000",
    "[::1]",
    "10.0.0.1",
    "10.0.0.1:5000",
    "registry",
    "a-b.c_d",
    "k8s.gcr.io",
    "registry.k8s.io",
];
const PATHS: &[&str] = &[
    "library/busybox",
    "busybox",
    "a/b/c",
    "app",
    "a__b",
    "a--b",
    "a..b",
    "App",
    "a_b.c-d",
    "lib",
    "library",
    "a/",
    "/a",
    "",
];

fn host(rng: &mut Rng) -> &'static str {
    pick(rng, HOSTS)
}

/// An image name as users write it.
fn written(rng: &mut Rng) -> String {
    const DIGEST: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let mut image =
        if rng.bool() { format!("{}/{}", host(rng), pick(rng, PATHS)) } else { pick(rng, PATHS).to_owned() };
    if rarely(rng, 3) {
        image.push_str(pick(rng, &[":v1", ":latest", ":", ":A_b.c-d", ":.x", ":x:y", ":1"]));
    }
    if rarely(rng, 5) {
        let digests = [
            format!("@sha256:{DIGEST}"),
            "@sha256:abc".to_owned(),
            format!("@sha512:{DIGEST}{DIGEST}"),
            "@".to_owned(),
            format!("@md5:{DIGEST}"),
            format!("@sha256:{}", DIGEST.to_uppercase()),
        ];
        image.push_str(&digests[rng.usize(..digests.len())]);
    }
    match rng.usize(..40) {
        0 => DIGEST.to_owned(),
        1 => text(rng),
        2 => format!("{image}{}", text(rng)),
        3 => format!("https://{image}"),
        4 => "a/".repeat(130) + "b",
        _ => image,
    }
}

/// A normalised image name, as in a provider request.
fn full(rng: &mut Rng) -> String {
    format!("{}/{}", host(rng), pick(rng, PATHS))
}

fn pattern(rng: &mut Rng) -> String {
    let mut host = host(rng).to_owned();
    for _ in 0..rng.usize(..3) {
        let (from, to) = pick(
            rng,
            &[
                ("gcr", "*"),
                ("io", "*"),
                ("us-east-1", "*"),
                ("r.", "*."),
                ("123", "*"),
                ("0", "*"),
                ("q", "q*"),
                ("k8s.", ""),
                ("d", "?"),
                ("a", "[a-z]"),
                (".", "\\."),
                ("local", "*"),
            ],
        );
        host = host.replacen(from, to, 1);
    }
    if rarely(rng, 6) {
        host = pick(
            rng,
            &[
                "*", "*.*", "*.*.*", "**.io", "*.io", "r.io:*", "", "{a}", "%zz", "%41.io", "u:p@r.io", "r io",
                "*.*:5000", "[", "x.io:", "x.io:443",
            ],
        )
        .to_owned();
    }
    let path = pick(
        rng,
        &[
            "",
            "",
            "",
            "/",
            "/lib",
            "/library",
            "/library/busybox",
            "/a/b",
            "/*",
            "/a%2fb",
            "/%zz",
            "?q",
            "#f",
            "/a?b",
            "/app/x",
        ],
    );
    format!("{}{host}{path}", if rarely(rng, 12) { pick(rng, &["https://", "http://", " ", "//"]) } else { "" })
}

/// A pattern that matches, or differs in one detail.
fn near(rng: &mut Rng, image: &str) -> String {
    let (host, path) = image.split_once('/').unwrap_or((image, ""));
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let label = |label: &str, rng: &mut Rng| match rng.usize(..6) {
        0 => "*".to_owned(),
        1 => format!("{}*", label.get(..1).unwrap_or_default()),
        2 => format!("*{}", label.get(1..).unwrap_or_default()),
        _ => label.to_owned(),
    };
    let mut pattern = name.split('.').map(|part| label(part, rng)).collect::<Vec<_>>().join(".");
    if let Some(port) = port.filter(|_| !rarely(rng, 6)) {
        pattern.push_str(&format!(":{port}"));
    }
    let end = rng.usize(..=path.len());
    let rest = path.get(..if rng.bool() { end } else { path.len() }).unwrap_or_default();
    match rng.usize(..4) {
        0 => pattern,
        1 => format!("{}{pattern}/{rest}", pick(rng, &["https://", "http://", ""])),
        _ => format!("{pattern}/{rest}"),
    }
}

fn key(rng: &mut Rng) -> String {
    let key = pattern(rng);
    match rng.usize(..6) {
        0 => format!("https://{key}"),
        1 => format!("http://{key}/v1/"),
        2 => format!("{key}/v2/"),
        3 => format!("{key}/v1"),
        _ => key,
    }
}

fn annotations(rng: &mut Rng) -> Value {
    Value::Object((0..rng.usize(..4)).map(|_| (text(rng), text(rng).into())).collect())
}

const DURATIONS: &[&str] = &[
    "0", "0s", "1h", "1h30m", "1.5h", "10ms", "-1m", "12", "", "1d", "1us", "1\u{b5}s", "+5s", ".5s", "1.s",
    "9999999h", "1h 1m", "5S", "1ns",
];

/// Mostly a valid value.
fn some(rng: &mut Rng, value: Value) -> Value {
    if rarely(rng, 60) { any(rng, 1) } else { value }
}

fn config(rng: &mut Rng) -> Value {
    let version = pick(rng, &["v1", "v1", "v1", "v1beta1", "v1alpha1"]);
    let mut config = Map::new();
    let version_text = if rarely(rng, 40) {
        pick(rng, &["kubelet.config.k8s.io/v2", "v1", ""]).to_owned()
    } else {
        format!("kubelet.config.k8s.io/{version}")
    };
    config.insert("apiVersion".to_owned(), version_text.into());
    config.insert(
        "kind".to_owned(),
        if rarely(rng, 40) { "KubeletConfiguration".into() } else { "CredentialProviderConfig".into() },
    );
    maybe(rng, 60, &mut config, "metadata", |_| json!({}));
    maybe(rng, 60, &mut config, "unknown", |rng| any(rng, 1));
    let count = pick(rng, &[1, 1, 1, 1, 2, 0]);
    let providers: Vec<Value> = (0..count).map(|index| provider(rng, index, version)).collect();
    if !rarely(rng, 40) {
        let providers = some(rng, providers.into());
        config.insert("providers".to_owned(), providers);
    }
    Value::Object(config)
}

fn provider(rng: &mut Rng, index: usize, version: &str) -> Value {
    let mut provider = Map::new();
    let name = if rarely(rng, 15) {
        pick(rng, &["a/b", "a b", ".", "..", "", "ecr"]).to_owned()
    } else {
        format!("provider{index}")
    };
    let patterns: Vec<Value> = (0..pick(rng, &[1, 1, 2, 0]))
        .map(|_| if rarely(rng, 6) { pattern(rng).into() } else { "*.r.io".into() })
        .collect();
    let of_api = if rarely(rng, 12) {
        pick(rng, &["", "v1", "credentialprovider.kubelet.k8s.io/v2"]).to_owned()
    } else {
        format!("credentialprovider.kubelet.k8s.io/{}", pick(rng, &["v1", "v1", "v1beta1", "v1alpha1"]))
    };
    let duration = if rarely(rng, 5) { pick(rng, DURATIONS) } else { "1h" };
    for (field, value) in [
        ("name", Value::from(name)),
        ("matchImages", patterns.into()),
        ("apiVersion", of_api.into()),
        ("defaultCacheDuration", duration.into()),
    ] {
        if !rarely(rng, 40) {
            let value = some(rng, value);
            provider.insert(field.to_owned(), value);
        }
    }
    maybe(rng, 5, &mut provider, "args", |rng| some(rng, json!(["a", "b"])));
    maybe(rng, 5, &mut provider, "env", |rng| {
        let entry = some(rng, json!({"name": "A", "value": "b"}));
        json!([entry])
    });
    maybe(rng, 50, &mut provider, "unknown", |rng| any(rng, 1));
    maybe(rng, 80, &mut provider, "name#2", |_| "again".into());
    maybe(rng, 80, &mut provider, "Name", |_| "again".into());
    if version == "v1" && rarely(rng, 2) || rarely(rng, 40) {
        let attributes = attributes(rng);
        provider.insert("tokenAttributes".to_owned(), attributes);
    }
    Value::Object(provider)
}

fn attributes(rng: &mut Rng) -> Value {
    let keys = |rng: &mut Rng| -> Value {
        (0..rng.usize(..3))
            .map(|_| {
                Value::from(pick(
                    rng,
                    &["a", "example.com/role", "Example.com/Role", "a", "bad-", "a/b/c", "", "x.y/z_1", "-a", "UPPER"],
                ))
            })
            .collect()
    };
    let mut attributes = Map::new();
    if !rarely(rng, 20) {
        attributes
            .insert("serviceAccountTokenAudience".to_owned(), pick(rng, &["aud", "aud", "aud", "aud", ""]).into());
    }
    if !rarely(rng, 20) {
        attributes.insert(
            "cacheType".to_owned(),
            pick(rng, &["Token", "ServiceAccount", "Token", "ServiceAccount", "token", ""]).into(),
        );
    }
    if !rarely(rng, 20) {
        let required = rng.usize(..3) > 0;
        let value = some(rng, required.into());
        attributes.insert("requireServiceAccount".to_owned(), value);
    }
    maybe(rng, 3, &mut attributes, "requiredServiceAccountAnnotationKeys", keys);
    maybe(rng, 3, &mut attributes, "optionalServiceAccountAnnotationKeys", keys);
    Value::Object(attributes)
}

fn response(rng: &mut Rng, version: &str) -> Value {
    let mut response = Map::new();
    let version = if rarely(rng, 25) { pick(rng, &["v1", "v1beta1", "v2", ""]) } else { version };
    if !rarely(rng, 40) {
        response.insert("apiVersion".to_owned(), format!("credentialprovider.kubelet.k8s.io/{version}").into());
    }
    if !rarely(rng, 40) {
        response.insert(
            "kind".to_owned(),
            pick(
                rng,
                &[
                    "CredentialProviderResponse",
                    "CredentialProviderResponse",
                    "CredentialProviderResponse",
                    "CredentialProviderResponse",
                    "CredentialProviderRequest",
                ],
            )
            .into(),
        );
    }
    if !rarely(rng, 30) {
        let kind = pick(rng, &["Image", "Registry", "Global", "Image", "Registry", "Global", "image", ""]);
        let kind = some(rng, kind.into());
        response.insert("cacheKeyType".to_owned(), kind);
    }
    maybe(rng, 2, &mut response, "cacheDuration", |rng| {
        let duration = if rarely(rng, 3) { pick(rng, DURATIONS) } else { "5m" };
        some(rng, duration.into())
    });
    if !rarely(rng, 10) {
        let auth = (0..rng.usize(..3)).map(|_| {
            let key = key(rng);
            let entry = json!({"username": text(rng), "password": text(rng)});
            let entry = some(rng, entry);
            (key, entry)
        });
        let auth = Value::Object(auth.collect());
        let auth = some(rng, auth);
        response.insert("auth".to_owned(), auth);
    }
    maybe(rng, 50, &mut response, "unknown", |rng| any(rng, 1));
    maybe(rng, 80, &mut response, "cacheKeyType#2", |_| "Image".into());
    maybe(rng, 80, &mut response, "Auth", |_| json!({}));
    Value::Object(response)
}
