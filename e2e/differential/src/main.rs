//! Differential tests: runs credlet and the Go reference on the same generated cases and compares the results.
//!
//! A [`Comparison`] generates a case from the seed, an [`OracleProcess`](oracle::OracleProcess) queries the Go program, and the comparison runs
//! credlet's code. A difference that is not deliberate is shrunk and stored under `regressions/`, which every later run replays
//! first.
//!
//! With `--self-test` each comparison must detect a bug planted into credlet's side.
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
use crate::run::ComparisonRun;

#[derive(Parser)]
struct Args {
    /// Directory of the oracles built by e2e/cluster/build
    #[arg(long)]
    oracles: PathBuf,
    /// The oracle of client-go's exec plugins.
    #[arg(long)]
    oracle_exec: PathBuf,
    /// Directory of failing cases
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/regressions"))]
    regressions: PathBuf,
    /// Number of cases per comparison
    #[arg(long, default_value_t = 10_000)]
    cases: usize,
    /// Seed of the generator; the same seed generates the same cases. Default: the time
    #[arg(long)]
    seed: Option<u64>,
    /// Plant a bug into credlet's side of each comparison, which must be detected
    #[arg(long)]
    self_test: bool,
    /// Comparisons to run. Default: all
    only: Vec<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let seed = args.seed.unwrap_or(now);
    let pki = pki::TestPki::new();
    let mut all: Vec<Box<dyn Comparison>> = vec![
        Box::new(clientcmd::ClientCmdComparison::new(&pki)),
        Box::new(exec_info::ExecInfo),
        Box::new(decode::DecodeComparison::new(&pki)),
        Box::new(proxy::ProxyComparison),
    ];
    all.extend(kubelet::KubeletComparison::ALL.map(|about| Box::new(about) as Box<dyn Comparison>));
    all.retain(|comparison| args.only.is_empty() || args.only.iter().any(|name| name == comparison.name()));
    println!("seed {seed}");
    let run = |comparison: &dyn Comparison| {
        let run = ComparisonRun {
            comparison,
            oracles: &args.oracles,
            oracle_exec: &args.oracle_exec,
            regressions: args.regressions.join(comparison.name()),
            cases: args.cases,
            seed,
        };
        if args.self_test { run.sees_a_planted_bug() } else { run.agrees() }
    };
    // Two at a time: the first takes as long as all others together.
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
