use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use credlet_core::World;
use credlet_image::{Config, ConfigError, ImageCredentials, Options, Suspicion, lint};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;
use serde_json::Value;

use crate::{Node, answer, answering, get, names};

const HEAD: &str = "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\nproviders:\n";

fn provider(name: &str) -> String {
    format!(
        "- name: {name}\n  matchImages: [\"registry.io\"]\n  defaultCacheDuration: 10m\n  apiVersion: \
         credentialprovider.kubelet.k8s.io/v1\n"
    )
}

fn read(text: &str) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.yaml");
    fs::write(&file, text).unwrap();
    Config::read(&file)
}

fn mistakes(text: &str) -> Vec<String> {
    let error = read(text).unwrap_err();
    let shown = error.mistakes.iter().map(ToString::to_string);
    shown.map(|line| line.rsplit_once("c.yaml").unwrap().1.to_owned()).collect()
}

#[test]
fn all_mistakes_of_all_providers_come_at_once() {
    let text = format!(
        "{HEAD}- name: a/b c\n  matchImages: [\"%invalid%\", \"r.io:*\"]\n  defaultCacheDuration: -1m\n  apiVersion: x\n- \
         name: d\n- name: d\n  foo: 1\n  matchImages: [a.io]\n  defaultCacheDuration: 1m\n  apiVersion: \
         credentialprovider.kubelet.k8s.io/v1beta1\n  tokenAttributes: {{requiredServiceAccountAnnotationKeys: [x-, k, k], \
         optionalServiceAccountAnnotationKeys: [k], requireServiceAccount: false}}\n"
    );
    assert_eq!(
        mistakes(&text),
        [
            ":10: providers[2] (d): `foo` is no field of this version",
            ":4: providers[0] (a/b c): `name` must not contain `/`",
            ":4: providers[0] (a/b c): `name` must not contain blanks",
            ":7: providers[0] (a/b c): `apiVersion` is not credentialprovider.kubelet.k8s.io/v1, …/v1beta1 or …/v1alpha1",
            ":5: providers[0] (a/b c): the pattern `%invalid%` in `matchImages` is no image: it contains a `%` that begins no \
         valid escape",
            ":5: providers[0] (a/b c): the pattern `r.io:*` in `matchImages` is no image: the port after its host is not a \
         number",
            ":6: providers[0] (a/b c): `defaultCacheDuration` is negative",
            ":8: providers[1] (d): `apiVersion` is missing",
            ":8: providers[1] (d): `matchImages` is missing: at least one pattern is needed",
            ":8: providers[1] (d): `defaultCacheDuration` is missing",
            ":8)",
            ":14: providers[2] (d): `tokenAttributes.serviceAccountTokenAudience` is missing",
            ":14: providers[2] (d): `tokenAttributes` needs `apiVersion: credentialprovider.kubelet.k8s.io/v1`",
            ":14: providers[2] (d): `requiredServiceAccountAnnotationKeys` needs `requireServiceAccount: true`",
            ":14: providers[2] (d): `x-` in `requiredServiceAccountAnnotationKeys` is no annotation's name: it must begin and \
         end with a letter or digit, with `-`, `_`, `.`, letters and digits between",
            ":14: providers[2] (d): `k` stands twice in `requiredServiceAccountAnnotationKeys`",
            ":14: providers[2] (d): annotations cannot be both required and optional: k",
            ":14: providers[2] (d): `tokenAttributes.cacheType` is missing",
        ]
    );
}

#[test]
fn each_rule_of_the_kubelet_is_checked() {
    let good = provider("a");
    for (bad, reason) in [
        (String::new(), "at least one is needed"),
        (good.replace("name: a", "name: ."), "must not be `.`"),
        (good.replace("name: a", "name: .."), "must not be `.`"),
        (good.replace("name: a", "args: []"), "`name` is missing"),
        (good.replace("\"registry.io\"", ""), "`matchImages` is missing"),
        (good.replace("10m", "null"), "`defaultCacheDuration` is missing"),
        (good.replace("10m", "0"), "a duration in quotes"),
        (good.replace("10m", "1d"), "has a unit that is none of"),
        (good.replace("10m", "\"\""), "is not a duration"),
        (good.replace("10m", "\"12\""), "without a unit"),
        (good.replace("/v1\n", "/v1alpha0\n"), "`apiVersion` is not"),
        (good.clone() + &good, "another provider has the same name"),
        (good.clone() + "  tokenAttributes: {cacheType: x, requireServiceAccount: true}\n", "`cacheType` is not"),
        (
            good.clone() + "  tokenAttributes: {cacheType: Token, serviceAccountTokenAudience: a}\n",
            "requireServiceAccount",
        ),
    ] {
        let error = read(&format!("{HEAD}{bad}")).unwrap_err();
        let all: String = error.mistakes.iter().map(|mistake| format!("{mistake}\n")).collect();
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
fn a_bad_file_is_never_repeated_in_an_error() {
    let watch = Watch::new();
    let secret = watch.secret("in a variable");
    let env = format!("  env: [{{name: T, value: \"{}\"}}]\n", secret.expose());
    for text in [
        format!("providers:\n{}{env}", provider("a")),
        format!("{HEAD}{}{env}  x: 1\n", provider("a")),
        format!("{HEAD}{}{env} }}\n", provider("a")),
    ] {
        let error = read(&text).unwrap_err();
        watch.error(&error);
        watch.text(format!("{:?}", error.mistakes.iter().map(ToString::to_string).collect::<Vec<_>>()));
    }
    watch.text(format!("{:?}", read(&format!("{HEAD}{}{env}", provider("a"))).unwrap()));
}

#[test]
fn a_directory_is_read_in_the_order_of_its_names_and_nothing_else_in_it_counts() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let names = |path: &Path| -> Vec<String> {
        Config::read(path).unwrap().providers.into_iter().map(|provider| provider.name).collect()
    };
    assert!(Config::read(dir.path()).unwrap_err().to_string().contains("without a .json, .yaml or .yml file"));
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
fn a_directory_with_a_pipe_a_loop_or_a_dangling_link_says_so_and_does_not_wait() {
    for (name, reason) in [
        ("fifo", "is not a plain file"),
        ("loop", "cannot be read"),
        ("dangling", "cannot be read"),
        ("dir", "is a directory"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        match name {
            "fifo" => rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap(),
            "loop" => symlink("a.yaml", &path).unwrap(),
            "dangling" => symlink("nowhere", &path).unwrap(),
            _ => symlink("/", &path).unwrap(),
        }
        let error = Config::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("a.yaml: ") && error.contains(reason), "{error}");
    }
}

#[test]
fn the_hash_is_over_lengths_and_bytes_of_all_files() {
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
    let expected: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(Config::read(dir.path()).unwrap().hash, format!("sha256:{expected}"));
}

#[test]
fn the_hash_is_the_one_that_the_kubelet_makes_of_the_same_files() {
    let all: Value = serde_json::from_str(include_str!("../vectors/config-hash.json")).unwrap();
    for case in all["cases"].as_array().unwrap() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in case["files"].as_object().unwrap() {
            fs::write(dir.path().join(name), text.as_str().unwrap()).unwrap();
        }
        let config = match case["path"].as_str().unwrap() {
            "" => Config::read(dir.path()),
            file => Config::read(&dir.path().join(file)),
        };
        let config = config.unwrap();
        assert_eq!(config.hash, case["hash"].as_str().unwrap(), "{case}");
        let names: Vec<_> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
        assert_eq!(Value::from(names), case["providers"], "{case}");
    }
}

#[test]
fn ten_thousand_providers_are_no_trouble() {
    let all: String = (0..10_000).map(|number| provider(&format!("p{number}"))).collect();
    assert_eq!(read(&format!("{HEAD}{all}")).unwrap().providers.len(), 10_000);
}

#[test]
fn a_missing_binary_or_directory_is_named() {
    let node = Node::new().provider("p", Plugin::new(), "");
    let load = |bin_dir: &Path| {
        ImageCredentials::load(node.config(), bin_dir, Options::default(), World::system()).unwrap_err().to_string()
    };
    assert!(load(Path::new("")).contains("was not named"));
    assert!(load(Path::new("/no/such/dir")).contains("/no/such/dir: the directory of the provider binaries"));
    let empty = tempfile::tempdir().unwrap();
    let error = load(empty.path());
    assert!(error.contains("providers[0] (p)") && error.contains("/p` is not installed"), "{error}");
    fs::write(empty.path().join("p"), "").unwrap();
    assert!(load(empty.path()).contains("/p` is not executable"));
}

#[tokio::test]
async fn a_changed_configuration_is_taken_over_and_a_bad_one_is_not() {
    let mut node = Node::new().provider("p", answering("Registry", None), "");
    let credentials = node.load();
    get(&credentials, "a.io/x").await;
    assert!(!credentials.reload().unwrap());
    let good = node.yaml.clone();
    node.yaml += "- oops\n";
    node.write();
    assert!(credentials.reload().is_err());
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
    node.yaml = good;
    let node = node.provider("q", Plugin::new().prints(answer("Image", None, &[("a.io", "new", "p")])), "");
    let hash = credentials.config_hash();
    assert!(credentials.reload().unwrap());
    assert_ne!(credentials.config_hash(), hash);
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["new", "user"]);
    assert_eq!(node.plugin("p").runs(), 1, "a provider that has not changed keeps its answers");
}

#[tokio::test]
async fn a_changed_configuration_is_found_by_whoever_asks_for_an_image() {
    let seconds = |seconds| std::time::Duration::from_secs(seconds);
    let mut node = Node::new().provider("p", answering("Registry", None), "");
    let credentials = node.load();
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
    let good = node.yaml.clone();
    node.yaml += "- oops\n";
    node.write();
    node.clock.advance(seconds(9));
    get(&credentials, "a.io/x").await;
    assert!(credentials.config_problem().is_none(), "it is too early to look");
    node.clock.advance(seconds(1));
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"], "the last good one");
    assert!(!credentials.config_problem().unwrap().mistakes.is_empty());
    node.yaml = good;
    let node = node.provider("q", Plugin::new().prints(answer("Image", None, &[("a.io", "new", "p")])), "");
    // Its binary is missing yet.
    let (binary, hidden) = (node.bin_dir().join("q"), node.bin_dir().join("hidden"));
    fs::rename(&binary, &hidden).unwrap();
    node.clock.advance(seconds(10));
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["user"]);
    fs::rename(&hidden, &binary).unwrap();
    node.clock.advance(seconds(10));
    assert_eq!(names(&get(&credentials, "a.io/x").await), ["new", "user"]);
    assert!(credentials.config_problem().is_none());
    assert_eq!(node.plugin("p").runs(), 1, "a provider that has not changed keeps its answers");

    let mut options = Options::default();
    options.reload_every = None;
    let alone = node.load_with(options);
    fs::write(node.config(), "oops").unwrap();
    node.clock.advance(seconds(1000));
    get(&alone, "a.io/x").await;
    assert!(alone.config_problem().is_none(), "nobody looks");
}

#[tokio::test]
async fn a_file_more_in_a_directory_is_a_change() {
    let node = Node::new().provider("p", answering("Registry", None), "");
    let dir = node.dir.path().join("config.d");
    fs::create_dir(&dir).unwrap();
    fs::rename(node.config(), dir.join("1.yaml")).unwrap();
    let credentials = ImageCredentials::load(&dir, node.bin_dir(), Options::default(), node.world()).unwrap();
    assert_eq!(credentials.providers().len(), 1);
    answering("Image", None).install(&node.bin_dir(), "more");
    fs::write(dir.join("2.yaml"), format!("{HEAD}{}", provider("more"))).unwrap();
    node.clock.advance(std::time::Duration::from_secs(10));
    get(&credentials, "a.io/x").await;
    assert_eq!(credentials.providers().len(), 2);
}

#[tokio::test]
async fn an_answer_for_more_than_the_provider_is_asked_about_is_noticed() {
    let auths = [("r.io/team/app", "a", "p"), ("r.io", "wide", "p"), ("*.io", "", ""), ("index.docker.io", "hub", "p")];
    let plugin = Plugin::new().prints(answer("Image", None, &auths));
    let node = Node::new().provider_for("p", plugin, &["r.io/team", "docker.io"], "");
    let credentials = node.load();
    let run = credentials.run("p", "r.io/team/app", &credlet_image::Asking::default()).await.unwrap();
    let credlet_image::Outcome::Ran(answer) = run.outcome else { panic!() };
    let findings = credlet_image::lint_answer(&credentials.providers()[0], &answer);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].suspicion, Suspicion::WiderKey { key: "r.io".to_owned() });
    assert!(!findings[0].suspicion.is_mistake());
}

#[test]
fn lint_finds_what_the_kubelet_takes_without_a_word() {
    let text = format!(
        "{HEAD}- name: a\n  matchImages: [\"r.io/*\", \"https://r.io\", \"\", \"myhost\", \"index.docker.io\", \"[::1]\", \
         \"r.io/Upper\", \"r.io/team\", \"*.x.io\", \"b.x.io\"]\n  defaultCacheDuration: \"0\"\n  apiVersion: \
         credentialprovider.kubelet.k8s.io/v1\n  env: [{{name: AWS_SECRET_ACCESS_KEY, value: x}}, {{name: TOKEN_FILE, \
         value: /run/t}}]\n{}---\nmore: 1\n",
        provider("b").replace("registry.io", "c.x.io")
    );
    let findings = lint(&read(&text).unwrap());
    let never = findings.iter().filter(|finding| matches!(finding.suspicion, Suspicion::NeverMatches { .. })).count();
    assert_eq!(never, 7);
    let has = |wanted: &str| findings.iter().any(|finding| finding.to_string().contains(wanted));
    for wanted in [
        "`r.io/team` also matches paths",
        "`b.x.io` adds nothing: `*.x.io` of the same provider covers it",
        "`c.x.io` is covered by `*.x.io` of `a`",
        "the variable `AWS_SECRET_ACCESS_KEY` looks like a secret",
        "`defaultCacheDuration` is 0",
        "only the first YAML document",
        "providers[1] (b)",
    ] {
        assert!(has(wanted), "{wanted}: {findings:#?}");
    }
    assert!(!has("TOKEN_FILE"));
}
