//! Annotates every ConfigMap of the current namespace with the number of its keys:
//! `cargo run -p credlet-kube --example controller`.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

/// Annotation with the number of keys.
pub(crate) const KEYS: &str = "credlet.example/keys";

/// Runs until the future is dropped.
#[expect(clippy::print_stderr, reason = "an example for the terminal")]
pub(crate) async fn run(client: Client) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let controller = Controller::new(maps.clone(), watcher::Config::default());
    controller
        .run(annotate, |_, _, _| Action::requeue(Duration::from_secs(5)), Arc::new(maps))
        .for_each(|outcome| {
            // The controller retries.
            if let Err(error) = outcome {
                eprintln!("{error}");
            }
            ready(())
        })
        .await;
}

async fn annotate(map: Arc<ConfigMap>, maps: Arc<Api<ConfigMap>>) -> kube::Result<Action> {
    let keys = map.data.as_ref().map_or(0, |data| data.len()).to_string();
    if map.annotations().get(KEYS) != Some(&keys) {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { KEYS: keys } } }));
        maps.patch(&map.name_any(), &PatchParams::default(), &patch).await?;
    }
    Ok(Action::await_change())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(credlet_kube::client(credlet_kube::KubeClientOptions::infer())?).await;
    Ok(())
}
