//! Names, patterns and keyrings, by the facts of `vectors/image.json` and against a second, naive implementation.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use credlet_api::image::AuthConfig;
use credlet_image::{
    DockerKeyring, ImageName, ImageNameFault, ImagePattern, MatchTarget, PatternIndex, PatternMismatch, auth_hash,
    is_default_registry, look_up, normalise,
};
use proptest::prelude::*;
use serde_json::Value;

fn vectors(list: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("vectors/image.json")).unwrap();
    all[list].as_array().unwrap().clone()
}

fn text<'a>(case: &'a Value, member: &str) -> &'a str {
    case[member].as_str().unwrap()
}

fn pattern_matches(glob: &str, image: &str) -> bool {
    match (ImagePattern::parse(glob), MatchTarget::parse(image)) {
        (Ok(pattern), Ok(target)) => {
            let matches = pattern.matches(&target);
            let index: PatternIndex = [&pattern].into_iter().collect();
            assert_eq!(!index.matching(&target).is_empty(), matches, "the index agrees: {glob} {image}");
            assert_eq!(pattern.mismatches(&target).is_empty(), matches, "the reasons agree: {glob} {image}");
            matches
        }
        _ => false,
    }
}

#[test]
fn patterns_match_like_kubelet() {
    for case in vectors("match") {
        let (glob, image) = (text(&case, "glob"), text(&case, "image"));
        assert_eq!(pattern_matches(glob, image), case["match"].as_bool().unwrap(), "{case}");
        assert_eq!(ImagePattern::parse(glob).is_err(), case.get("error").is_some(), "{case}");
    }
}

#[test]
fn normalises_image_names_like_kubelet() {
    for case in vectors("imageNames").into_iter().chain(vectors("imageParse")) {
        let parsed = text(&case, "in").parse::<ImageName>();
        if case.get("error").is_some() {
            assert!(parsed.is_err(), "{case}");
            continue;
        }
        let name = parsed.unwrap();
        assert_eq!(name.as_str(), text(&case, "repo"));
        let tag = name.tag().unwrap_or(if name.digest().is_none() { "latest" } else { "" });
        assert_eq!(tag, text(&case, "tag"));
        assert_eq!(name.digest().unwrap_or_default(), text(&case, "digest"));
        assert_eq!(MatchTarget::from(&name), MatchTarget::parse(name.as_str()).unwrap());
    }
}

#[test]
fn invalid_image_names_have_a_reason() {
    for case in vectors("imageParseError") {
        let reason = text(&case, "in").parse::<ImageName>().unwrap_err().reason;
        let expected = match text(&case, "contains") {
            "must be lowercase" => ImageNameFault::UpperCase,
            "cannot specify 64-byte hexadecimal strings" => ImageNameFault::Identifier,
            _ => ImageNameFault::Format,
        };
        assert_eq!(reason, expected, "{case}");
    }
    let long = format!("r.io/{}", "a".repeat(256));
    assert_eq!(long.parse::<ImageName>().unwrap_err().reason, ImageNameFault::TooLong);
    let error = "r.io/\u{1b}[2Jx\n".parse::<ImageName>().unwrap_err().to_string();
    assert!(error.contains("U+001B") && !error.contains('\n'), "{error}");
    assert_eq!("a@sha256:short".parse::<ImageName>().unwrap_err().reason, ImageNameFault::Digest);
}

#[test]
fn normalises_keys_like_kubelet() {
    let more = [
        ("docker.io/v2/", "docker.io"),
        ("reg.io/v2/v2/", "reg.io/v2/"),
        ("x.io/a?b#c", "x.io/a"),
        ("u:p@x.io/y", "x.io/y"),
        ("HTTPS://Foo.com/x", "HTTPS://Foo.com/x"),
    ];
    for (key, normal) in more {
        assert_eq!(normalise(key).unwrap(), normal.as_bytes());
    }
    for case in vectors("authKeyNormalise") {
        let normal = normalise(text(&case, "in")).ok();
        assert_eq!(normal.as_deref(), case["out"].as_str().map(str::as_bytes), "{case}");
    }
}

fn auth(name: &str) -> AuthConfig {
    AuthConfig { username: name.to_owned(), ..AuthConfig::default() }
}

fn ring(entries: &[(&str, &str)]) -> DockerKeyring {
    DockerKeyring::new(entries.iter().map(|(key, name)| (*key, auth(name))))
}

fn names(rings: &[&DockerKeyring], image: &str) -> Vec<String> {
    look_up(rings, image).iter().map(|found| found.auth.username.clone()).collect()
}

#[test]
fn keyring_matches_kubelet() {
    for case in vectors("keyringSingleKey") {
        let keyring = ring(&[(text(&case, "key"), "x")]);
        assert_eq!(!names(&[&keyring], text(&case, "image")).is_empty(), case["found"].as_bool().unwrap(), "{case}");
    }
}

#[test]
fn tries_keys_in_descending_byte_order() {
    let keys: Vec<_> = vectors("keyOrderReverseBytewise").iter().map(|key| key.as_str().unwrap().to_owned()).collect();
    let keyring = DockerKeyring::new(keys.iter().rev().map(|key| (key, AuthConfig::default())));
    assert_eq!(keyring.keys().collect::<Vec<_>>(), keys);
}

#[test]
fn tries_longer_key_first() {
    let keyring = ring(&[("bar.example.com/pong", "grace"), ("bar.example.com", "ada")]);
    for (image, expected) in [
        ("bar.example.com", &["ada"][..]),
        ("bar.example.com/pong", &["grace", "ada"]),
        ("bar.example.com/ping", &["ada"]),
        ("bar.example.com/pongz", &["grace", "ada"]),
        ("example.com", &[]),
        ("foo.example.com", &[]),
    ] {
        assert_eq!(names(&[&keyring], image), expected, "{image}");
    }
    let quay = ring(&[("https://quay.io/v1/", "rex")]);
    for image in ["quay.io", "quay.io/foo", "quay.io/foo/bar"] {
        assert_eq!(names(&[&quay], image), ["rex"]);
    }
}

#[test]
fn equal_keys_keep_provider_order() {
    let a = ring(&[("r.io", "first"), ("r.io/a", "first-path"), ("*.io", "first-glob")]);
    let b = ring(&[("r.io", "second"), ("r.io/a/b", "second-deep")]);
    let expected = ["second-deep", "first-path", "first", "second", "first-glob"];
    assert_eq!(names(&[&a, &b], "r.io/a/b/c"), expected);
    assert_eq!(names(&[&a, &b], "x.io/q"), ["first-glob"]);
}

#[test]
fn equal_normalised_keys_keep_order() {
    let keyring = ring(&[("https://r.io/v1/", "one"), ("r.io", "two"), ("r.io/v2/", "three")]);
    assert_eq!(names(&[&keyring], "r.io/x"), ["one", "two", "three"]);
}

#[test]
fn falls_back_to_docker_hub_key() {
    let hub = ring(&[("https://index.docker.io/v1/", "hub")]);
    for image in ["google/docker-registry", "jenkins", "docker.io/library/jenkins", "index.docker.io/v1//google/x"] {
        assert_eq!(names(&[&hub], image), ["hub"], "{image}");
    }
    let other = ring(&[("*.io", "glob")]);
    assert_eq!(names(&[&hub, &other], "docker.io/library/jenkins"), ["glob"]);
    assert_eq!(names(&[&hub, &other], "quay.io.example/x"), [""; 0]);
    for case in vectors("defaultRegistryMatch") {
        assert_eq!(is_default_registry(text(&case, "image")), case["match"].as_bool().unwrap(), "{case}");
    }
}

#[test]
fn ignores_invalid_keys() {
    let keyring = ring(&[("%zz", "x"), ("r.io", "y")]);
    assert_eq!(keyring.ignored()[0].key, "%zz");
    assert_eq!(names(&[&keyring], "r.io/a"), ["y"]);
}

#[test]
fn auth_hash_matches_kubelet() {
    for case in vectors("authConfigHash") {
        let field = |name: &str| case["auth"][name].as_str().unwrap_or_default();
        let password = field("password").into();
        assert_eq!(auth_hash(field("username"), &password, field("email")), text(&case, "sha256"), "{case}");
    }
}

#[test]
fn mismatches_have_reasons() {
    let reasons =
        |glob: &str, image: &str| ImagePattern::parse(glob).unwrap().mismatches(&MatchTarget::parse(image).unwrap());
    assert_eq!(reasons("r.io/*", "r.io/foo"), [PatternMismatch::StarInPath]);
    assert!(matches!(&reasons("r.io", "r.io:443/foo")[..], [PatternMismatch::Port { .. }]));
    assert!(matches!(&reasons("R.io", "r.io/foo")[..], [PatternMismatch::LabelCase { .. }]));
    assert!(matches!(&reasons("*", "docker.io/library/x")[..], [PatternMismatch::LabelCount { pattern: 1, image: 2 }]));
    assert_eq!(reasons("https://r.io", "r.io/foo"), [PatternMismatch::Scheme]);
    assert_eq!(reasons("[::1]", "[::1]/foo"), [PatternMismatch::Ipv6WithoutPort]);
    assert!(matches!(&reasons("r.io/team", "r.io/other")[..], [PatternMismatch::Path { .. }]));
}

#[test]
fn ipv6_hosts_need_a_port() {
    assert!(pattern_matches("[::1]:5000", "[::1]:5000/foo"));
    assert!(!pattern_matches("[::1]", "[::1]/foo"));
    assert!(pattern_matches("*", "[2001:db8::1]/foo"));
    assert!(
        ImagePattern::parse("[::1").is_err()
            && ImagePattern::parse("[x]").is_err()
            && ImagePattern::parse("a:1:2").is_err()
    );
}

#[test]
fn invalid_brackets_match_nothing() {
    for (image, pattern) in [("[1:2]/app", "*"), ("[1:2]:5000/app", "*:5000"), ("[::1::]/app", "*")] {
        let name: ImageName = image.parse().unwrap();
        assert!(MatchTarget::parse(name.as_str()).is_err(), "{image}");
        let pattern = ImagePattern::parse(pattern).unwrap();
        let index: PatternIndex = [&pattern].into_iter().collect();
        assert!(!pattern.matches(&MatchTarget::from(&name)), "{image}");
        assert_eq!(pattern.mismatches(&MatchTarget::from(&name)), [PatternMismatch::NotIpv6], "{image}");
        assert!(index.matching(&MatchTarget::from(&name)).is_empty(), "{image}");
    }
    let name: ImageName = "[::1]:5000/app".parse().unwrap();
    assert!(ImagePattern::parse("*:5000").unwrap().matches(&MatchTarget::from(&name)));
}

/// The matching rules once more, in the plainest way: for texts without escapes, users, queries and brackets.
fn naive(glob: &str, image: &str) -> bool {
    fn split(text: &str) -> (Vec<&str>, &str, &str) {
        let (host, path) = text.split_at(text.find('/').unwrap_or(text.len()));
        let (host, port) = host.split_once(':').unwrap_or((host, ""));
        (host.split('.').collect(), port, path)
    }
    fn label(glob: &[u8], text: &[u8]) -> bool {
        match glob {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|taken| label(rest, &text[taken..])),
            [first, rest @ ..] => text.first() == Some(first) && label(rest, &text[1..]),
        }
    }
    let ((globs, glob_port, glob_path), (labels, port, path)) = (split(glob), split(image));
    glob_port == port
        && globs.len() == labels.len()
        && path.starts_with(glob_path)
        && globs.iter().zip(&labels).all(|(glob, text)| label(glob.as_bytes(), text.as_bytes()))
}

/// Few letters, so that matches are frequent.
fn place(label: &'static str) -> impl Strategy<Value = String> {
    let host = prop::collection::vec(label, 1..4).prop_map(|labels| labels.join("."));
    let port = prop::option::of("[0-9]{0,2}").prop_map(|port| port.map(|port| format!(":{port}")).unwrap_or_default());
    (host, port, "(/[ab*]{0,3}){0,3}").prop_map(|(host, port, path)| host + &port + &path)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn glob_agrees_with_naive_matcher(glob in place("[ab*]{0,4}"), image in place("[ab]{0,4}")) {
        prop_assert_eq!(pattern_matches(&glob, &image), naive(&glob, &image), "{} {}", glob, image);
    }

    #[test]
    fn index_agrees_with_linear_search(
        globs in prop::collection::vec(place("[ab*]{0,3}"), 0..40),
        image in place("[ab]{0,3}"),
    ) {
        let patterns: Vec<_> = globs.iter().map(|glob| ImagePattern::parse(glob).unwrap()).collect();
        let index: PatternIndex = patterns.iter().collect();
        let one_by_one: Vec<_> = (0..globs.len()).filter(|number| naive(&globs[*number], &image)).collect();
        prop_assert_eq!(index.matching(&MatchTarget::parse(&image).unwrap()), one_by_one);
    }

    #[test]
    fn covering_pattern_matches(
        wide in place("[ab*]{0,3}"), narrow in place("[ab*]{0,3}"), image in place("[ab]{0,3}"),
    ) {
        let covers = ImagePattern::parse(&wide).unwrap().covers(&ImagePattern::parse(&narrow).unwrap());
        prop_assert!(!(covers && naive(&narrow, &image)) || naive(&wide, &image));
    }

    #[test]
    fn parsers_never_panic(text in any::<String>(), image in any::<String>()) {
        let _ = text.parse::<ImageName>();
        let _ = normalise(&text);
        pattern_matches(&text, &image);
    }

    #[test]
    fn normalisation_is_idempotent(name in "([a-z.:A-Z0-9-]{0,8}/){0,2}[a-z0-9._-]{1,8}(:[a-z0-9]{1,3})?") {
        if let Ok(name) = name.parse::<ImageName>() {
            let again: ImageName = name.as_str().parse().unwrap();
            prop_assert_eq!(again.as_str(), name.as_str());
        }
    }
}
