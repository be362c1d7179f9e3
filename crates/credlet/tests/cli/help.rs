use std::fs;

use super::support::Home;

#[test]
fn the_version_is_data() {
    let home = Home::empty();
    assert_eq!(home.run(&["--version"]).data(), concat!("credlet ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn every_verb_teaches_with_examples() {
    let home = Home::empty();
    let verbs = ["get", "request", "whoami", "token", "config resolve", "config check", "doctor", "completions", "man"];
    for verb in verbs {
        let words: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
        let ran = home.run(&words);
        assert!(ran.data().contains(&format!("\nExamples:\n  credlet {verb}")), "{verb}: {ran:?}");
    }
    assert!(home.run(&["--help"]).data().contains("Exit codes:"));
}

#[test]
fn completions_know_the_verbs() {
    let home = Home::empty();
    for shell in ["bash", "zsh", "fish"] {
        let ran = home.run(&["completions", shell]);
        assert!(ran.data().contains("whoami") && ran.stdout.contains("kubeconfig"), "{shell}");
        assert!(!ran.stdout.is_empty());
    }
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let home = Home::empty();
    assert!(home.run(&["man"]).data().contains(".SH"));
    let dir = home.path("man1");
    home.run(&["man", "--dir", dir.to_str().unwrap()]).data();
    for page in ["credlet.1", "credlet-get.1", "credlet-config-check.1"] {
        assert!(fs::read_to_string(dir.join(page)).unwrap().contains(".TH"), "{page}");
    }
    assert!(!dir.join("credlet-demo-plugin.1").exists());
}
