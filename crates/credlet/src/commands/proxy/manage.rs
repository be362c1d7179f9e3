//! Looking after the proxies that are running.

use std::path::PathBuf;

use credlet_core::SystemEnv;
use credlet_proxy::dir::Dir;
use credlet_proxy::server::{Control, ControlError, Report};
use serde::Serialize;

use super::life::asked;
use super::{LsArgs, WhichArgs, plugin};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::{Format, Printer, rows};
use crate::runtime;
use crate::settings::warn;

#[derive(Serialize)]
struct Listed {
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

impl Listed {
    fn of(dir: &Dir, report: Report) -> Self {
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

fn name(dir: &Dir) -> String {
    dir.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Those that answer. One that is gone is about to end, or has ended; one with which something is wrong does not stand in
/// the way of the others.
async fn all() -> Vec<(Dir, Report)> {
    let mut found = Vec::new();
    for dir in Dir::list(&SystemEnv).into_iter().filter(Dir::is_served) {
        let status = async { Control::of(&dir)?.status().await };
        match status.await {
            Ok(report) => found.push((dir, report)),
            Err(ControlError::Gone) => {}
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
        let found: Vec<_> = all().await.into_iter().map(|(dir, report)| Listed::of(&dir, report)).collect();
        let mut printer = Printer::default();
        match args.output.format {
            Format::Text => {
                for proxy in &found {
                    let port = proxy.port.map(|port| format!(", port {port}")).unwrap_or_default();
                    let clients = format!("{} clients, {} open", proxy.clients, proxy.open);
                    printer.foreign(&format!("{}  {}  {clients}{port}", &proxy.name, proxy.server));
                }
            }
            format => printer.object(&found, format),
        }
        printer.done()?;
        Ok(Exit::Ok)
    })
}

/// Those that are meant: one of this name, the only one, or all.
async fn meant(args: &WhichArgs) -> Result<Vec<(Dir, Report)>, CliError> {
    let mut found = all().await;
    if let Some(wanted) = &args.name {
        found.retain(|(dir, _)| name(dir).starts_with(wanted.as_str()));
    }
    match (found.len(), &args.name) {
        (0, Some(wanted)) => Err(CliError::usage(format!("no proxy is called {wanted:?}"))),
        (0, None) if !args.all => Err(CliError::usage("no proxy is running")),
        (2.., _) if !args.all => {
            let names: Vec<_> = found.iter().map(|(dir, _)| name(dir)).collect();
            Err(CliError::usage(format!("which of them? {}", names.join(", "))))
        }
        _ => Ok(found),
    }
}

pub(super) fn status(args: &WhichArgs) -> Outcome {
    runtime::run(async {
        let mut printer = Printer::default();
        for (at, (dir, report)) in meant(args).await?.into_iter().enumerate() {
            if at > 0 {
                printer.line("");
            }
            rows(&mut printer, "", &Listed::of(&dir, report).rows());
        }
        printer.done()?;
        Ok(Exit::Ok)
    })
}

pub(super) fn metrics(args: &WhichArgs) -> Outcome {
    runtime::run(async {
        let mut printer = Printer::default();
        for (dir, _) in meant(args).await? {
            printer.write(Control::of(&dir).map_err(asked)?.metrics().await.map_err(asked)?.as_bytes());
        }
        printer.done()?;
        Ok(Exit::Ok)
    })
}

pub(super) fn unlock(args: &WhichArgs) -> Outcome {
    runtime::run(async {
        for (dir, report) in meant(args).await? {
            match report.wants {
                Some(question) => plugin::unlock(&dir, &question, true).await?,
                None => warn(&format!("{} waits for nothing", name(&dir))),
            }
        }
        Ok(Exit::Ok)
    })
}

pub(super) fn stop(args: &WhichArgs) -> Outcome {
    runtime::run(async {
        let mut printer = Printer::default();
        for (dir, _) in meant(args).await? {
            match Control::of(&dir).map_err(asked)?.stop().await {
                Ok(()) | Err(ControlError::Gone) => printer.foreign(&format!("{}: told to end", name(&dir))),
                Err(error) => return Err(asked(error)),
            }
        }
        printer.done()?;
        Ok(Exit::Ok)
    })
}
