//! A kubelet image credential provider that returns one user name and password for a registry.
//!
//! ```sh
//! cargo build -p credlet-plugin --example image_provider
//! printf my-password > /tmp/password
//! echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderRequest","image":"r.example/app"}' |
//!     target/debug/examples/image_provider robot /tmp/password
//! ```
//!
//! In the file that the kubelet gets with `--image-credential-provider-config`:
//!
//! ```yaml
//! apiVersion: kubelet.config.k8s.io/v1
//! kind: CredentialProviderConfig
//! providers:
//! - name: image_provider
//!   matchImages: [r.example]
//!   defaultCacheDuration: 10m
//!   apiVersion: credentialprovider.kubelet.k8s.io/v1
//!   args: [robot, /etc/kubernetes/registry-password]
//! ```

use std::process::ExitCode;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::image::{AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse};
use credlet_plugin::Failure;

fn main() -> ExitCode {
    credlet_plugin::main(|request: CredentialProviderRequest| {
        let mut args = std::env::args().skip(1);
        let (Some(username), Some(path)) = (args.next(), args.next()) else {
            return Err(Failure::new("missing arguments: user name and path of the password"));
        };
        let password = std::fs::read_to_string(&path)
            .map_err(|error| Failure::new(format!("failed to read {path}")).because(&error))?;
        let registry = request.image.split('/').next().unwrap_or_default().to_owned();
        let auth = AuthConfig { username, password: Secret::new(password.trim()) };
        Ok(CredentialProviderResponse {
            cache_key_type: CacheKeyType::Registry,
            cache_duration: Some(Duration::from_secs(600)),
            auth: [(registry, auth)].into(),
        })
    })
}
