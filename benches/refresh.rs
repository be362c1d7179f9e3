//! Cost of reading a fresh credential, for one task and for many.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark is a program")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use credlet_benches::is_quick;
use credlet_exec::{Clock as _, FetchReason, FetchedValue, RefreshPolicy, RefreshingCache, Source, SystemClock};

struct Token {
    expires: bool,
}

impl Source for Token {
    type Value = String;
    type Error = ();

    async fn fetch(&self, _: &FetchReason) -> Result<FetchedValue<String>, ()> {
        let expires = self.expires.then(|| SystemClock::new().now() + std::time::Duration::from_secs(3600));
        Ok(FetchedValue { value: "token".to_owned(), expires })
    }

    fn cancelled(&self) {}
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let reads: u32 = if is_quick() { 10_000 } else { 2_000_000 };
    let rounds = if is_quick() { 2 } else { 9 };
    println!("| tasks | token without expiry | token with expiry |\n|---|---|---|");
    for tasks in [1, 2, 8, 64] {
        let mut best = [f64::MAX; 2];
        for _ in 0..rounds {
            for (index, expires) in [false, true].into_iter().enumerate() {
                let flight =
                    RefreshingCache::new(Token { expires }, Arc::new(SystemClock::new()), RefreshPolicy::default());
                runtime.block_on(flight.get()).unwrap();
                let per_task = reads / tasks;
                let start = Instant::now();
                runtime.block_on(async {
                    let handles: Vec<_> = (0..tasks)
                        .map(|_| {
                            let flight = flight.clone();
                            tokio::spawn(async move {
                                for _ in 0..per_task {
                                    black_box(flight.get().await.unwrap());
                                }
                            })
                        })
                        .collect();
                    for handle in handles {
                        handle.await.unwrap();
                    }
                });
                // With two tasks, two cores read concurrently.
                let cores = f64::from(tasks.min(2));
                let nanoseconds = start.elapsed().as_secs_f64() * 1e9 * cores / f64::from(per_task * tasks);
                best[index] = best[index].min(nanoseconds);
            }
        }
        println!("| {tasks} | {:.0} ns | {:.0} ns |", best[0], best[1]);
    }
}
