//! Prints every change of a ConfigMap of the current namespace, across refreshes of token and certificate: `cargo run -p credlet-kube --example watcher`.

use std::pin::pin;

use futures::{Stream, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};

/// Returns all ConfigMaps, then each changed one.
pub(crate) fn changes(client: Client) -> impl Stream<Item = Result<ConfigMap, watcher::Error>> + Send {
    let maps = Api::<ConfigMap>::default_namespaced(client);
    watcher(maps, watcher::Config::default()).default_backoff().applied_objects()
}

#[tokio::main]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example for the terminal")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = credlet_kube::client(credlet_kube::KubeClientOptions::infer())?;
    let mut changes = pin!(changes(client));
    loop {
        match changes.try_next().await {
            Ok(Some(map)) => println!("{}", map.name_any()),
            Ok(None) => return Ok(()),
            // The server or the credential is unavailable. The watcher retries with backoff.
            Err(error) => eprintln!("{error}"),
        }
    }
}
