//! From kube's configuration to ours.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use credlet_api::kubeconfig::EXEC_EXTENSION;
use credlet_client::kubeconfig::{Kubeconfig, Overrides, Resolved};
use credlet_core::{Env, Inherit};
use kube::config::{self, Config, NamedAuthInfo, NamedCluster, NamedContext, NamedExtension};
use zeroize::Zeroizing;

use crate::options::Source;
use crate::{Error, Options};

/// All that kube's configuration says is kept, except [`write_timeout`](Config::write_timeout) and
/// [`reset_reader_on_write`](Config::reset_reader_on_write): HTTP/2 finds out by pings that a server takes nothing more.
impl From<Config> for Options {
    fn from(mut config: Config) -> Self {
        /// As good as none.
        const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);
        let headers = std::mem::take(&mut config.headers);
        let connect = config.connect_timeout.unwrap_or(NO_LIMIT);
        let dropped = config.auth_info.exec.as_mut().and_then(|exec| exec.drop_env.take());
        let (read_timeout, retry) = (config.read_timeout, config.default_retry);

        let mut options = Self::new(Source::Kube(Box::new(config)));
        let limits = &mut options.client.limits;
        // kube counts name, connection and TLS as one.
        (limits.connect, limits.tls, limits.dial) = (connect, connect, connect);
        options.client.exec.inherit = dropped.map_or(Inherit::ALL, Inherit::AllBut);
        Self { read_timeout, retry, headers, ..options }
    }
}

/// kube's configuration is written down as the kubeconfig it came from and read as ours are. So it is checked like any
/// other, and whatever kube can hold we understand.
pub(crate) fn resolve(config: &Config, env: &dyn Env) -> Result<Resolved, Error> {
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
    // There are tokens and keys in it.
    let text = Zeroizing::new(serde_json::to_vec(&kubeconfig).map_err(|_| Error::Unwritable)?);
    Ok(Kubeconfig::from_bytes(&text, env)?.resolve(&Overrides::default(), env)?)
}

fn cluster(config: &Config) -> config::Cluster {
    let insecure = config.accept_invalid_certs;
    // Whoever believes everybody needs no authorities, and the kubeconfig must not have both.
    let file = config.root_cert_file.as_ref().filter(|_| !insecure);
    let data = config.root_cert.as_ref().filter(|_| !insecure && file.is_none());
    let told = config.auth_info.exec.as_ref().and_then(|exec| exec.cluster.as_ref()?.config.clone());
    config::Cluster {
        server: Some(config.cluster_url.to_string()),
        insecure_skip_tls_verify: insecure.then_some(true),
        certificate_authority: file.map(|file| file.to_string_lossy().into_owned()),
        certificate_authority_data: data.map(|certificates| BASE64.encode(pem(certificates))),
        proxy_url: config.proxy_url.as_ref().map(ToString::to_string),
        disable_compression: config.disable_compression.then_some(true),
        tls_server_name: config.tls_server_name.clone(),
        extensions: told.map(|extension| vec![NamedExtension { name: EXEC_EXTENSION.to_owned(), extension }]),
        ..Default::default()
    }
}

fn pem(certificates: &[Vec<u8>]) -> String {
    let pem = |der| format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", BASE64.encode(der));
    certificates.iter().map(pem).collect()
}
