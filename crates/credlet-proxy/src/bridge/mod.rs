//! Rewrites a kubeconfig so that clients without support for exec proxies use one.
//!
//! [`convert`] replaces the cluster's address by a local port with a pinned CA, or sets that port as the cluster's `proxy-url`. It
//! replaces the user by an exec plugin that starts the proxy on that port. A client runs the plugin before it connects, and receives a
//! client certificate that is valid only for the proxy. The plugin reads the API server from the cluster's extension with
//! [`BridgeRecord::from_cluster`]. [`revert`] restores cluster and user byte for byte.
//!
//! The rewritten file contains no credential; the original credentials are in the backup beside it. The environment of the original
//! plugin and a password in the URL of an HTTP proxy are still needed and stay in the file.

mod render;

use crate::server::{BridgeMode, server_path};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_api::exec::{Cluster, RawExtension};
use credlet_api::kubeconfig::{KubeconfigDecodeError, KubeconfigFile};
use credlet_http::ServerAddr;
use credlet_kubeconfig::edit::{Section, SectionError, replace_section, restore_section};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Data of a converted cluster, stored in its extension `client.authentication.k8s.io/exec`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BridgeRecord {
    /// Id of the bridge, part of the name of its CA file.
    pub id: String,
    /// The API server.
    pub upstream: Cluster,
    /// File name of the backup of the original kubeconfig, in the same directory.
    pub original: String,
}

/// The extension as JSON. Other members are ignored.
#[derive(Serialize, Deserialize)]
struct ExtensionDocument {
    credlet: CredletExtension,
}

#[derive(Serialize, Deserialize)]
struct CredletExtension {
    bridge: String,
    original: String,
    upstream: UpstreamCluster,
}

/// The API server, with the field names of a kubeconfig.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct UpstreamCluster {
    server: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    tls_server_name: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    insecure_skip_tls_verify: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    certificate_authority_data: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    proxy_url: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_compression: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<serde_json::Value>,
}

impl BridgeRecord {
    /// Returns a record for this API server.
    pub fn new(id: impl Into<String>, upstream: Cluster, original: impl Into<String>) -> Self {
        Self { id: id.into(), upstream, original: original.into() }
    }

    /// Reads the record and the endpoint from the cluster that a client passes to its plugin. Returns `None` if the cluster is not
    /// converted.
    ///
    /// # Errors
    /// If the extension is invalid, or neither `server` nor `proxy-url` is the local port of the bridge.
    pub fn from_cluster(cluster: &Cluster) -> Result<Option<(Self, BridgeEndpoint)>, BridgeError> {
        let Some(bridge) = cluster.config.as_ref().map(Self::read).transpose()?.flatten() else { return Ok(None) };
        let endpoint = bridge.endpoint(&cluster.server, cluster.proxy_url.expose());
        Ok(Some((bridge, endpoint.ok_or(BridgeError::Port)?)))
    }

    /// Returns the endpoint that clients of a cluster with this address and `proxy-url` use, or `None` if it is not this bridge.
    pub fn endpoint(&self, server: &str, proxy_url: &str) -> Option<BridgeEndpoint> {
        let upstream = &self.upstream.server;
        match port_of(proxy_url, "http") {
            Some(port) if is_same_server(server, upstream) => Some(BridgeEndpoint { port, mode: BridgeMode::ProxyUrl }),
            _ => {
                let port = port_of(server, "https").filter(|port| server == local(*port, upstream))?;
                Some(BridgeEndpoint { port, mode: BridgeMode::Server })
            }
        }
    }

    fn read(extension: &RawExtension) -> Result<Option<Self>, BridgeError> {
        let value: serde_json::Value = serde_json::from_str(extension.as_json()).unwrap_or_default();
        if value.get("credlet").and_then(|ours| ours.get("bridge")).is_none() {
            return Ok(None);
        }
        let ExtensionDocument { credlet } = serde_json::from_value(value).map_err(|_| BridgeError::Extension)?;
        // The id is a part of a file name.
        let plain =
            |text: &str| !text.is_empty() && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric());
        if !plain(&credlet.bridge) {
            return Err(BridgeError::Extension);
        }
        let upstream = Cluster {
            server: credlet.upstream.server,
            tls_server_name: credlet.upstream.tls_server_name,
            insecure_skip_tls_verify: credlet.upstream.insecure_skip_tls_verify,
            certificate_authority_data: STANDARD
                .decode(credlet.upstream.certificate_authority_data)
                .map_err(|_| BridgeError::Extension)?,
            proxy_url: Secret::new(credlet.upstream.proxy_url),
            disable_compression: credlet.upstream.disable_compression,
            config: credlet.upstream.config.map(|config| RawExtension::from_value(&config)),
        };
        Ok(Some(Self { id: credlet.bridge, upstream, original: credlet.original }))
    }

    fn extension(&self) -> serde_json::Value {
        let upstream = UpstreamCluster {
            server: self.upstream.server.clone(),
            tls_server_name: self.upstream.tls_server_name.clone(),
            insecure_skip_tls_verify: self.upstream.insecure_skip_tls_verify,
            certificate_authority_data: STANDARD.encode(&self.upstream.certificate_authority_data),
            proxy_url: self.upstream.proxy_url.expose().to_owned(),
            disable_compression: self.upstream.disable_compression,
            config: self.upstream.config.as_ref().and_then(|config| serde_json::from_str(config.as_json()).ok()),
        };
        let inner = CredletExtension { bridge: self.id.clone(), original: self.original.clone(), upstream };
        // Serializing plain data cannot fail.
        serde_json::to_value(ExtensionDocument { credlet: inner }).unwrap_or_default()
    }
}

/// Returns the address of this local port for a client of `server`. It has the path of `server`, which clients prepend to every request
/// and the proxy does not change.
pub fn local(port: u16, server: &str) -> String {
    format!("https://127.0.0.1:{port}{}", server_path(server))
}

/// Returns whether both addresses are the same server. Clients may normalise an address, for example drop its query.
fn is_same_server(one: &str, other: &str) -> bool {
    let (Ok(a), Ok(b)) = (ServerAddr::parse(one), ServerAddr::parse(other)) else { return false };
    let hosts = a.host().eq_ignore_ascii_case(b.host());
    hosts && (a.is_https(), a.port(), server_path(one)) == (b.is_https(), b.port(), server_path(other))
}

/// Returns the port of a URL with the host 127.0.0.1.
fn port_of(url: &str, scheme: &str) -> Option<u16> {
    let port = url.strip_prefix(scheme)?.strip_prefix("://127.0.0.1:")?;
    let (port, _) = port.split_at(port.find('/').unwrap_or(port.len()));
    port.parse().ok().filter(|port| *port > 0)
}

/// The local port of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeEndpoint {
    /// TCP port of the bridge on 127.0.0.1.
    pub port: u16,
    /// Whether clients use the port as API server or as HTTP proxy.
    pub mode: BridgeMode,
}

/// Input of [`convert`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BridgePlan {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the user.
    pub user: String,
    /// The local port.
    pub endpoint: BridgeEndpoint,
    /// CA certificate of the proxy as PEM, written as `certificate-authority-data`.
    pub authority: String,
    /// The record to store in the extension.
    pub bridge: BridgeRecord,
    /// Path of credlet, written as `command`.
    pub program: String,
    /// Arguments of credlet, beginning with `proxy`.
    pub args: Vec<String>,
}

impl BridgePlan {
    /// Returns a plan with `credlet` as the program.
    pub fn new(
        cluster: &str,
        user: &str,
        endpoint: BridgeEndpoint,
        authority: &str,
        bridge: BridgeRecord,
        args: Vec<String>,
    ) -> Self {
        let (cluster, user, authority) = (cluster.to_owned(), user.to_owned(), authority.to_owned());
        Self { cluster, user, endpoint, authority, bridge, program: "credlet".to_owned(), args }
    }
}

/// Returns the text with cluster and user converted. A cluster or user that is not in this text is skipped, because a kubeconfig may
/// consist of several files.
///
/// # Errors
/// If the cluster is converted already, or the text cannot be edited without changing other entries, or the result could not be reverted.
pub fn convert(text: &str, plan: &BridgePlan) -> Result<Zeroizing<String>, BridgeError> {
    let config = decoded(text)?;
    let mut new = Zeroizing::new(text.to_owned());
    if let Some(cluster) = config.clusters.iter().find(|cluster| cluster.name == plan.cluster) {
        if cluster.item.extensions.iter().any(|extension| is_credlet_extension(&extension.item)) {
            return Err(BridgeError::Converted { cluster: plan.cluster.clone() });
        }
        // For a server without TLS clients run no plugin and send no CONNECT.
        if plan.endpoint.mode == BridgeMode::ProxyUrl
            && !ServerAddr::parse(&plan.bridge.upstream.server).is_ok_and(|it| it.is_https())
        {
            return Err(BridgeError::Plain);
        }
        let fields = render::cluster(&cluster.item, plan);
        new = replace_section(&new, Section::Clusters, &plan.cluster, &fields).map_err(|_| BridgeError::Form)?;
    }
    if let Some(user) = config.users.iter().find(|user| user.name == plan.user) {
        let fields = render::user(&user.item, plan);
        new = replace_section(&new, Section::Users, &plan.user, &fields).map_err(|_| BridgeError::Form)?;
    }
    verify_reversible(text, &config, &new, plan)?;
    Ok(new)
}

/// Returns the text with cluster and user replaced by those of `original`.
///
/// # Errors
/// If `original` lacks one of them, or the text cannot be edited.
pub fn revert(text: &str, original: &str, cluster: &str, user: &str) -> Result<Zeroizing<String>, BridgeError> {
    let mut now = Zeroizing::new(text.to_owned());
    for (section, name) in [(Section::Clusters, cluster), (Section::Users, user)] {
        now = restore_section(&now, original, section, name).map_err(|error| match error {
            SectionError::Missing => BridgeError::NoOriginal { name: name.to_owned() },
            _ => BridgeError::Form,
        })?;
    }
    decoded(&now)?;
    Ok(now)
}

/// Returns the record of a cluster in a kubeconfig, or `None` if the cluster is not converted.
///
/// # Errors
/// If the extension or the kubeconfig is invalid.
pub fn find(text: &str, cluster: &str) -> Result<Option<BridgeRecord>, BridgeError> {
    let config = decoded(text)?;
    let found = config.clusters.iter().find(|entry| entry.name == cluster);
    let extensions = found.iter().flat_map(|cluster| &cluster.item.extensions);
    let read = extensions.filter_map(|extension| extension.item.as_ref()).map(BridgeRecord::read);
    read.collect::<Result<Vec<_>, _>>().map(|all| all.into_iter().flatten().next())
}

fn is_credlet_extension(extension: &Option<RawExtension>) -> bool {
    extension.as_ref().is_some_and(|extension| matches!(BridgeRecord::read(extension), Ok(Some(_)) | Err(_)))
}

fn decoded(text: &str) -> Result<KubeconfigFile, BridgeError> {
    KubeconfigFile::decode(text.as_bytes()).map_err(BridgeError::Unreadable)
}

/// Checks that the new text differs only in the two entries, and that [`revert`] restores the old text byte for byte.
fn verify_reversible(text: &str, old: &KubeconfigFile, new: &str, plan: &BridgePlan) -> Result<(), BridgeError> {
    let now = decoded(new)?;
    let others = |config: &KubeconfigFile| {
        let clusters: Vec<_> =
            config.clusters.iter().map(|entry| (entry.name.clone(), entry.item.server.value.clone())).collect();
        let clusters: Vec<_> = clusters.into_iter().filter(|(name, _)| *name != plan.cluster).collect();
        let users: Vec<_> = config.users.iter().map(|entry| entry.name.clone()).collect();
        let contexts: Vec<_> = config
            .contexts
            .iter()
            .map(|entry| (entry.name.clone(), entry.item.cluster.value.clone(), entry.item.user.value.clone()))
            .collect();
        (clusters, users, contexts, config.current_context.value.clone())
    };
    let same = others(old) == others(&now);
    let exec = now.users.iter().find(|user| user.name == plan.user).map(|user| &user.item);
    let exec = exec.is_none_or(|user| user.exec.as_ref().is_some_and(|exec| exec.value.command.value == plan.program));
    let acts_as = |config: &KubeconfigFile| {
        let user = config.users.iter().find(|user| user.name == plan.user).map(|user| &user.item)?;
        let (name, uid) = (user.impersonate.value.clone(), user.impersonate_uid.value.clone());
        Some((name, uid, user.impersonate_groups.value.clone(), user.impersonate_user_extra.value.clone()))
    };
    let back = revert(new, text, &plan.cluster, &plan.user)?;
    let same = same && acts_as(old) == acts_as(&now);
    if same && exec && *back == text { Ok(()) } else { Err(BridgeError::Form) }
}

/// Failure to convert, revert or read a converted kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// The text is not a kubeconfig.
    #[error("invalid kubeconfig: {0}")]
    Unreadable(KubeconfigDecodeError),
    /// The YAML of the entry cannot be edited.
    #[error(
        "cannot edit the entry safely: it shares parts with other entries (YAML anchors, aliases) or has an unsupported form"
    )]
    Form,
    /// The cluster is converted already.
    #[error("the cluster {cluster:?} is converted already; run `credlet bridge revert` first")]
    Converted {
        /// Name of the cluster.
        cluster: String,
    },
    /// The mode `proxy-url` needs TLS to the API server.
    #[error("unsupported API server address: must be https for the mode proxy-url")]
    Plain,
    /// The backup lacks the cluster or the user.
    #[error("missing entry {name:?} in the backup of the kubeconfig")]
    NoOriginal {
        /// Name of the cluster or user.
        name: String,
    },
    /// The extension was edited.
    #[error("invalid extension of the cluster: no valid bridge record")]
    Extension,
    /// `server` or `proxy-url` was edited.
    #[error(
        "invalid cluster of a bridge: `server` must be https://127.0.0.1:PORT with the path of the API server, or `proxy-url` must be \
         http://127.0.0.1:PORT and `server` the API server"
    )]
    Port,
}

#[cfg(test)]
mod tests;
