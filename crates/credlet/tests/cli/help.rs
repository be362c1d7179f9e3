use std::fs;

use super::support::CliSandbox;

#[test]
fn prints_the_version() {
    let home = CliSandbox::empty();
    assert_eq!(home.run(&["--version"]).data(), concat!("credlet ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn every_command_has_examples() {
    let home = CliSandbox::empty();
    let verbs = ["get", "request", "whoami", "token", "config resolve", "config check", "doctor", "completions", "man"];
    for verb in verbs {
        let args: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
        let output = home.run(&args);
        assert!(output.data().contains(&format!("\nExamples:\n  credlet {verb}")), "{verb}: {output:?}");
    }
    assert!(home.run(&["--help"]).data().contains("Exit codes:"));
}

#[test]
fn completions_list_commands() {
    let home = CliSandbox::empty();
    for shell in ["bash", "zsh", "fish"] {
        let output = home.run(&["completions", shell]);
        assert!(output.data().contains("whoami") && output.stdout.contains("kubeconfig"), "{shell}");
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn writes_a_man_page_per_command() {
    let home = CliSandbox::empty();
    assert!(home.run(&["man"]).data().contains(".SH"));
    let dir = home.path("man1");
    home.run(&["man", "--dir", dir.to_str().unwrap()]).data();
    for page in ["credlet.1", "credlet-get.1", "credlet-config-check.1"] {
        assert!(fs::read_to_string(dir.join(page)).unwrap().contains(".TH"), "{page}");
    }
    assert!(!dir.join("credlet-demo-plugin.1").exists());
}
