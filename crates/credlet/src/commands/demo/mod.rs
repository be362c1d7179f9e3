//! `credlet demo`: credential refresh, certificate rotation and revocation on a cluster inside this process.
//!
//! The [`issuer`] signs short-lived tokens and certificates. The [`plugin`](mod@plugin), this binary in a separate process, fetches them.
//! The [`traffic`] comes from clients that are built like that of `credlet get`, from the kubeconfig of the [`cluster`]. The [`server`]
//! authenticates every request. The [`scenario`] runs the steps; all parts record events in the [`state`], which [`render`] prints.

mod cluster;
mod issuer;
mod latency;
mod plugin;
mod render;
mod scenario;
mod serve;
mod server;
mod state;
mod traffic;

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credlet_apiserver::ResponseRecord;

use self::cluster::DemoCluster;
use self::issuer::IssuerConfig;
pub(crate) use self::plugin::main as plugin;
use self::render::Renderer;
use self::state::DemoState;
use super::Outcome;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::runtime;

/// Demonstrate token expiry, certificate rotation and revocation without failed requests
///
/// Runs for about ten seconds and needs only this binary: an API server on loopback, a plugin whose tokens live 3 seconds, concurrent
/// callers and a watch. Exits with 0 if all checks passed, else with 1.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Keep server and plugin running until Ctrl-C, for kubectl, curl and credlet
    #[arg(long, conflicts_with = "record")]
    serve: bool,
    /// Record an animated SVG
    #[arg(long, value_name = "FILE.svg")]
    record: Option<PathBuf>,
    /// Number of token refreshes before the next step
    #[arg(long, value_name = "TIMES", default_value_t = 4, hide = true)]
    rounds: usize,
    /// Make all refreshes fail, to test that the demo reports it
    #[arg(long, hide = true)]
    break_renewal: bool,
}

const TERMS: IssuerConfig = IssuerConfig {
    token_lifetime: Duration::from_secs(3),
    certificate_lifetime: Duration::from_secs(5),
    delay: Duration::from_millis(150),
    only_once: false,
};

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(100);

pub(crate) fn run(args: DemoArgs) -> Outcome {
    if args.serve { runtime::run(serve(args)) } else { runtime::run(show(args)) }
}

async fn show(args: DemoArgs) -> Outcome {
    let state = Arc::new(DemoState::new(&scenario::CHECKS));
    let terms = IssuerConfig { only_once: args.break_renewal, ..TERMS };
    let log = Arc::clone(&state);
    let log = Box::new(move |record: &ResponseRecord<'_>| log.record_authn(record));
    let cluster = DemoCluster::build(terms, Arc::clone(&state), FRAME * 3, log).await?;
    let mut renderer = Renderer::new(&state.snapshot(), args.record.is_some());
    {
        let mut play = std::pin::pin!(scenario::run(&cluster, &state, args.rounds));
        let mut frames = tokio::time::interval(FRAME);
        loop {
            tokio::select! {
                played = &mut play => break played?,
                _ = frames.tick() => renderer.update(&state.snapshot()),
            }
        }
    }
    let snapshot = state.snapshot();
    renderer.finish(&snapshot);
    if let Some(file) = &args.record {
        let failed = |error| CliError::usage(format!("failed to write {}: {error}", file.display()));
        renderer.save(file).map_err(failed)?;
    }
    Ok(if snapshot.verdict() == Some(true) { ExitStatus::Success } else { ExitStatus::ServerError })
}

async fn serve(args: DemoArgs) -> Outcome {
    let state = Arc::new(DemoState::new(&[]));
    let terms = IssuerConfig { only_once: args.break_renewal, ..TERMS };
    let cluster = DemoCluster::build(terms, state, Duration::from_secs(5), Box::new(serve::log)).await?;
    let mut printer = Printer::default();
    serve::explain(&cluster, &mut printer);
    pending().await
}
