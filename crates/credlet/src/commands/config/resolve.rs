use credlet_api::{redact, redact_args};
use credlet_exec::{SystemEnv, find_program};
use credlet_kubeconfig::{
    ClientCertificate, HeaderCredential, Impersonation, ResolvedConfig, ResolvedExec, Sourced, ValueOrigin,
};
use serde_json::{Map, Value, json};

use crate::args::GlobalArgs;
use crate::commands::Outcome;
use crate::exit::ExitStatus;
use crate::printer::{OutputArgs, OutputFormat, Printer, RevealArgs};

/// Show the server, user, plugin, CA and namespace in use, with the file and line of each
///
/// Runs no plugin and contacts no server. Masks values that may be secret unless --reveal is given: tokens, keys, passwords, all of
/// `exec.env`, and in `exec.args` the values of flags and variables whose names indicate a secret or whose values look random.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    reveal: RevealArgs,
}

const EXAMPLES: &str = "\
Examples:
  credlet config resolve
  credlet config resolve --context blue -n shop -o json | jq -r .server.value";

pub(crate) fn run(args: ResolveArgs, global: &GlobalArgs) -> Outcome {
    let resolved = global.resolve()?;
    let mut fields = ResolvedFields { list: Vec::new(), reveal: args.reveal };
    fields.add_all(&resolved);
    let mut printer = Printer::default();
    match args.output.format {
        OutputFormat::Text => fields.print(&mut printer),
        format => printer.object(&fields.object(), format),
    }
    printer.finish()?;
    Ok(ExitStatus::Success)
}

/// Fields of the resolved kubeconfig, in display order.
struct ResolvedFields {
    list: Vec<(&'static str, Value, Option<ValueOrigin>)>,
    reveal: RevealArgs,
}

impl ResolvedFields {
    fn add(&mut self, name: &'static str, value: impl Into<Value>, origin: &ValueOrigin) {
        self.list.push((name, value.into(), Some(origin.clone())));
    }

    fn add_sourced(&mut self, name: &'static str, value: Option<&Sourced<String>>) {
        if let Some(Sourced { value, origin }) = value {
            self.add(name, value.clone(), origin);
        }
    }

    fn add_all(&mut self, resolved: &ResolvedConfig) {
        self.add_sourced("context", resolved.context.as_ref());
        for (name, value) in [("cluster", &resolved.cluster), ("user", &resolved.user)] {
            if !value.is_empty() {
                self.list.push((name, value.clone().into(), None));
            }
        }
        self.add_sourced("namespace", Some(&resolved.namespace));
        let server = &resolved.server;
        let shown_server = if self.reveal.reveal { server.value.clone() } else { redact(&server.value, []) };
        self.add("server", shown_server, &server.origin);
        let tls = &resolved.tls;
        self.add_sourced("tls-server-name", tls.server_name.as_ref());
        if tls.insecure_skip_verify.value {
            self.add("insecure-skip-tls-verify", true, &tls.insecure_skip_verify.origin);
        }
        if let Some(Sourced { value, origin }) = &tls.certificate_authority {
            let bytes = format!("[{} bytes of PEM]", value.pem.len());
            self.add("certificate-authority", value.file.as_ref().map_or(bytes, |file| shown(file)), origin);
        }
        if let Some(Sourced { value, origin }) = &resolved.proxy_url {
            let shown = if self.reveal.reveal { value.expose().to_owned() } else { without_user(value.expose()) };
            self.add("proxy-url", shown, origin);
        }
        self.add_identity(resolved);
        if let Some(Impersonation { user, uid, groups, extra, .. }) = &resolved.impersonation {
            self.add_sourced("as", Some(user));
            self.add_sourced("as-uid", uid.as_ref());
            if let Some(Sourced { value, origin }) = groups {
                self.add("as-groups", value.clone(), origin);
            }
            if let Some(Sourced { value, origin }) = extra {
                self.add("as-user-extra", json!(value), origin);
            }
        }
    }

    fn add_identity(&mut self, resolved: &ResolvedConfig) {
        let (identity, reveal) = (&resolved.identity, self.reveal);
        if let Some(Sourced { value, origin }) = &identity.header {
            match value {
                HeaderCredential::Token(token) => self.add("token", reveal.show(token), origin),
                HeaderCredential::TokenFile { file, .. } => self.add("tokenFile", shown(file.path()), origin),
                HeaderCredential::Basic { username, password } => {
                    self.add("username", username.clone(), origin);
                    self.add("password", reveal.show(password), origin);
                }
            }
        }
        if let Some(ClientCertificate { certificate, certificate_file, key, key_file, .. }) = &identity.certificate {
            let inline = || format!("[{} bytes of PEM]", certificate.value.len());
            let file = certificate_file.as_ref().map_or_else(inline, |file| shown(file));
            self.add("client-certificate", file, &certificate.origin);
            let file = key_file.as_ref().map_or_else(|| reveal.show(&key.value), |file| shown(file));
            self.add("client-key", file, &key.origin);
        }
        match (&identity.exec, identity.exec_in_use()) {
            (Some(exec), Some(_)) => self.add("exec", plugin(&exec.value, reveal), &exec.origin),
            (Some(exec), None) => self.add("exec", "not used: the credential above takes precedence", &exec.origin),
            (None, _) => {}
        }
        if let Some(Sourced { value, origin }) = &identity.auth_provider {
            self.add("auth-provider", value.name.clone(), origin);
        }
        if identity.is_anonymous() {
            self.list.push(("anonymous", true.into(), None));
        }
    }

    fn object(&self) -> Value {
        let mut object = Map::new();
        for (name, value, origin) in &self.list {
            let mut field = json!({ "value": value });
            match origin {
                Some(ValueOrigin::File { path, line }) => {
                    field["file"] = shown(path).into();
                    field["line"] = (*line).into();
                }
                Some(other) => field["from"] = other.to_string().into(),
                None => {}
            }
            object.insert((*name).to_owned(), field);
        }
        object.into()
    }

    fn print(&self, printer: &mut Printer) {
        for (name, value, origin) in &self.list {
            let from = origin.as_ref().map(|origin| format!("  ({origin})")).unwrap_or_default();
            match value {
                Value::Object(members) => {
                    printer.untrusted_line(&format!("{name}{from}"));
                    for (name, value) in members {
                        printer.untrusted_line(&format!("  {name:<22}{}", one_line(value)));
                    }
                }
                value => printer.untrusted_line(&format!("{name:<24}{}{from}", one_line(value))),
            }
        }
    }
}

fn one_line(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn plugin(exec: &ResolvedExec, reveal: RevealArgs) -> Value {
    let config = &exec.config;
    let found = find_program(&config.command, &SystemEnv);
    let env: Map<String, Value> =
        config.env.iter().map(|variable| (variable.name.clone(), reveal.show(&variable.value).into())).collect();
    json!({
        "command": config.command,
        "program": found.as_ref().map(|path| shown(path)).unwrap_or_else(ToString::to_string),
        "args": if reveal.reveal { config.args.clone() } else { redact_args(&config.args) },
        "env": env,
        "apiVersion": config.api_version.as_str(),
        "interactiveMode": config.interactive_mode.as_str(),
        "provideClusterInfo": config.provide_cluster_info,
    })
}

/// Returns the URL of a proxy with its user information masked.
fn without_user(url: &str) -> String {
    let start = url.find("://").map_or(0, |colon| colon + 3);
    let (scheme, rest) = url.split_at(start);
    match rest.rsplit_once('@') {
        Some((_, host)) => redact(&format!("{scheme}[redacted]@{host}"), []),
        None => redact(url, []),
    }
}

fn shown(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}
