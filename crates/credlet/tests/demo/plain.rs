use crate::{DemoSandbox, assert_no_secret};

const ROWS: [&str; 7] = [
    "building a client",
    "64 requests at once, cold",
    "tokens expire under load",
    "a certificate rotates under a watch",
    "the server revokes a token",
    "invalid credentials are rejected",
    "all requests",
];

#[test]
fn passes_and_records_an_svg() {
    let sandbox = DemoSandbox::new();
    let film = sandbox.path().join("demo.svg");
    let (output, stdout, stderr) = sandbox.run(&["demo", "--rounds", "1", "--record", film.to_str().unwrap()]);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{stdout}");
    for row in ROWS {
        assert!(stdout.contains(&format!("\n ✓ {row}")), "{row} in {stdout}");
    }
    assert!(stdout.contains(" 64 succeeded, 1 plugin run\n"), "{stdout}");
    assert!(stdout.ends_with("\n\n All checks passed.\n"), "{stdout}");
    assert!(!stdout.contains('✗') && !stdout.contains('\u{1b}'), "{stdout}");
    assert_no_secret(&stdout);

    assert_eq!(sandbox.leftovers(), std::slice::from_ref(&film));
    let svg = std::fs::read_to_string(film).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for part in ["@keyframes", "prefers-color-scheme: dark", "prefers-reduced-motion", "All checks passed."] {
        assert!(svg.contains(part), "{part}");
    }
    // `--` is not allowed in an XML comment.
    assert_eq!(svg.matches("--").count(), 2 * svg.matches("<!--").count());
    assert_no_secret(&svg);
}

#[test]
fn fails_if_refresh_fails() {
    let sandbox = DemoSandbox::new();
    let (output, stdout, stderr) = sandbox.run(&["demo", "--break-renewal"]);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("\n ✓ 64 requests at once, cold"), "{stdout}");
    for row in &ROWS[2..] {
        assert!(stdout.contains(&format!("\n ✗ {row}")), "{row} in {stdout}");
    }
    assert!(stdout.ends_with("\n\n Some checks failed.\n"), "{stdout}");
    assert_no_secret(&(stdout + &stderr));
    assert!(sandbox.leftovers().is_empty());
}

#[test]
fn reports_unwritable_recording() {
    let sandbox = DemoSandbox::new();
    let (output, _, stderr) = sandbox.run(&["demo", "--rounds", "1", "--record", "/nonexistent/demo.svg"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("/nonexistent/demo.svg"), "{stderr}");
    assert!(sandbox.leftovers().is_empty());
}

#[test]
fn plugin_alone_reports_missing_variable() {
    let sandbox = DemoSandbox::new();
    let (output, stdout, stderr) = sandbox.run(&["demo-plugin"]);
    assert_eq!((output.status.code(), &*stdout), (Some(1), ""));
    assert!(stderr.contains("KUBERNETES_EXEC_INFO"), "{stderr}");
    let info =
        r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}"#;
    let output = sandbox.credlet(&["demo-plugin"]).env("KUBERNETES_EXEC_INFO", info).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("hint: run `credlet demo`, which runs this plugin"), "{stderr}");
}
