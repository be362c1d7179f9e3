//! Asks our code and the reference's the same generated questions, and compares the answers.
//!
//! **The path:** a [`Comparison`] makes a case from the seed → [`Oracle`](oracle::Oracle) asks the Go program beside us → the comparison asks
//! our own code → a difference that is not deliberate is shrunk → a file under `regressions/`, which is replayed first in
//! every run from then on.
//!
//! With `--self-test` each comparison gets a bug planted into our side, and must see it.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::expect_used,
    clippy::panic,
    reason = "a test program: it starts oracles, looks at the clock, talks, and fails by panicking"
)]

mod address;
mod clientcmd;
mod comparison;
mod decode;
mod document;
mod exec_info;
mod kubelet;
mod oracle;
mod pki;
mod proxy;
mod random;
mod run;
mod shrink;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;

use crate::comparison::Comparison;
use crate::run::Run;

#[derive(Parser)]
struct Args {
    /// The folder of the oracles that e2e/cluster/build makes.
    #[arg(long)]
    oracles: PathBuf,
    /// The oracle of client-go's exec plugins.
    #[arg(long)]
    oracle_exec: PathBuf,
    /// Where failing cases are kept.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/regressions"))]
    regressions: PathBuf,
    /// Cases of each comparison.
    #[arg(long, default_value_t = 10_000)]
    cases: usize,
    /// What the cases are made from: the same seed, the same cases. By default the time.
    #[arg(long)]
    seed: Option<u64>,
    /// Plant a bug into our side of each comparison, which must be seen.
    #[arg(long)]
    self_test: bool,
    /// Which comparisons. By default all.
    only: Vec<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let seed = args.seed.unwrap_or(now);
    let pki = pki::Pki::new();
    let mut all: Vec<Box<dyn Comparison>> = vec![
        Box::new(clientcmd::ClientCmd::new(&pki)),
        Box::new(exec_info::ExecInfo),
        Box::new(decode::Decode::new(&pki)),
        Box::new(proxy::Proxies),
    ];
    all.extend(kubelet::Kubelet::ALL.map(|about| Box::new(about) as Box<dyn Comparison>));
    all.retain(|comparison| args.only.is_empty() || args.only.iter().any(|name| name == comparison.name()));
    println!("seed {seed}");
    let run = |comparison: &dyn Comparison| {
        let run = Run {
            comparison,
            oracles: &args.oracles,
            oracle_exec: &args.oracle_exec,
            regressions: args.regressions.join(comparison.name()),
            cases: args.cases,
            seed,
        };
        if args.self_test { run.sees_a_planted_bug() } else { run.agrees() }
    };
    // Two at a time: the first takes about as long as all others.
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(comparison) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    failed.fetch_add(usize::from(!run(comparison.as_ref())), Ordering::Relaxed);
                }
            });
        }
    });
    let (ran, failed) = (all.len(), failed.into_inner());
    println!("{} comparisons passed, {failed} failed", ran - failed);
    if failed == 0 && ran > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
