//! KEP-3104's policy with real files: rules 78 to 81.

use std::path::Path;

use credlet_api::exec::{ApiVersion, ExecConfig};
use credlet_core::{Error, ExecOptions, FixedEnv, LookupError, PluginPolicy, PolicyError, World};
use credlet_testkit::plugin::Plugin;

use crate::{fetch, world};

/// A directory with the plugin `plug` in it, which is also the only one in PATH.
struct Place {
    dir: tempfile::TempDir,
    plugin: Plugin,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let plugin = Plugin::answering("token");
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
        let world = World { env: std::sync::Arc::new(env), ..world() };
        let options = ExecOptions { policy, ..ExecOptions::default() };
        let config = ExecConfig::new(command, ApiVersion::V1);
        fetch(&credlet_core::ExecPlugin::new(config, None, options, world).unwrap()).await.map(drop)
    }
}

fn allowlist(entries: &[&str]) -> PluginPolicy {
    PluginPolicy::new("Allowlist", Some(entries.iter().map(|entry| (*entry).to_owned()).collect())).unwrap()
}

#[tokio::test]
async fn allowed_programs_run_and_others_do_not() {
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
            assert!(matches!(result, Err(Error::Refused(PolicyError::NotAllowed { .. }))), "{result:?}");
        }
    }
    assert_eq!(place.plugin.runs(), 5);
    assert!(place.run("plug", PluginPolicy::ALLOW_ALL).await.is_ok());
    let denied = place.run("plug", PluginPolicy::DENY_ALL).await;
    assert!(matches!(denied, Err(Error::Refused(PolicyError::DenyAll { .. }))));
    assert_eq!(place.plugin.runs(), 6);
}

#[tokio::test]
async fn a_missing_program_on_the_list_is_missing_and_another_one_is_refused() {
    let place = Place::new();
    let missing = |result| matches!(result, Err(Error::NotInstalled { reason: LookupError::NotFound { .. }, .. }));
    assert!(missing(place.run("none", allowlist(&["none"])).await));
    assert!(missing(place.run("/no/such", allowlist(&["/no/such"])).await));
    assert!(matches!(
        place.run("none", allowlist(&["plug"])).await,
        Err(Error::Refused(PolicyError::Unresolved { .. }))
    ));
}

#[tokio::test]
async fn a_relative_path_is_allowed_as_written_but_does_not_pass_for_a_name() {
    let place = Place::new();
    std::fs::create_dir(place.dir.path().join("sub")).unwrap();
    place.plugin.install(&place.dir.path().join("sub"), "plug");
    assert!(place.run("./sub/plug", allowlist(&["foobar", "sub/plug"])).await.is_ok());
    // `./plug` in that directory is another file than the `plug` that PATH finds.
    let sub = place.dir.path().join("sub");
    let planted = place.run_in(&sub, "./plug", allowlist(&["plug"])).await;
    assert!(matches!(planted, Err(Error::Refused(PolicyError::NotAllowed { .. }))), "{planted:?}");
}

#[test]
fn a_policy_that_contradicts_itself_is_none() {
    let new = |policy: &str, entries: Option<&[&str]>| {
        PluginPolicy::new(policy, entries.map(|entries| entries.iter().map(|entry| (*entry).to_owned()).collect()))
    };
    for policy in ["", "AllowAll", "DenyAll"] {
        assert!(new(policy, None).is_ok());
        assert!(matches!(new(policy, Some(&[])), Err(PolicyError::NeedlessAllowlist { .. })));
        assert!(matches!(new(policy, Some(&["a"])), Err(PolicyError::NeedlessAllowlist { .. })));
    }
    assert_eq!(new("Allowlist", None), Err(PolicyError::NoAllowlist));
    assert_eq!(new("Allowlist", Some(&[])), Err(PolicyError::EmptyAllowlist));
    assert_eq!(new("Allowlist", Some(&["a", ""])), Err(PolicyError::EmptyEntry { number: 2 }));
    for (entry, cleaned) in [("./plug", "plug"), ("a/../plug", "plug"), ("/a/", "/a"), ("/a//b", "/a/b")] {
        let error = PolicyError::NotNormalised { entry: entry.to_owned(), cleaned: cleaned.to_owned() };
        assert_eq!(new("Allowlist", Some(&[entry])), Err(error));
    }
    for policy in ["HIGHLYILLEGAL", "allowall", "Denyall", " "] {
        assert_eq!(new(policy, None), Err(PolicyError::UnknownPolicy));
    }
}
