//! The plugin policy (KEP-3104) with real files.

use std::path::Path;

use credlet_api::exec::{ApiVersion, ExecConfig};
use credlet_exec::{Error, ExecOptions, FixedEnv, LookupError, Platform, PluginPolicy, PolicyError};
use credlet_testkit::plugin::TestPlugin;

use crate::{fetch, platform};

/// A directory with the plugin `plug`, which is the only entry of PATH.
struct Place {
    dir: tempfile::TempDir,
    plugin: TestPlugin,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let plugin = TestPlugin::answering("token");
        plugin.install(dir.path(), "plug");
        Self { dir, plugin }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    async fn run(&self, command: &str, policy: PluginPolicy) -> Result<(), Error> {
        self.run_in(self.dir.path(), command, policy).await
    }

    async fn run_in(&self, cwd: &Path, command: &str, policy: PluginPolicy) -> Result<(), Error> {
        let env = FixedEnv::new([("PATH", self.dir.path())]).in_dir(cwd);
        let platform = Platform { env: std::sync::Arc::new(env), ..platform() };
        let options = ExecOptions { policy, ..ExecOptions::default() };
        let config = ExecConfig::new(command, ApiVersion::V1);
        fetch(&credlet_exec::ExecPlugin::new(config, None, options, platform).unwrap()).await.map(drop)
    }
}

fn allowlist(entries: &[&str]) -> PluginPolicy {
    PluginPolicy::new("Allowlist", Some(entries.iter().map(|entry| (*entry).to_owned()).collect())).unwrap()
}

#[tokio::test]
async fn runs_only_allowed_programs() {
    let place = Place::new();
    let (path, elsewhere) = (place.path("plug"), "/elsewhere/plug");
    for (command, entries, allowed) in [
        ("plug", vec!["plug"], true),
        ("plug", vec!["other", "plug"], true),
        ("plug", vec![&*path], true),
        (&*path, vec![&*path], true),
        (&*path, vec!["plug"], true),
        ("plug", vec!["other"], false),
        ("plug", vec![elsewhere], false),
        (&*path, vec!["other", elsewhere], false),
    ] {
        let result = place.run(command, allowlist(&entries)).await;
        assert_eq!(result.is_ok(), allowed, "{command} {entries:?} {result:?}");
        if !allowed {
            assert!(matches!(result, Err(Error::Denied(PolicyError::NotAllowed { .. }))), "{result:?}");
        }
    }
    assert_eq!(place.plugin.runs(), 5);
    assert!(place.run("plug", PluginPolicy::ALLOW_ALL).await.is_ok());
    let denied = place.run("plug", PluginPolicy::DENY_ALL).await;
    assert!(matches!(denied, Err(Error::Denied(PolicyError::DenyAll { .. }))));
    assert_eq!(place.plugin.runs(), 6);
}

#[tokio::test]
async fn missing_program_on_the_allowlist_is_reported_missing() {
    let place = Place::new();
    let missing = |result| matches!(result, Err(Error::NotInstalled { reason: LookupError::NotFound { .. }, .. }));
    assert!(missing(place.run("none", allowlist(&["none"])).await));
    assert!(missing(place.run("/no/such", allowlist(&["/no/such"])).await));
    assert!(matches!(
        place.run("none", allowlist(&["plug"])).await,
        Err(Error::Denied(PolicyError::Unresolved { .. }))
    ));
}

#[tokio::test]
async fn relative_path_does_not_match_a_name() {
    let place = Place::new();
    std::fs::create_dir(place.dir.path().join("sub")).unwrap();
    place.plugin.install(&place.dir.path().join("sub"), "plug");
    assert!(place.run("./sub/plug", allowlist(&["foobar", "sub/plug"])).await.is_ok());
    // `./plug` in that directory is another file than `plug` in PATH.
    let sub = place.dir.path().join("sub");
    let planted = place.run_in(&sub, "./plug", allowlist(&["plug"])).await;
    assert!(matches!(planted, Err(Error::Denied(PolicyError::NotAllowed { .. }))), "{planted:?}");
}

#[tokio::test]
async fn path_through_a_link_does_not_match_its_cleaned_form() {
    let place = Place::new();
    let dir = place.dir.path().canonicalize().unwrap();
    for sub in ["x/sub/dir", "x/good", "evil/a/b", "evil/good"] {
        std::fs::create_dir_all(dir.join(sub)).unwrap();
    }
    place.plugin.install(&dir.join("x/good"), "plug");
    place.plugin.install(&dir.join("evil/good"), "plug");
    std::os::unix::fs::symlink(dir.join("evil/a/b"), dir.join("x/sub/link")).unwrap();
    let listed = dir.join("x/good/plug").to_str().unwrap().to_owned();
    let path = |name: &str| format!("{}/x/sub/{name}/../../good/plug", dir.display());
    assert!(place.run(&path("dir"), allowlist(&[&listed])).await.is_ok());
    // Its cleaned form is the listed path, and it refers to a file behind the link.
    let planted = path("link");
    let planted_dir = Path::new(&planted).parent().unwrap();
    assert_eq!(planted_dir.canonicalize().unwrap(), dir.join("evil/good"));
    for entries in [vec![&*listed], vec!["plug", &listed]] {
        let result = place.run(&planted, allowlist(&entries)).await;
        assert!(matches!(result, Err(Error::Denied(PolicyError::NotAllowed { .. }))), "{result:?}");
    }
    // The same through an entry of PATH.
    let env = FixedEnv::new([("PATH", format!("{}/x/sub/link/../../good", dir.display()))]);
    let found = credlet_exec::find_program("plug", &env);
    assert_eq!(found, Ok(planted.into()));
    assert!(allowlist(&[&listed]).check("plug", &found, &env).is_err());
}

#[test]
fn contradictory_policy_is_an_error() {
    let new = |policy: &str, entries: Option<&[&str]>| {
        PluginPolicy::new(policy, entries.map(|entries| entries.iter().map(|entry| (*entry).to_owned()).collect()))
    };
    for policy in ["", "AllowAll", "DenyAll"] {
        assert!(new(policy, None).is_ok());
        assert!(matches!(new(policy, Some(&[])), Err(PolicyError::UnexpectedAllowlist { .. })));
        assert!(matches!(new(policy, Some(&["a"])), Err(PolicyError::UnexpectedAllowlist { .. })));
    }
    assert_eq!(new("Allowlist", None), Err(PolicyError::MissingAllowlist));
    assert_eq!(new("Allowlist", Some(&[])), Err(PolicyError::EmptyAllowlist));
    assert_eq!(new("Allowlist", Some(&["a", ""])), Err(PolicyError::EmptyEntry { number: 2 }));
    for (entry, cleaned) in [("./plug", "plug"), ("a/../plug", "plug"), ("/a/", "/a"), ("/a//b", "/a/b")] {
        let error = PolicyError::NotNormalized { entry: entry.to_owned(), cleaned: cleaned.to_owned() };
        assert_eq!(new("Allowlist", Some(&[entry])), Err(error));
    }
    for policy in ["HIGHLYILLEGAL", "allowall", "Denyall", " "] {
        assert_eq!(new(policy, None), Err(PolicyError::UnknownPolicy));
    }
}
