use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::{ApiVersion, ExecConfig};
use credlet_exec::{Error, ExecOptions, ExecPlugin, FixedEnv, ManualClock, Platform};

use crate::{fetch, platform};

#[tokio::test]
async fn install_hint_is_rate_limited() {
    for command in ["acme-login", "/opt/acme/login"] {
        let clock = ManualClock::new(jiff::Timestamp::UNIX_EPOCH);
        let env = Arc::new(FixedEnv::default());
        let platform = Platform { clock: Arc::new(clock.clone()), env, ..platform() };
        let config = ExecConfig::new(command, ApiVersion::V1).install_hint("brew install \u{1b}[1macme\n\nor not");
        let plugin = ExecPlugin::new(config, None, ExecOptions::default(), platform).unwrap();
        let shown = async || match fetch(&plugin).await {
            Err(Error::NotInstalled { install_hint, .. }) => install_hint,
            other => panic!("{other:?}"),
        };
        for _ in 0..10 {
            assert_eq!(shown().await.as_deref(), Some("brew install U+001B[1macme\n\nor not"));
        }
        assert_eq!(shown().await, None);
        clock.advance(Duration::from_secs(3599));
        assert_eq!(shown().await, None);
        clock.advance(Duration::from_secs(1));
        assert!(shown().await.is_some());
    }
}

#[tokio::test]
async fn no_install_hint_for_an_existing_file() {
    let config = ExecConfig::new("/etc/passwd", ApiVersion::V1).install_hint("install it");
    let plugin = ExecPlugin::new(config, None, ExecOptions::default(), platform()).unwrap();
    let error = fetch(&plugin).await.unwrap_err();
    assert!(matches!(error, Error::NotInstalled { install_hint: None, .. }), "{error:?}");
}
