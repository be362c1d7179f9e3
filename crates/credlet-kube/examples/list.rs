//! Lists the ConfigMaps of the current namespace: `cargo run -p credlet-kube --example list`.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

/// Returns the names of the ConfigMaps.
pub(crate) async fn names(client: Client) -> kube::Result<Vec<String>> {
    let maps = Api::<ConfigMap>::default_namespaced(client).list(&ListParams::default()).await?;
    Ok(maps.iter().map(|map| map.name_any()).collect())
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example for the terminal")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Instead of `kube::Client::try_default().await?`.
    let client = credlet_kube::client(credlet_kube::KubeClientOptions::infer())?;
    for name in names(client).await? {
        println!("{name}");
    }
    Ok(())
}
