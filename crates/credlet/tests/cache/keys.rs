//! Another user, another cluster, another answer.

use std::fs::File;
use std::time::Duration;

use credlet_testkit::plugin::Plugin;

use crate::stand::{Home, V1};

fn plugin() -> Plugin {
    Plugin::answering("first").expiring_in(HOUR).on_the_next_run().answers("second").expiring_in(HOUR)
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_touched_identity_file_means_another_user() {
    for name in
        [".aws/config", ".aws/credentials", ".azure/azureProfile.json", ".oci/config", ".config/gcloud/active_config"]
    {
        let (home, plugin) = (Home::new(), plugin());
        let path = home.file(name, "[default]\n");
        assert_eq!(home.token(&[], &plugin), "first");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(file.metadata().unwrap().modified().unwrap() + Duration::from_secs(1)).unwrap();
        assert_eq!(home.token(&[], &plugin), "second", "{name}");
    }
}

#[test]
fn a_watched_file_counts_as_well() {
    let (home, plugin) = (Home::new(), plugin());
    let path = home.path().join("mine");
    let options = ["--watch", path.to_str().unwrap()];
    assert_eq!(home.token(&options, &plugin), "first");
    home.file("mine", "now it is there");
    assert_eq!(home.token(&options, &plugin), "second");
}

#[test]
fn variables_of_the_clouds_and_named_ones_count_and_others_do_not() {
    for (variable, options, expected) in [
        ("AWS_PROFILE", &[][..], "second"),
        ("KUBECONFIG", &[], "second"),
        ("MY_USER", &["--env", "MY_*"], "second"),
        ("MY_USER", &[], "first"),
    ] {
        let (home, plugin) = (Home::new(), plugin());
        assert_eq!(home.token(options, &plugin), "first");
        let mut call = home.cache(options, &plugin);
        call.env(variable, "another");
        assert_eq!(home.run(call).token(), expected, "{variable}");
    }
}

#[test]
fn another_cluster_gets_another_answer() {
    let (home, plugin) = (Home::new(), plugin());
    let asked = |server: &str| {
        let cluster = format!("\"spec\":{{\"cluster\":{{\"server\":\"{server}\"}},");
        let mut call = home.cache(&[], &plugin);
        call.env("KUBERNETES_EXEC_INFO", V1.replace("\"spec\":{", &cluster));
        home.run(call).token()
    };
    assert_eq!(asked("https://a"), "first");
    assert_eq!(asked("https://b"), "second");
    assert_eq!(asked("https://a"), "first");
}
