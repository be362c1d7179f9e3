//! Measuring two things side by side: in turns, so that whatever else the machine does hits both.

#![expect(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]

use std::time::{Duration, Instant};

/// How long one call of each takes, at its best and in the middle of the field.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The least of all rounds: what the work itself costs.
    pub best: Duration,
    /// The median: what one should expect.
    pub median: Duration,
}

/// Runs each contender `calls` times a round, in turns, for `rounds` rounds.
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

/// Whether this is only to see that the benchmark still runs: `cargo bench -p credlet-benches -- --quick`.
pub fn is_quick() -> bool {
    std::env::args().any(|arg| arg == "--quick")
}
