//! Subcommands for running proxies.

use std::path::PathBuf;

use credlet_exec::SystemEnv;
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{ControlClient, ControlError, StatusReport};
use serde::Serialize;

use super::daemon::control_error;
use super::{LsArgs, SelectArgs, plugin};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::{OutputFormat, Printer, print_rows};
use crate::runtime;
use crate::settings::warn;

#[derive(Serialize)]
struct ListedProxy {
    name: String,
    pid: u32,
    server: String,
    since: String,
    port: Option<u16>,
    clients: usize,
    requests: u64,
    open: u64,
    handshakes: u64,
    wants: Option<String>,
    policy: Option<String>,
    shared: Option<String>,
    log: Option<PathBuf>,
}

impl ListedProxy {
    fn of(dir: &ProxyDir, report: StatusReport) -> Self {
        Self {
            name: name(dir),
            pid: report.pid,
            server: report.server,
            since: report.since.to_string(),
            port: report.port,
            clients: report.leases,
            requests: report.requests,
            open: report.open,
            handshakes: report.handshakes,
            wants: report.wants,
            policy: report.policy,
            shared: report.shared,
            log: Some(dir.log()).filter(|log| log.exists()),
        }
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = vec![
            ("name".to_owned(), self.name.clone()),
            ("server".to_owned(), self.server.clone()),
            ("process".to_owned(), self.pid.to_string()),
            ("since".to_owned(), self.since.clone()),
            ("clients".to_owned(), self.clients.to_string()),
            ("requests".to_owned(), format!("{} answered, {} open", self.requests, self.open)),
            ("handshakes".to_owned(), self.handshakes.to_string()),
        ];
        rows.extend(self.port.map(|port| ("port".to_owned(), format!("127.0.0.1:{port}"))));
        rows.extend(self.policy.clone().map(|policy| ("policy".to_owned(), policy)));
        rows.extend(self.shared.clone().map(|shared| ("shared".to_owned(), shared)));
        rows.extend(self.log.as_ref().map(|log| ("log".to_owned(), log.display().to_string())));
        rows.extend(self.wants.clone().map(|wants| ("waits for".to_owned(), wants)));
        rows
    }
}

fn name(dir: &ProxyDir) -> String {
    dir.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the proxies that respond. Exiting proxies are skipped, and errors of one proxy are printed as warnings.
async fn all() -> Vec<(ProxyDir, StatusReport)> {
    let mut found = Vec::new();
    for dir in ProxyDir::list(&SystemEnv).into_iter().filter(ProxyDir::is_served) {
        let status = async { ControlClient::new(&dir)?.status().await };
        match status.await {
            Ok(report) => found.push((dir, report)),
            Err(ControlError::NotRunning) => {}
            Err(error) => {
                let text = [error.to_string()].into_iter().chain(error.hints()).collect::<Vec<_>>().join("; ");
                warn(&format!("{}: {text}", name(&dir)));
            }
        }
    }
    found
}

pub(super) fn ls(args: &LsArgs) -> Outcome {
    runtime::run(async {
        let found: Vec<_> = all().await.into_iter().map(|(dir, report)| ListedProxy::of(&dir, report)).collect();
        let mut printer = Printer::default();
        match args.output.format {
            OutputFormat::Text => {
                for proxy in &found {
                    let port = proxy.port.map(|port| format!(", port {port}")).unwrap_or_default();
                    let clients = format!("{} clients, {} open", proxy.clients, proxy.open);
                    printer.untrusted_line(&format!("{}  {}  {clients}{port}", &proxy.name, proxy.server));
                }
            }
            format => printer.object(&found, format),
        }
        printer.finish()?;
        Ok(ExitStatus::Success)
    })
}

/// Returns the selected proxies: by name prefix, the only one, or all.
async fn select(args: &SelectArgs) -> Result<Vec<(ProxyDir, StatusReport)>, CliError> {
    let mut found = all().await;
    if let Some(spec) = &args.name {
        found.retain(|(dir, _)| name(dir).starts_with(spec.as_str()));
    }
    match (found.len(), &args.name) {
        (0, Some(spec)) => Err(CliError::usage(format!("no running proxy named {spec:?}"))),
        (0, None) if !args.all => Err(CliError::usage("no proxy is running")),
        (2.., _) if !args.all => {
            let names: Vec<_> = found.iter().map(|(dir, _)| name(dir)).collect();
            Err(CliError::usage(format!("several proxies are running; specify one of: {}", names.join(", "))))
        }
        _ => Ok(found),
    }
}

pub(super) fn status(args: &SelectArgs) -> Outcome {
    runtime::run(async {
        let mut printer = Printer::default();
        for (at, (dir, report)) in select(args).await?.into_iter().enumerate() {
            if at > 0 {
                printer.line("");
            }
            print_rows(&mut printer, "", &ListedProxy::of(&dir, report).rows());
        }
        printer.finish()?;
        Ok(ExitStatus::Success)
    })
}

pub(super) fn metrics(args: &SelectArgs) -> Outcome {
    runtime::run(async {
        let mut printer = Printer::default();
        for (dir, _) in select(args).await? {
            printer.write(
                ControlClient::new(&dir).map_err(control_error)?.metrics().await.map_err(control_error)?.as_bytes(),
            );
        }
        printer.finish()?;
        Ok(ExitStatus::Success)
    })
}

pub(super) fn unlock(args: &SelectArgs) -> Outcome {
    runtime::run(async {
        for (dir, report) in select(args).await? {
            match report.wants {
                Some(prompt) => plugin::unlock(&dir, &prompt, true).await?,
                None => warn(&format!("{} is not locked", name(&dir))),
            }
        }
        Ok(ExitStatus::Success)
    })
}

pub(super) fn stop(args: &SelectArgs) -> Outcome {
    runtime::run(async {
        let mut printer = Printer::default();
        for (dir, _) in select(args).await? {
            ControlClient::new(&dir).map_err(control_error)?.stop_and_wait().await.map_err(control_error)?;
            printer.untrusted_line(&format!("{}: stopped", name(&dir)));
        }
        printer.finish()?;
        Ok(ExitStatus::Success)
    })
}
