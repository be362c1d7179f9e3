//! `credlet demo`: what credlet is for, on a cluster of its own that needs nothing but this binary.
//!
//! **Who takes part:** the [`issuer`] signs tokens of a few seconds and certificates → the [`plugin`](mod@plugin) (this binary once
//! more, in a process of its own) fetches them → the client, made as `credlet get` makes it from the kubeconfig of the
//! [`stage`], sends the [`traffic`] → the [`server`] checks every request. The [`show`](mod@show) says what happens when; all of
//! them write on the [`board`], and the [`view`] shows that.

mod authority;
mod board;
mod issuer;
mod latency;
mod plugin;
mod serve;
mod server;
mod show;
mod stage;
mod token;
mod traffic;
mod view;

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use self::board::Board;
use self::issuer::Terms;
pub(crate) use self::plugin::main as plugin;
use self::stage::Stage;
use self::view::View;
use super::Outcome;
use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::runtime;

/// See it work: tokens expire, a certificate rotates and a token is revoked, and no request fails
///
/// On a cluster of its own, in about ten seconds and with nothing but this binary: an API server on loopback, a
/// plugin whose tokens live 3 seconds, callers and a watch. The exit code is 0 if all of it held, and 1 if not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep the server and the plugin up, to try them with kubectl, curl and credlet, until Ctrl-C
    #[arg(long, conflicts_with = "record")]
    serve: bool,
    /// Make a moving picture of it
    #[arg(long, value_name = "FILE.svg")]
    record: Option<PathBuf>,
    /// How often a token is renewed before the show goes on
    #[arg(long, value_name = "TIMES", default_value_t = 4, hide = true)]
    rounds: usize,
    /// Let all renewals fail, to see that the demo notices
    #[arg(long, hide = true)]
    break_renewal: bool,
}

const TERMS: Terms = Terms {
    token_life: Duration::from_secs(3),
    certificate_life: Duration::from_secs(5),
    delay: Duration::from_millis(150),
    only_once: false,
};

/// Between two pictures.
const FRAME: Duration = Duration::from_millis(100);

pub(crate) fn run(args: Args) -> Outcome {
    if args.serve { runtime::run(serve(args)) } else { runtime::run(show(args)) }
}

async fn show(args: Args) -> Outcome {
    let board = Arc::new(Board::new(&show::CHECKS));
    let terms = Terms { only_once: args.break_renewal, ..TERMS };
    let log = Arc::clone(&board);
    let log = Box::new(move |record: &server::Record| log.judged(record));
    let stage = Stage::build(terms, Arc::clone(&board), FRAME * 3, log).await?;
    let mut view = View::new(&board.scene(), args.record.is_some());
    {
        let mut play = std::pin::pin!(show::play(&stage, &board, args.rounds));
        let mut frames = tokio::time::interval(FRAME);
        loop {
            tokio::select! {
                played = &mut play => break played?,
                _ = frames.tick() => view.update(&board.scene()),
            }
        }
    }
    let scene = board.scene();
    view.finish(&scene);
    if let Some(file) = &args.record {
        let cannot = |error| CliError::usage(format!("{} cannot be written: {error}", file.display()));
        view.save(file).map_err(cannot)?;
    }
    Ok(if scene.verdict() == Some(true) { Exit::Ok } else { Exit::Refused })
}

async fn serve(args: Args) -> Outcome {
    let board = Arc::new(Board::new(&[]));
    let terms = Terms { only_once: args.break_renewal, ..TERMS };
    let stage = Stage::build(terms, board, Duration::from_secs(5), Box::new(serve::log)).await?;
    let mut printer = Printer::default();
    serve::explain(&stage, &mut printer);
    pending().await
}
