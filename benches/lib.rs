//! Measures several functions side by side, in turns, so that other load on the machine affects all of them.

#![expect(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]

use std::time::{Duration, Instant};

/// Time of one call.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Minimum of all rounds.
    pub best: Duration,
    /// Median of all rounds.
    pub median: Duration,
}

/// Runs each function `calls` times per round, in turns, for `rounds` rounds.
pub fn in_turns<const N: usize>(rounds: usize, calls: u32, mut contenders: [&mut dyn FnMut(); N]) -> [Times; N] {
    let mut measured: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::with_capacity(rounds));
    for _ in 0..rounds {
        for (contender, times) in contenders.iter_mut().zip(&mut measured) {
            let start = Instant::now();
            for _ in 0..calls {
                contender();
            }
            times.push(start.elapsed() / calls);
        }
    }
    measured.map(|mut times| {
        times.sort();
        Times { best: times[0], median: times[times.len() / 2] }
    })
}

/// Returns whether the benchmark only has to run, without exact figures: `cargo bench -p credlet-benches -- --quick`.
pub fn is_quick() -> bool {
    std::env::args().any(|arg| arg == "--quick")
}
