//! The bridge: a kubeconfig rewritten so that clients which know nothing of exec proxies come by one all the same.
//!
//! **The path:** [`convert`] puts in the cluster's place a port of this machine, whose certificate is pinned, or puts that
//! port in the client's way as its HTTP proxy; and in the user's place a plugin that starts the proxy there → the client
//! runs the plugin before it dials, is given a certificate for that port and nothing else → [`Bridge::of`] tells the
//! plugin, from the cluster's extension, where the port leads. [`revert`] puts both back to the byte.
//!
//! **Four names to know:** [`Bridge`], its [`Door`], [`convert`], [`revert`].
//!
//! No credential is in the rewritten file; those of before are in the copy of the old file that is kept beside it. What the
//! old file gave the plugin as environment, and a password in the address of an HTTP proxy, are needed on and stay.

mod spans;
mod write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_api::exec::{Cluster, Extension};
use credlet_api::kubeconfig::{Config, DecodeError};
use credlet_client::conn::Server;
use credlet_proxy::server::{Guise, path_of};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use self::spans::{Section, Spans};

/// What the plugin must know, kept in the cluster's extension `client.authentication.k8s.io/exec`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bridge {
    /// Names the file with the certificates.
    pub id: String,
    /// The API server.
    pub upstream: Cluster,
    /// The copy of the kubeconfig of before: a name beside it.
    pub original: String,
}

/// All our words in an extension, which may hold those of others.
#[derive(Serialize, Deserialize)]
struct Wire {
    credlet: Inner,
}

#[derive(Serialize, Deserialize)]
struct Inner {
    bridge: String,
    original: String,
    upstream: Upstream,
}

/// As a kubeconfig writes it.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Upstream {
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

impl Bridge {
    /// To this API server.
    pub fn new(id: impl Into<String>, upstream: Cluster, original: impl Into<String>) -> Self {
        Self { id: id.into(), upstream, original: original.into() }
    }

    /// The bridge that a client came by, and where it came in, from what it says of its cluster. `None`: it came by none.
    ///
    /// # Errors
    /// When the extension looks like one of ours and is none, or the port is not one of this machine.
    pub fn of(cluster: &Cluster) -> Result<Option<(Self, Door)>, BridgeError> {
        let Some(bridge) = cluster.config.as_ref().map(Self::read).transpose()?.flatten() else { return Ok(None) };
        let door = bridge.door(&cluster.server, cluster.proxy_url.expose());
        Ok(Some((bridge, door.ok_or(BridgeError::Port)?)))
    }

    /// Where clients of a cluster with this address and this `proxy-url` come in. `None`: not at this bridge.
    pub fn door(&self, server: &str, proxy_url: &str) -> Option<Door> {
        let upstream = &self.upstream.server;
        match port_of(proxy_url, "http") {
            Some(port) if is_same(server, upstream) => Some(Door { port, guise: Guise::Proxy }),
            _ => {
                let port = port_of(server, "https").filter(|port| server == local(*port, upstream))?;
                Some(Door { port, guise: Guise::Server })
            }
        }
    }

    fn read(extension: &Extension) -> Result<Option<Self>, BridgeError> {
        let value: serde_json::Value = serde_json::from_str(extension.as_json()).unwrap_or_default();
        if value.get("credlet").and_then(|ours| ours.get("bridge")).is_none() {
            return Ok(None);
        }
        let Wire { credlet } = serde_json::from_value(value).map_err(|_| BridgeError::Extension)?;
        // Its name becomes that of a file.
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
            config: credlet.upstream.config.map(|config| Extension::from_value(&config)),
        };
        Ok(Some(Self { id: credlet.bridge, upstream, original: credlet.original }))
    }

    fn extension(&self) -> serde_json::Value {
        let upstream = Upstream {
            server: self.upstream.server.clone(),
            tls_server_name: self.upstream.tls_server_name.clone(),
            insecure_skip_tls_verify: self.upstream.insecure_skip_tls_verify,
            certificate_authority_data: STANDARD.encode(&self.upstream.certificate_authority_data),
            proxy_url: self.upstream.proxy_url.expose().to_owned(),
            disable_compression: self.upstream.disable_compression,
            config: self.upstream.config.as_ref().and_then(|config| serde_json::from_str(config.as_json()).ok()),
        };
        let inner = Inner { bridge: self.id.clone(), original: self.original.clone(), upstream };
        // Plain data: there is nothing in it that cannot be written.
        serde_json::to_value(Wire { credlet: inner }).unwrap_or_default()
    }
}

/// The address at this port of this machine for a client of `server`. Its path is the server's own: the client puts it
/// before every request, and the proxy changes none.
pub fn local(port: u16, server: &str) -> String {
    format!("https://127.0.0.1:{port}{}", path_of(server))
}

/// Whether requests to both go to the same place. Clients leave out of an address what is no use to them.
fn is_same(one: &str, other: &str) -> bool {
    let (Ok(a), Ok(b)) = (Server::parse(one), Server::parse(other)) else { return false };
    let hosts = a.host().eq_ignore_ascii_case(b.host());
    hosts && (a.is_https(), a.port(), path_of(one)) == (b.is_https(), b.port(), path_of(other))
}

/// The port in an address of this machine.
fn port_of(url: &str, scheme: &str) -> Option<u16> {
    let port = url.strip_prefix(scheme)?.strip_prefix("://127.0.0.1:")?;
    let (port, _) = port.split_at(port.find('/').unwrap_or(port.len()));
    port.parse().ok().filter(|port| *port > 0)
}

/// Where clients come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door {
    /// The port of this machine.
    pub port: u16,
    /// What they take it for.
    pub guise: Guise,
}

/// A bridge to be written into a kubeconfig.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The cluster's name.
    pub cluster: String,
    /// The user's name.
    pub user: String,
    /// Where clients are to come in.
    pub door: Door,
    /// The authority to pin, as PEM.
    pub authority: String,
    /// Where it leads.
    pub bridge: Bridge,
    /// How credlet is called.
    pub program: String,
    /// Its arguments, from `proxy` on.
    pub args: Vec<String>,
}

impl Plan {
    /// With `credlet` as the program.
    pub fn new(cluster: &str, user: &str, door: Door, authority: &str, bridge: Bridge, args: Vec<String>) -> Self {
        let (cluster, user, authority) = (cluster.to_owned(), user.to_owned(), authority.to_owned());
        Self { cluster, user, door, authority, bridge, program: "credlet".to_owned(), args }
    }
}

/// The text with the bridge in it. Which of the two sections are in this text is up to the caller: a kubeconfig may be
/// several files.
///
/// # Errors
/// When it cannot be done without touching anything else, or could not be undone.
pub fn convert(text: &str, plan: &Plan) -> Result<Zeroizing<String>, BridgeError> {
    let config = decoded(text)?;
    let mut new = Zeroizing::new(text.to_owned());
    if let Some(cluster) = config.clusters.iter().find(|cluster| cluster.name == plan.cluster) {
        if cluster.item.extensions.iter().any(|extension| is_ours(&extension.item)) {
            return Err(BridgeError::Converted { cluster: plan.cluster.clone() });
        }
        // Clients run no plugin on the way to such a server, and ask no proxy for a tunnel.
        if plan.door.guise == Guise::Proxy && !Server::parse(&plan.bridge.upstream.server).is_ok_and(|it| it.is_https())
        {
            return Err(BridgeError::Plain);
        }
        new = replaced(&new, Section::Clusters, &plan.cluster, &write::cluster(&cluster.item, plan))?;
    }
    if let Some(user) = config.users.iter().find(|user| user.name == plan.user) {
        new = replaced(&new, Section::Users, &plan.user, &write::user(&user.item, plan))?;
    }
    check(text, &config, &new, plan)?;
    Ok(new)
}

/// The text with both sections as they are in `original`.
///
/// # Errors
/// When one of them is missing there, or cannot be put back.
pub fn revert(text: &str, original: &str, cluster: &str, user: &str) -> Result<Zeroizing<String>, BridgeError> {
    let (then, mut now) = (Spans::of(original)?, Zeroizing::new(text.to_owned()));
    for (section, name) in [(Section::Clusters, cluster), (Section::Users, user)] {
        let spans = Spans::of(&now)?;
        if let Some(span) = spans.find(section, name)? {
            let old = then.find(section, name)?.ok_or_else(|| BridgeError::NoOriginal { name: name.to_owned() })?;
            now = match (old.column, span.column) {
                (Some(from), Some(to)) => spliced(&now, span.range, &moved(&original[old.range], from, to)),
                // Lines have no place between braces.
                (Some(_), None) => return Err(BridgeError::Form),
                (None, _) => spliced(&now, span.range, &original[old.range]),
            };
        }
    }
    decoded(&now)?;
    Ok(now)
}

/// The bridge of this cluster in a kubeconfig.
///
/// # Errors
/// When it is none, or the text is no kubeconfig.
pub fn find(text: &str, cluster: &str) -> Result<Option<Bridge>, BridgeError> {
    let config = decoded(text)?;
    let found = config.clusters.iter().find(|entry| entry.name == cluster);
    let extensions = found.iter().flat_map(|cluster| &cluster.item.extensions);
    let read = extensions.filter_map(|extension| extension.item.as_ref()).map(Bridge::read);
    read.collect::<Result<Vec<_>, _>>().map(|all| all.into_iter().flatten().next())
}

fn is_ours(extension: &Option<Extension>) -> bool {
    extension.as_ref().is_some_and(|extension| matches!(Bridge::read(extension), Ok(Some(_)) | Err(_)))
}

fn decoded(text: &str) -> Result<Config, BridgeError> {
    Config::decode(text.as_bytes()).map_err(BridgeError::Unreadable)
}

fn replaced(
    text: &str,
    section: Section,
    name: &str,
    value: &[(&str, serde_json::Value)],
) -> Result<Zeroizing<String>, BridgeError> {
    let spans = Spans::of(text)?;
    // What the decoder knows and we do not find is written in some roundabout way: its name is an alias, say.
    let span = spans.find(section, name)?.ok_or(BridgeError::Form)?;
    let written = match span.column {
        Some(column) => write::block(value, column, if text.contains("\r\n") { "\r\n" } else { "\n" }),
        None => write::flow(value),
    };
    Ok(spliced(text, span.range, &written))
}

fn spliced(text: &str, range: std::ops::Range<usize>, with: &str) -> Zeroizing<String> {
    Zeroizing::new([&text[..range.start], with, &text[range.end..]].concat())
}

/// The lines of a section for another column than the one that they began in: kubectl, whenever it changes anything in a
/// kubeconfig, writes all of it in its own way. The first one begins where the section does.
fn moved(section: &str, from: usize, to: usize) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(section.len()));
    for (at, line) in section.split_inclusive('\n').enumerate() {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        let is_empty = line.trim_end().is_empty();
        if at > 0 && !is_empty {
            text.extend(std::iter::repeat_n(' ', to));
        }
        text.push_str(if at > 0 { &line[blanks.min(from)..] } else { line });
    }
    text
}

/// That the new text means the old one but for these two, and that the way back leads to the same bytes.
fn check(text: &str, old: &Config, new: &str, plan: &Plan) -> Result<(), BridgeError> {
    let now = decoded(new)?;
    let others = |config: &Config| {
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
    let acts_as = |config: &Config| {
        let user = config.users.iter().find(|user| user.name == plan.user).map(|user| &user.item)?;
        let (name, uid) = (user.impersonate.value.clone(), user.impersonate_uid.value.clone());
        Some((name, uid, user.impersonate_groups.value.clone(), user.impersonate_user_extra.value.clone()))
    };
    let back = revert(new, text, &plan.cluster, &plan.user)?;
    let same = same && acts_as(old) == acts_as(&now);
    if same && exec && *back == text { Ok(()) } else { Err(BridgeError::Form) }
}

/// Why a kubeconfig is left as it is, or a plugin does not know where its bridge leads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// It is no kubeconfig.
    #[error("it is no kubeconfig: {0}")]
    Unreadable(DecodeError),
    /// It is written in a way that we do not trust ourselves to edit.
    #[error(
        "the section shares parts with others (anchors, aliases), or is written in a way that cannot be edited safely"
    )]
    Form,
    /// It has a bridge already.
    #[error("the cluster {cluster:?} has a bridge already; `credlet bridge revert` takes it away")]
    Converted {
        /// Which.
        cluster: String,
    },
    /// There is no TLS that the proxy could be a part of.
    #[error("the API server's address is not https, so there would be no use for a proxy-url")]
    Plain,
    /// The copy of before lacks something.
    #[error("the copy of the file of before has no {name:?}")]
    NoOriginal {
        /// Which.
        name: String,
    },
    /// The extension was changed by hand.
    #[error("the cluster's extension says that it is a bridge, but not where it leads")]
    Extension,
    /// The address was changed by hand.
    #[error(
        "the cluster is a bridge, but neither is its address a port of this machine with the path of the API server's, nor \
         its proxy-url such a port and its address the API server's"
    )]
    Port,
}

#[cfg(test)]
mod tests;
