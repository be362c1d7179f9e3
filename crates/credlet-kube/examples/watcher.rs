//! Prints every change of a ConfigMap of the current namespace, for days if need be, whatever becomes of tokens and
//! certificates meanwhile: `cargo run -p credlet-kube --example watcher`.

use std::pin::pin;

use futures::{Stream, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};

/// All ConfigMaps there are, and then each that changes.
pub(crate) fn changes(client: Client) -> impl Stream<Item = Result<ConfigMap, watcher::Error>> + Send {
    let maps = Api::<ConfigMap>::default_namespaced(client);
    watcher(maps, watcher::Config::default()).default_backoff().applied_objects()
}

#[tokio::main]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example for the terminal")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = credlet_kube::client(credlet_kube::Options::infer())?;
    let mut changes = pin!(changes(client));
    loop {
        match changes.try_next().await {
            Ok(Some(map)) => println!("{}", map.name_any()),
            Ok(None) => return Ok(()),
            // The server is away, or there is no credential for now. The watcher goes on by itself.
            Err(error) => eprintln!("{error}"),
        }
    }
}
