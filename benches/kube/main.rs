//! Cost that an authentication layer adds to a request with a fresh credential: credlet's, kube's, and a static header.
//!
//! All layers wrap the same service, which does nothing. `benches/run-kube` runs three modes:
//!
//! - `time`: CPU time per request, all layers in turns, so that other load on the machine affects all of them;
//! - `allocations`: number and size of allocations per request, equal in every run;
//! - `send ARM COUNT`: COUNT requests and nothing else, for callgrind.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark is a program")]

mod allocations;
mod arms;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};

use self::arms::{KUBE, MeasuredLayer, OURS, REPLAY, STATIC};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["time"] => times(15, 256_000),
        ["time", "--quick"] => times(2, 2_560),
        ["allocations"] => allocations(),
        ["names"] => arms(&one_thread()).iter().for_each(|arm| println!("{}", arm.name)),
        ["send", arm, count] => {
            let runtime = one_thread();
            let arms = arms(&runtime);
            let arm = arms.iter().find(|candidate| candidate.name == arm).unwrap();
            arm.send(&runtime, 1, count.parse().unwrap());
        }
        _ => println!("time [--quick] | allocations | names | send ARM COUNT"),
    }
}

fn arms(runtime: &Runtime) -> Vec<MeasuredLayer> {
    runtime.block_on(arms::all())
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn times(rounds: usize, requests: u32) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let arms = arms(&runtime);
    println!("| CPU time per request | 1 task: best | added | median | 64 tasks: best | added | median |");
    println!("|---|---|---|---|---|---|---|");
    let measured = [1, 64].map(|tasks| in_turns(&runtime, &arms, rounds, tasks, requests / tasks));
    let added = measured.each_ref().map(|times| times.iter().map(|time| time.best - times[0].best).collect::<Vec<_>>());
    for (index, arm) in arms.iter().enumerate() {
        print!("| {} ", arm.name);
        for (times, added) in measured.iter().zip(&added) {
            print!("| {:.0} ns | {:+.0} ns | {:.0} ns ", times[index].best, added[index], times[index].median);
        }
        println!("|");
    }
    println!("\n| added time, as ratios | 1 task | 64 tasks |\n|---|---|---|");
    for (above, below) in [(KUBE, OURS), (KUBE, REPLAY), (OURS, STATIC)] {
        let [one, many] = added.each_ref().map(|added| added[above] / added[below]);
        println!("| {} : {} | {one:.1} | {many:.1} |", arms[above].name, arms[below].name);
    }
}

/// Nanoseconds of CPU time per request.
struct CpuTime {
    best: f64,
    median: f64,
}

fn in_turns(runtime: &Runtime, arms: &[MeasuredLayer], rounds: usize, tasks: u32, each: u32) -> Vec<CpuTime> {
    let mut measured = vec![Vec::with_capacity(rounds); arms.len()];
    for _ in 0..rounds {
        for (arm, times) in arms.iter().zip(&mut measured) {
            let start = cpu_time();
            arm.send(runtime, tasks, each);
            times.push((cpu_time() - start).as_secs_f64() * 1e9 / f64::from(tasks * each));
        }
    }
    let sorted = measured.into_iter().map(|mut times| {
        times.sort_by(f64::total_cmp);
        CpuTime { best: times[0], median: times[rounds / 2] }
    });
    sorted.collect()
}

/// CPU time of all threads of this process.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
}

fn allocations() {
    const REQUESTS: u32 = 1000;
    let runtime = one_thread();
    println!("| per request | allocations | bytes | allocations above a static header |\n|---|---|---|---|");
    let arms = arms(&runtime);
    let counts: Vec<_> = arms
        .iter()
        .map(|arm| {
            // The difference of two runs excludes the set-up.
            let [fewer, more] = [REQUESTS, 2 * REQUESTS].map(|n| allocations::during(|| arm.send(&runtime, 1, n)));
            (more.0 - fewer.0, more.1 - fewer.1)
        })
        .map(|(count, bytes)| (count as f64 / f64::from(REQUESTS), bytes as f64 / f64::from(REQUESTS)))
        .collect();
    for (arm, (count, bytes)) in arms.iter().zip(&counts) {
        println!("| {} | {count:.1} | {bytes:.0} | {:+.1} |", arm.name, count - counts[STATIC].0);
    }
    let above_static = |arm: usize| counts[arm].0 - counts[STATIC].0;
    assert!(above_static(OURS) < 0.1, "the layer allocates");
    assert!(above_static(REPLAY) < 3.1, "keeping a request for a second try allocates too often");
}
