//! `--serve`: the stage stays up for whoever wants to try it.

use std::io::Write as _;
use std::path::Path;

use super::issuer::Kind;
use super::server::Record;
use super::stage::Stage;
use crate::printer::Printer;

/// Says how to try it.
pub(super) fn explain(stage: &Stage, printer: &mut Printer) {
    let this_binary = std::env::current_exe().map_or_else(|_| "credlet".into(), |path| quoted(&path));
    let (kubeconfig, authority) = (quoted(&stage.kubeconfig()), quoted(&stage.authority_file()));
    let (url, other) = (stage.server.url(), Stage::context(Kind::Certificate));
    printer.line(format!(
        "An API server at {url}, and a plugin whose tokens live 3 s. Try, in another terminal:

  export KUBECONFIG={kubeconfig}

  {this_binary} get /readyz
  {this_binary} get /api/v1/namespaces --context {other}
  {this_binary} get '/api/v1/namespaces?watch=true'

  kubectl get namespaces
  kubectl get namespaces --watch
  kubectl auth whoami --context {other}

  {this_binary} token -o header | curl --cacert {authority} -H @- {url}/version
  curl --cacert {authority} {url}/version   # 401: nobody gets in without a credential

Ctrl-C ends it and removes its files."
    ));
}

/// A line on standard error for each request.
pub(super) fn log(record: &Record) {
    let who = match &record.who {
        Ok(user) => format!("{} ({})", user.name, short(&user.credential.to_string())),
        Err(refusal) => refusal.to_string(),
    };
    let Record { method, path, code, .. } = record;
    let line = format!("{} {method} {path}  {who}\n", code.as_u16());
    // Without anybody to read it, nothing is lost. A path may hold anything.
    let line = format!("{}\n", credlet_api::visible(line.trim_end()));
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// A digest is long, and its beginning is enough to tell it from others.
fn short(id: &str) -> &str {
    id.char_indices().nth(23).map_or(id, |(end, _)| &id[..end])
}

/// For a shell.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c));
    if is_plain { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
