//! A kubeconfig converted to a bridge: stays a kubeconfig, and reverts to the same bytes.

#![no_main]

use credlet_api::exec::Cluster;
use credlet_api::kubeconfig::KubeconfigFile;
use credlet_proxy::bridge::{BridgeEndpoint, BridgePlan, BridgeRecord, convert, find, revert};
use credlet_proxy::server::BridgeMode;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(config) = KubeconfigFile::decode(text.as_bytes()) else { return };
    let Some(cluster) = config.clusters.first().map(|entry| entry.name.clone()) else { return };
    let user = config.users.first().map(|entry| entry.name.clone()).unwrap_or_default();
    let _ = find(text, &cluster);
    for mode in [BridgeMode::Server, BridgeMode::ProxyUrl] {
        let upstream = Cluster { server: "https://api.example:6443/x".into(), ..Cluster::default() };
        let endpoint = BridgeEndpoint { port: 37443, mode };
        let args = ["proxy", "headers"].map(str::to_owned).to_vec();
        let plan =
            BridgePlan::new(&cluster, &user, endpoint, "PEM", BridgeRecord::new("b1", upstream, "config.before"), args);
        let Ok(converted) = convert(text, &plan) else { continue };
        let found = find(&converted, &cluster).expect("the result is a kubeconfig").expect("it has a bridge");
        assert_eq!(found, plan.bridge);
        let back = revert(&converted, text, &cluster, &user).expect("the way back");
        assert_eq!(*back, text);
        let names = |config: &KubeconfigFile| {
            let clusters: Vec<_> = config.clusters.iter().map(|entry| entry.name.clone()).collect();
            let users: Vec<_> = config.users.iter().map(|entry| entry.name.clone()).collect();
            (clusters, users, config.contexts.len())
        };
        let new = KubeconfigFile::decode(converted.as_bytes()).expect("a kubeconfig");
        assert_eq!(names(&new), names(&config));
        for (new, old) in new.users.iter().zip(&config.users).filter(|(new, _)| new.name != user) {
            assert_eq!(new.item.token.value, old.item.token.value);
        }
    }
});
