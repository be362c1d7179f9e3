//! Names, patterns and keyrings, by the facts of `vectors/image.json` and against a second, naive implementation.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use credlet_api::image::AuthConfig;
use credlet_image::{
    ImageName, Keyring, Mismatch, NameFault, Pattern, PatternIndex, Target, auth_hash, is_default_registry, look_up,
    normalise,
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
    match (Pattern::parse(glob), Target::parse(image)) {
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
fn patterns_match_what_the_kubelet_matches() {
    for case in vectors("match") {
        let (glob, image) = (text(&case, "glob"), text(&case, "image"));
        assert_eq!(pattern_matches(glob, image), case["match"].as_bool().unwrap(), "{case}");
        assert_eq!(Pattern::parse(glob).is_err(), case.get("error").is_some(), "{case}");
    }
}

#[test]
fn image_names_are_completed_as_the_kubelet_completes_them() {
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
        assert_eq!(Target::from(&name), Target::parse(name.as_str()).unwrap());
    }
}

#[test]
fn bad_image_names_say_what_is_wrong_with_them() {
    for case in vectors("imageParseError") {
        let reason = text(&case, "in").parse::<ImageName>().unwrap_err().reason;
        let expected = match text(&case, "contains") {
            "must be lowercase" => NameFault::UpperCase,
            "cannot specify 64-byte hexadecimal strings" => NameFault::Identifier,
            _ => NameFault::Format,
        };
        assert_eq!(reason, expected, "{case}");
    }
    let long = format!("r.io/{}", "a".repeat(256));
    assert_eq!(long.parse::<ImageName>().unwrap_err().reason, NameFault::TooLong);
    let error = "r.io/\u{1b}[2Jx\n".parse::<ImageName>().unwrap_err().to_string();
    assert!(error.contains("U+001B") && !error.contains('\n'), "{error}");
    assert_eq!("a@sha256:short".parse::<ImageName>().unwrap_err().reason, NameFault::Digest);
}

#[test]
fn keys_are_normalised_as_the_kubelet_normalises_them() {
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

fn ring(entries: &[(&str, &str)]) -> Keyring {
    Keyring::new(entries.iter().map(|(key, name)| (*key, auth(name))))
}

fn names(rings: &[&Keyring], image: &str) -> Vec<String> {
    look_up(rings, image).iter().map(|found| found.auth.username.clone()).collect()
}

#[test]
fn a_keyring_finds_what_the_kubelet_finds() {
    for case in vectors("keyringSingleKey") {
        let keyring = ring(&[(text(&case, "key"), "x")]);
        assert_eq!(!names(&[&keyring], text(&case, "image")).is_empty(), case["found"].as_bool().unwrap(), "{case}");
    }
}

#[test]
fn keys_are_tried_in_descending_order_of_bytes() {
    let keys: Vec<_> = vectors("keyOrderReverseBytewise").iter().map(|key| key.as_str().unwrap().to_owned()).collect();
    let keyring = Keyring::new(keys.iter().rev().map(|key| (key, AuthConfig::default())));
    assert_eq!(keyring.keys().collect::<Vec<_>>(), keys);
}

#[test]
fn the_longer_key_is_tried_first_and_a_prefix_knows_no_segments() {
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
fn under_one_key_providers_come_in_their_order() {
    let a = ring(&[("r.io", "first"), ("r.io/a", "first-path"), ("*.io", "first-glob")]);
    let b = ring(&[("r.io", "second"), ("r.io/a/b", "second-deep")]);
    let expected = ["second-deep", "first-path", "first", "second", "first-glob"];
    assert_eq!(names(&[&a, &b], "r.io/a/b/c"), expected);
    assert_eq!(names(&[&a, &b], "x.io/q"), ["first-glob"]);
}

#[test]
fn keys_that_normalise_alike_keep_their_order() {
    let keyring = ring(&[("https://r.io/v1/", "one"), ("r.io", "two"), ("r.io/v2/", "three")]);
    assert_eq!(names(&[&keyring], "r.io/x"), ["one", "two", "three"]);
}

#[test]
fn the_hub_is_asked_only_when_nothing_else_matched() {
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
fn a_key_that_is_no_place_is_ignored_and_named() {
    let keyring = ring(&[("%zz", "x"), ("r.io", "y")]);
    assert_eq!(keyring.ignored()[0].key, "%zz");
    assert_eq!(names(&[&keyring], "r.io/a"), ["y"]);
}

#[test]
fn a_credential_is_known_again_by_the_kubelets_hash() {
    for case in vectors("authConfigHash") {
        let field = |name: &str| case["auth"][name].as_str().unwrap_or_default();
        let password = field("password").into();
        assert_eq!(auth_hash(field("username"), &password, field("email")), text(&case, "sha256"), "{case}");
    }
}

#[test]
fn a_near_miss_has_a_reason() {
    let reasons = |glob: &str, image: &str| Pattern::parse(glob).unwrap().mismatches(&Target::parse(image).unwrap());
    assert_eq!(reasons("r.io/*", "r.io/foo"), [Mismatch::StarInPath]);
    assert!(matches!(&reasons("r.io", "r.io:443/foo")[..], [Mismatch::Port { .. }]));
    assert!(matches!(&reasons("R.io", "r.io/foo")[..], [Mismatch::LabelCase { .. }]));
    assert!(matches!(&reasons("*", "docker.io/library/x")[..], [Mismatch::LabelCount { pattern: 1, image: 2 }]));
    assert_eq!(reasons("https://r.io", "r.io/foo"), [Mismatch::Scheme]);
    assert_eq!(reasons("[::1]", "[::1]/foo"), [Mismatch::Ipv6WithoutPort]);
    assert!(matches!(&reasons("r.io/team", "r.io/other")[..], [Mismatch::Path { .. }]));
}

#[test]
fn ipv6_hosts_need_their_port() {
    assert!(pattern_matches("[::1]:5000", "[::1]:5000/foo"));
    assert!(!pattern_matches("[::1]", "[::1]/foo"));
    assert!(pattern_matches("*", "[2001:db8::1]/foo"));
    assert!(Pattern::parse("[::1").is_err() && Pattern::parse("[x]").is_err() && Pattern::parse("a:1:2").is_err());
}

#[test]
fn brackets_around_no_address_are_a_name_that_nothing_matches() {
    for (image, pattern) in [("[1:2]/app", "*"), ("[1:2]:5000/app", "*:5000"), ("[::1::]/app", "*")] {
        let name: ImageName = image.parse().unwrap();
        assert!(Target::parse(name.as_str()).is_err(), "{image}");
        let pattern = Pattern::parse(pattern).unwrap();
        let index: PatternIndex = [&pattern].into_iter().collect();
        assert!(!pattern.matches(&Target::from(&name)), "{image}");
        assert_eq!(pattern.mismatches(&Target::from(&name)), [Mismatch::NoAddress], "{image}");
        assert!(index.matching(&Target::from(&name)).is_empty(), "{image}");
    }
    let name: ImageName = "[::1]:5000/app".parse().unwrap();
    assert!(Pattern::parse("*:5000").unwrap().matches(&Target::from(&name)));
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
    fn the_matcher_agrees_with_the_naive_one(glob in place("[ab*]{0,4}"), image in place("[ab]{0,4}")) {
        prop_assert_eq!(pattern_matches(&glob, &image), naive(&glob, &image), "{} {}", glob, image);
    }

    #[test]
    fn the_index_agrees_with_one_pattern_after_the_other(
        globs in prop::collection::vec(place("[ab*]{0,3}"), 0..40),
        image in place("[ab]{0,3}"),
    ) {
        let patterns: Vec<_> = globs.iter().map(|glob| Pattern::parse(glob).unwrap()).collect();
        let index: PatternIndex = patterns.iter().collect();
        let one_by_one: Vec<_> = (0..globs.len()).filter(|number| naive(&globs[*number], &image)).collect();
        prop_assert_eq!(index.matching(&Target::parse(&image).unwrap()), one_by_one);
    }

    #[test]
    fn what_a_pattern_covers_it_matches(
        wide in place("[ab*]{0,3}"), narrow in place("[ab*]{0,3}"), image in place("[ab]{0,3}"),
    ) {
        let covers = Pattern::parse(&wide).unwrap().covers(&Pattern::parse(&narrow).unwrap());
        prop_assert!(!(covers && naive(&narrow, &image)) || naive(&wide, &image));
    }

    #[test]
    fn no_text_at_all_is_too_much_for_names_patterns_and_keys(text in any::<String>(), image in any::<String>()) {
        let _ = text.parse::<ImageName>();
        let _ = normalise(&text);
        pattern_matches(&text, &image);
    }

    #[test]
    fn a_completed_name_stays_as_it_is(name in "([a-z.:A-Z0-9-]{0,8}/){0,2}[a-z0-9._-]{1,8}(:[a-z0-9]{1,3})?") {
        if let Ok(name) = name.parse::<ImageName>() {
            let again: ImageName = name.as_str().parse().unwrap();
            prop_assert_eq!(again.as_str(), name.as_str());
        }
    }
}
