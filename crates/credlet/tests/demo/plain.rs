use crate::{Place, assert_no_secret};

const ROWS: [&str; 7] = [
    "building a client",
    "64 requests at once, cold",
    "tokens expire under load",
    "a certificate rotates under a watch",
    "the server revokes a token",
    "the server is strict",
    "all requests",
];

#[test]
fn all_of_it_holds_and_a_film_is_all_that_is_left() {
    let place = Place::new();
    let film = place.path().join("demo.svg");
    let (output, stdout, stderr) = place.run(&["demo", "--rounds", "1", "--record", film.to_str().unwrap()]);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{stdout}");
    for row in ROWS {
        assert!(stdout.contains(&format!("\n ✓ {row}")), "{row} in {stdout}");
    }
    assert!(stdout.contains(" 64 answered, 1 plugin run\n"), "{stdout}");
    assert!(stdout.ends_with("\n\n All of it held.\n"), "{stdout}");
    assert!(!stdout.contains('✗') && !stdout.contains('\u{1b}'), "{stdout}");
    assert_no_secret(&stdout);

    assert_eq!(place.left_behind(), std::slice::from_ref(&film));
    let svg = std::fs::read_to_string(film).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for part in ["@keyframes", "prefers-color-scheme: dark", "prefers-reduced-motion", "All of it held."] {
        assert!(svg.contains(part), "{part}");
    }
    // What XML does not allow in a comment.
    assert_eq!(svg.matches("--").count(), 2 * svg.matches("<!--").count());
    assert_no_secret(&svg);
}

#[test]
fn a_demo_in_which_renewal_fails_fails() {
    let place = Place::new();
    let (output, stdout, stderr) = place.run(&["demo", "--break-renewal"]);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("\n ✓ 64 requests at once, cold"), "{stdout}");
    for row in &ROWS[2..] {
        assert!(stdout.contains(&format!("\n ✗ {row}")), "{row} in {stdout}");
    }
    assert!(stdout.ends_with("\n\n Not all of it held.\n"), "{stdout}");
    assert_no_secret(&(stdout + &stderr));
    assert!(place.left_behind().is_empty());
}

#[test]
fn a_film_that_cannot_be_written_is_an_error() {
    let place = Place::new();
    let (output, _, stderr) = place.run(&["demo", "--rounds", "1", "--record", "/nonexistent/demo.svg"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("/nonexistent/demo.svg"), "{stderr}");
    assert!(place.left_behind().is_empty());
}

#[test]
fn the_plugin_alone_says_what_it_is() {
    let place = Place::new();
    let (output, stdout, stderr) = place.run(&["demo-plugin"]);
    assert_eq!((output.status.code(), &*stdout), (Some(1), ""));
    assert!(stderr.contains("KUBERNETES_EXEC_INFO"), "{stderr}");
    let info =
        r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}"#;
    let output = place.credlet(&["demo-plugin"]).env("KUBERNETES_EXEC_INFO", info).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("hint: run `credlet demo`"), "{stderr}");
}
