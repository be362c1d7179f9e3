//! Conversion of `kube::Config`.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use credlet_api::kubeconfig::EXEC_EXTENSION;
use credlet_exec::{Env, EnvInheritance};
use credlet_kubeconfig::{ConfigOverrides, Kubeconfig, ResolvedConfig};
use kube::config::{self, Config, NamedAuthInfo, NamedCluster, NamedContext, NamedExtension};
use zeroize::Zeroizing;

use crate::options::ConfigSource;
use crate::{Error, KubeClientOptions};

/// Uses all fields of `kube::Config` except [`write_timeout`](Config::write_timeout) and
/// [`reset_reader_on_write`](Config::reset_reader_on_write): HTTP/2 pings detect a server that stops reading.
impl From<Config> for KubeClientOptions {
    fn from(mut config: Config) -> Self {
        /// One year, in place of no timeout.
        const NO_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);
        let headers = std::mem::take(&mut config.headers);
        let connect = config.connect_timeout.unwrap_or(NO_TIMEOUT);
        let dropped = config.auth_info.exec.as_mut().and_then(|exec| exec.drop_env.take());
        let (read_timeout, retry) = (config.read_timeout, config.default_retry);

        let mut options = Self::new(ConfigSource::Kube(Box::new(config)));
        let limits = &mut options.client.limits;
        // kube has one timeout for name resolution, connection and TLS handshake.
        (limits.connect, limits.tls, limits.dial) = (connect, connect, connect);
        options.client.exec.inherit = dropped.map_or(EnvInheritance::ALL, EnvInheritance::AllExcept);
        Self { read_timeout, retry, headers, ..options }
    }
}

/// Converts `kube::Config` to a kubeconfig document and resolves that, so that it is validated like any other kubeconfig.
pub(crate) fn resolve(config: &Config, env: &dyn Env) -> Result<ResolvedConfig, Error> {
    let name = "kube".to_owned();
    let context = config::Context {
        cluster: name.clone(),
        user: Some(name.clone()),
        namespace: Some(config.default_namespace.clone()),
        ..Default::default()
    };
    let kubeconfig = config::Kubeconfig {
        current_context: Some(name.clone()),
        contexts: vec![NamedContext { name: name.clone(), context: Some(context), ..Default::default() }],
        clusters: vec![NamedCluster { name: name.clone(), cluster: Some(cluster(config)), ..Default::default() }],
        auth_infos: vec![NamedAuthInfo { name, auth_info: Some(config.auth_info.clone()), ..Default::default() }],
        ..Default::default()
    };
    // Contains tokens and keys.
    let text = Zeroizing::new(serde_json::to_vec(&kubeconfig).map_err(|_| Error::InvalidKubeConfig)?);
    Ok(Kubeconfig::from_bytes(&text, env)?.resolve(&ConfigOverrides::default(), env)?)
}

fn cluster(config: &Config) -> config::Cluster {
    let insecure = config.accept_invalid_certs;
    // A kubeconfig must not have both `insecure-skip-tls-verify` and a certificate authority.
    let file = config.root_cert_file.as_ref().filter(|_| !insecure);
    let data = config.root_cert.as_ref().filter(|_| !insecure && file.is_none());
    let exec_extension = config.auth_info.exec.as_ref().and_then(|exec| exec.cluster.as_ref()?.config.clone());
    config::Cluster {
        server: Some(config.cluster_url.to_string()),
        insecure_skip_tls_verify: insecure.then_some(true),
        certificate_authority: file.map(|file| file.to_string_lossy().into_owned()),
        certificate_authority_data: data.map(|certificates| BASE64.encode(pem(certificates))),
        proxy_url: config.proxy_url.as_ref().map(ToString::to_string),
        disable_compression: config.disable_compression.then_some(true),
        tls_server_name: config.tls_server_name.clone(),
        extensions: exec_extension.map(|extension| vec![NamedExtension { name: EXEC_EXTENSION.to_owned(), extension }]),
        ..Default::default()
    }
}

fn pem(certificates: &[Vec<u8>]) -> String {
    let pem = |der| format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", BASE64.encode(der));
    certificates.iter().map(pem).collect()
}
