use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use credlet_exec::Platform;
use credlet_image::{ConfigError, ImageCredentials, ImageProvidersConfig, LintIssue, ProviderOptions, lint};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use serde_json::Value;

use crate::{Sandbox, get, names, responding, response_json};

const HEAD: &str = "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\nproviders:\n";

fn provider(name: &str) -> String {
    format!(
        "- name: {name}\n  matchImages: [\"registry.io\"]\n  defaultCacheDuration: 10m\n  apiVersion: \
         credentialprovider.kubelet.k8s.io/v1\n"
    )
}

fn read(text: &str) -> Result<ImageProvidersConfig, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.yaml");
    fs::write(&file, text).unwrap();
    ImageProvidersConfig::read(&file)
}

fn problems(text: &str) -> Vec<String> {
    let error = read(text).unwrap_err();
    let shown = error.problems.iter().map(ToString::to_string);
    shown.map(|line| line.rsplit_once("c.yaml").unwrap().1.to_owned()).collect()
}

#[test]
fn reports_all_mistakes_at_once() {
    let text = format!(
        "{HEAD}- name: a/b c\n  matchImages: [\"%invalid%\", \"r.io:*\"]\n  defaultCacheDuration: -1m\n  apiVersion: x\n- \
         name: d\n- name: d\n  foo: 1\n  matchImages: [a.io]\n  defaultCacheDuration: 1m\n  apiVersion: \
         credentialprovider.kubelet.k8s.io/v1beta1\n  tokenAttributes: {{requiredServiceAccountAnnotationKeys: [x-, k, k], \
         optionalServiceAccountAnnotationKeys: [k], requireServiceAccount: false}}\n"
    );
    assert_eq!(
        problems(&text),
        [
            ":10: providers[2] (d): unknown field `foo` in this version",
            ":4: providers[0] (a/b c): `name` must not contain `/`",
            ":4: providers[0] (a/b c): `name` must not contain spaces",
            ":7: providers[0] (a/b c): unknown `apiVersion`: must be credentialprovider.kubelet.k8s.io/v1, …/v1beta1 or …/v1alpha1",
            ":5: providers[0] (a/b c): invalid pattern `%invalid%` in `matchImages`: invalid percent escape",
            ":5: providers[0] (a/b c): invalid pattern `r.io:*` in `matchImages`: invalid port: not a number",
            ":6: providers[0] (a/b c): invalid `defaultCacheDuration`: negative",
            ":8: providers[1] (d): missing `apiVersion`",
            ":8: providers[1] (d): missing `matchImages`: must have at least one pattern",
            ":8: providers[1] (d): missing `defaultCacheDuration`",
            ":8",
            ":14: providers[2] (d): missing `tokenAttributes.serviceAccountTokenAudience`",
            ":14: providers[2] (d): unsupported `tokenAttributes`: `apiVersion` must be credentialprovider.kubelet.k8s.io/v1",
            ":14: providers[2] (d): `requiredServiceAccountAnnotationKeys` must be empty unless `requireServiceAccount` is true",
            ":14: providers[2] (d): invalid annotation key `x-` in `requiredServiceAccountAnnotationKeys`: it must begin \
         and end with a letter or digit and contain only letters, digits, `-`, `_` and `.`",
            ":14: providers[2] (d): duplicate annotation key `k` in `requiredServiceAccountAnnotationKeys`",
            ":14: providers[2] (d): annotations cannot be both required and optional: k",
            ":14: providers[2] (d): missing `tokenAttributes.cacheType`",
        ]
    );
}

#[test]
fn checks_every_kubelet_rule() {
    let good = provider("a");
    for (bad, reason) in [
        (String::new(), "must have at least one"),
        (good.replace("name: a", "name: ."), "must not be `.`"),
        (good.replace("name: a", "name: .."), "must not be `.`"),
        (good.replace("name: a", "args: []"), "missing `name`"),
        (good.replace("\"registry.io\"", ""), "missing `matchImages`"),
        (good.replace("10m", "null"), "missing `defaultCacheDuration`"),
        (good.replace("10m", "0"), "a duration in quotes"),
        (good.replace("10m", "1d"), "unknown unit, expected"),
        (good.replace("10m", "\"\""), "invalid duration"),
        (good.replace("10m", "\"12\""), "missing unit"),
        (good.replace("/v1\n", "/v1alpha0\n"), "unknown `apiVersion`"),
        (good.clone() + &good, "duplicate `name`"),
        (good.clone() + "  tokenAttributes: {cacheType: x, requireServiceAccount: true}\n", "unknown `cacheType`"),
        (
            good.clone() + "  tokenAttributes: {cacheType: Token, serviceAccountTokenAudience: a}\n",
            "requireServiceAccount",
        ),
    ] {
        let error = read(&format!("{HEAD}{bad}")).unwrap_err();
        let all: String = error.problems.iter().map(|problem| format!("{problem}\n")).collect();
        assert!(all.contains(reason), "{bad}\n{all}");
    }
    for ok in [good.replace("10m", "\"0\""), good.replace("10m", "1.5h"), good.replace("\"registry.io\"", "\"r.io/*\"")]
    {
        assert!(read(&format!("{HEAD}{ok}")).is_ok(), "{ok}");
    }
    // A provider's version and that of the file are independent of each other.
    assert!(read(&format!("{HEAD}{good}").replace("config.k8s.io/v1", "config.k8s.io/v1alpha1")).is_ok());
}

#[test]
fn error_does_not_quote_invalid_file() {
    let watch = LeakCheck::new();
    let secret = watch.secret("in a variable");
    let env = format!("  env: [{{name: T, value: \"{}\"}}]\n", secret.expose());
    for text in [
        format!("providers:\n{}{env}", provider("a")),
        format!("{HEAD}{}{env}  x: 1\n", provider("a")),
        format!("{HEAD}{}{env} }}\n", provider("a")),
    ] {
        let error = read(&text).unwrap_err();
        watch.error(&error);
        watch.text(format!("{:?}", error.problems.iter().map(ToString::to_string).collect::<Vec<_>>()));
    }
    watch.text(format!("{:?}", read(&format!("{HEAD}{}{env}", provider("a"))).unwrap()));
}

#[test]
fn reads_directory_in_name_order() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let names = |path: &Path| -> Vec<String> {
        ImageProvidersConfig::read(path).unwrap().providers.into_iter().map(|provider| provider.name).collect()
    };
    assert!(
        ImageProvidersConfig::read(dir.path()).unwrap_err().to_string().contains("without a .json, .yaml or .yml file")
    );
    fs::create_dir(dir.path().join("sub.yaml")).unwrap();
    write("9.yaml", &format!("{HEAD}{}", provider("nine")));
    write("10.yaml", &format!("{HEAD}{}", provider("ten")).replace("io/v1\nproviders", "io/v1beta1\nproviders"));
    write(".hidden.yml", &format!("{HEAD}{}", provider("hidden")));
    write("a.JSON", "garbage");
    write("x.txt", "garbage");
    fs::create_dir(dir.path().join("..data")).unwrap();
    write("..data/linked", &format!("{HEAD}{}", provider("linked")));
    symlink("..data/linked", dir.path().join("z.yaml")).unwrap();
    assert_eq!(names(dir.path()), ["hidden", "ten", "nine", "linked"]);
}

#[test]
fn rejects_pipes_and_dangling_links() {
    for (name, reason) in [
        ("fifo", "is not a regular file"),
        ("loop", "is not a regular file"),
        ("dangling", "cannot be read"),
        ("dir", "is a directory"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        match name {
            "fifo" => credlet_testkit::make_fifo(&path),
            "loop" => symlink("a.yaml", &path).unwrap(),
            "dangling" => symlink("nowhere", &path).unwrap(),
            _ => symlink("/", &path).unwrap(),
        }
        let error = ImageProvidersConfig::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("a.yaml: ") && error.contains(reason), "{error}");
    }
}

#[test]
fn config_hash_covers_lengths_and_bytes() {
    use sha2::Digest as _;

    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (format!("{HEAD}{}", provider("a")), format!("{HEAD}{}", provider("b")));
    fs::write(dir.path().join("a.yaml"), &a).unwrap();
    fs::write(dir.path().join("b.yaml"), &b).unwrap();
    let mut hash = sha2::Sha256::new();
    for text in [&a, &b] {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    let expected = credlet_api::hex(hash.finalize());
    assert_eq!(ImageProvidersConfig::read(dir.path()).unwrap().hash, format!("sha256:{expected}"));
}

#[test]
fn config_hash_matches_kubelet() {
    let all: Value = serde_json::from_str(include_str!("../vectors/config-hash.json")).unwrap();
    for case in all["cases"].as_array().unwrap() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in case["files"].as_object().unwrap() {
            fs::write(dir.path().join(name), text.as_str().unwrap()).unwrap();
        }
        let config = match case["path"].as_str().unwrap() {
            "" => ImageProvidersConfig::read(dir.path()),
            file => ImageProvidersConfig::read(&dir.path().join(file)),
        };
        let config = config.unwrap();
        assert_eq!(config.hash, case["hash"].as_str().unwrap(), "{case}");
        let names: Vec<_> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
        assert_eq!(Value::from(names), case["providers"], "{case}");
    }
}

#[test]
fn loads_ten_thousand_providers() {
    let all: String = (0..10_000).map(|number| provider(&format!("p{number}"))).collect();
    assert_eq!(read(&format!("{HEAD}{all}")).unwrap().providers.len(), 10_000);
}

#[test]
fn error_names_missing_binary() {
    let sandbox = Sandbox::new().provider("p", TestPlugin::new(), "");
    let load = |bin_dir: &Path| {
        ImageCredentials::load(sandbox.config(), bin_dir, ProviderOptions::default(), Platform::system())
            .unwrap_err()
            .to_string()
    };
    assert!(load(Path::new("")).contains("the path is empty"));
    assert!(load(Path::new("/no/such/dir")).contains("/no/such/dir: invalid directory of provider binaries"));
    let empty = tempfile::tempdir().unwrap();
    let error = load(empty.path());
    assert!(error.contains("providers[0] (p)") && error.contains("/p` is not installed"), "{error}");
    fs::write(empty.path().join("p"), "").unwrap();
    assert!(load(empty.path()).contains("/p` is not executable"));
}

#[tokio::test]
async fn reload_keeps_last_valid_config() {
    let mut sandbox = Sandbox::new().provider("p", responding("Registry", None), "");
    let credentials = sandbox.load();
    get(&credentials, "a.io/x").await;
    assert!(!credentials.reload().unwrap());
    let good = sandbox.yaml.clone();
    sandbox.yaml += "- oops\n";
    sandbox.write();
    assert!(credentials.reload().is_err());
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
    sandbox.yaml = good;
    let sandbox =
        sandbox.provider("q", TestPlugin::new().prints(response_json("Image", None, &[("a.io", "new", "p")])), "");
    let hash = credentials.config_hash();
    assert!(credentials.reload().unwrap());
    assert_ne!(credentials.config_hash(), hash);
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["new", "user"]);
    assert_eq!(sandbox.plugin("p").runs(), 1, "an unchanged provider keeps its responses");
}

#[tokio::test]
async fn look_up_reloads_changed_config() {
    let seconds = |seconds| std::time::Duration::from_secs(seconds);
    let mut sandbox = Sandbox::new().provider("p", responding("Registry", None), "");
    let credentials = sandbox.load();
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
    let good = sandbox.yaml.clone();
    sandbox.yaml += "- oops\n";
    sandbox.write();
    sandbox.clock.advance(seconds(9));
    get(&credentials, "a.io/x").await;
    assert!(credentials.config_problem().is_none(), "the check is not due");
    sandbox.clock.advance(seconds(1));
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"], "the last valid configuration");
    assert!(!credentials.config_problem().unwrap().problems.is_empty());
    sandbox.yaml = good;
    let sandbox =
        sandbox.provider("q", TestPlugin::new().prints(response_json("Image", None, &[("a.io", "new", "p")])), "");
    // Its binary is still missing.
    let (binary, hidden) = (sandbox.bin_dir().join("q"), sandbox.bin_dir().join("hidden"));
    fs::rename(&binary, &hidden).unwrap();
    sandbox.clock.advance(seconds(10));
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
    fs::rename(&hidden, &binary).unwrap();
    sandbox.clock.advance(seconds(10));
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["new", "user"]);
    assert!(credentials.config_problem().is_none());
    assert_eq!(sandbox.plugin("p").runs(), 1, "an unchanged provider keeps its responses");

    let mut options = ProviderOptions::default();
    options.reload_every = None;
    let alone = sandbox.load_with(options);
    fs::write(sandbox.config(), "oops").unwrap();
    sandbox.clock.advance(seconds(1000));
    get(&alone, "a.io/x").await;
    assert!(alone.config_problem().is_none(), "no check");
}

#[tokio::test]
async fn new_file_in_directory_is_a_change() {
    let sandbox = Sandbox::new().provider("p", responding("Registry", None), "");
    let dir = sandbox.dir.path().join("config.d");
    fs::create_dir(&dir).unwrap();
    fs::rename(sandbox.config(), dir.join("1.yaml")).unwrap();
    let credentials =
        ImageCredentials::load(&dir, sandbox.bin_dir(), ProviderOptions::default(), sandbox.platform()).unwrap();
    assert_eq!(credentials.providers().len(), 1);
    responding("Image", None).install(&sandbox.bin_dir(), "more");
    fs::write(dir.join("2.yaml"), format!("{HEAD}{}", provider("more"))).unwrap();
    sandbox.clock.advance(std::time::Duration::from_secs(10));
    get(&credentials, "a.io/x").await;
    assert_eq!(credentials.providers().len(), 2);
}

#[tokio::test]
async fn lint_reports_keys_wider_than_patterns() {
    let auths = [("r.io/team/app", "a", "p"), ("r.io", "wide", "p"), ("*.io", "", ""), ("index.docker.io", "hub", "p")];
    let plugin = TestPlugin::new().prints(response_json("Image", None, &auths));
    let sandbox = Sandbox::new().provider_for("p", plugin, &["r.io/team", "docker.io"], "");
    let credentials = sandbox.load();
    let run = credentials.run("p", "r.io/team/app", &credlet_image::LookupRequest::default()).await.unwrap();
    let credlet_image::StepOutcome::Ran(response) = run.outcome else { panic!() };
    let findings = credlet_image::lint_response(&credentials.providers()[0], &response);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].issue, LintIssue::WiderKey { key: "r.io".to_owned() });
    assert!(!findings[0].issue.is_error());
}

#[test]
fn lint_reports_what_kubelet_accepts() {
    let text = format!(
        "{HEAD}- name: a\n  matchImages: [\"r.io/*\", \"https://r.io\", \"\", \"myhost\", \"index.docker.io\", \"[::1]\", \
         \"r.io/Upper\", \"r.io/team\", \"*.x.io\", \"b.x.io\"]\n  defaultCacheDuration: \"0\"\n  apiVersion: \
         credentialprovider.kubelet.k8s.io/v1\n  env: [{{name: AWS_SECRET_ACCESS_KEY, value: x}}, {{name: TOKEN_FILE, \
         value: /run/t}}]\n{}---\nmore: 1\n",
        provider("b").replace("registry.io", "c.x.io")
    );
    let findings = lint(&read(&text).unwrap());
    let never = findings.iter().filter(|finding| matches!(finding.issue, LintIssue::NeverMatches { .. })).count();
    assert_eq!(never, 7);
    let has = |wanted: &str| findings.iter().any(|finding| finding.to_string().contains(wanted));
    for wanted in [
        "`r.io/team` also matches longer path segments",
        "duplicate pattern `b.x.io`: `*.x.io` of the same provider covers it",
        "duplicate pattern `c.x.io`: `*.x.io` of `a` covers it",
        "variable `AWS_SECRET_ACCESS_KEY` looks like a secret",
        "`defaultCacheDuration` is 0",
        "only the first one of a file is read",
        "providers[1] (b)",
    ] {
        assert!(has(wanted), "{wanted}: {findings:#?}");
    }
    assert!(!has("TOKEN_FILE"));
}
