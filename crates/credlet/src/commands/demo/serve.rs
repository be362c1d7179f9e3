//! `--serve`: keeps the cluster running for other clients.

use std::io::Write as _;
use std::path::Path;

use credlet_apiserver::ResponseRecord;

use super::cluster::DemoCluster;
use super::issuer::CredentialKind;
use crate::printer::Printer;

/// Prints commands to try.
pub(super) fn explain(cluster: &DemoCluster, printer: &mut Printer) {
    let this_binary = std::env::current_exe().map_or_else(|_| "credlet".into(), |path| quoted(&path));
    let (kubeconfig, authority) = (quoted(&cluster.kubeconfig()), quoted(&cluster.ca_file()));
    let (url, other) = (cluster.server.url(), DemoCluster::context(CredentialKind::Certificate));
    printer.line(format!(
        "API server at {url} with a plugin whose tokens live 3 s. In another terminal, run:

  export KUBECONFIG={kubeconfig}

  {this_binary} get /readyz
  {this_binary} get /api/v1/namespaces --context {other}
  {this_binary} get '/api/v1/namespaces?watch=true'

  kubectl get namespaces
  kubectl get namespaces --watch
  kubectl auth whoami --context {other}

  {this_binary} token -o header | curl --cacert {authority} -H @- {url}/version
  curl --cacert {authority} {url}/version   # 401: no credential

Press Ctrl-C to stop it and remove its files."
    ));
}

/// Logs a request on standard error.
pub(super) fn log(record: &ResponseRecord<'_>) {
    let user = match record.user {
        Ok(user) => {
            let credential = user.credential.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{} ({})", user.name, short(&credential))
        }
        Err(refusal) => refusal.to_string(),
    };
    let (method, path) = (&record.request.method, record.request.path_only());
    let line = format!("{} {method} {path}  {user}\n", record.status.as_u16());
    // A closed standard error is ignored. The path is untrusted.
    let line = format!("{}\n", credlet_api::escape_line(line.trim_end()));
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Shortens the digest of a certificate.
fn short(id: &str) -> &str {
    id.char_indices().nth(23).map_or(id, |(end, _)| &id[..end])
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c));
    if is_plain { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
