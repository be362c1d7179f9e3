use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::comparison::{Comparison, Difference};
use crate::oracle::OracleProcess;
use crate::shrink::shrink;

/// Number of different failures after which a run stops.
const ENOUGH: usize = 8;

/// A run of one comparison.
pub(crate) struct ComparisonRun<'a> {
    pub(crate) comparison: &'a dyn Comparison,
    pub(crate) oracles: &'a Path,
    pub(crate) oracle_exec: &'a Path,
    pub(crate) regressions: PathBuf,
    pub(crate) cases: usize,
    pub(crate) seed: u64,
}

/// Both sides of a comparison.
struct ComparisonSides<'a> {
    comparison: &'a dyn Comparison,
    oracle: OracleProcess,
    dir: tempfile::TempDir,
    planted: bool,
}

enum CaseVerdict {
    Same(String),
    Deliberate(&'static str),
    Different { theirs: Value, ours: Value },
}

impl ComparisonRun<'_> {
    fn sides(&self, planted: bool) -> ComparisonSides<'_> {
        let oracle = OracleProcess::start(&self.comparison.reference(), self.oracles, self.oracle_exec);
        ComparisonSides { comparison: self.comparison, oracle, dir: tempfile::tempdir().expect("a directory"), planted }
    }

    /// Each comparison has its own random numbers, so that running one alone generates the same cases.
    fn rng(&self) -> Rng {
        let name =
            self.comparison.name().bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        Rng::with_seed(self.seed ^ name)
    }

    /// Replays earlier failures, then compares new cases.
    pub(crate) fn agrees(&self) -> bool {
        let begun = Instant::now();
        let name = self.comparison.name();
        let mut sides = self.sides(false);
        let (mut kinds, mut deliberate) = (BTreeMap::<String, usize>::new(), BTreeMap::<&str, usize>::new());
        let (mut failures, mut shown) = (0, BTreeSet::new());

        let old = self.kept();
        for (file, case) in &old {
            if let CaseVerdict::Different { theirs, ours } = sides.compare(case) {
                failures += 1;
                println!("{name}: {} fails again\n  case   {case}\n  theirs {theirs}\n  ours   {ours}", file.display());
            }
        }
        let mut rng = self.rng();
        for _ in 0..self.cases {
            let case = self.comparison.generate(&mut rng);
            match sides.compare(&case) {
                CaseVerdict::Same(kind) => *kinds.entry(kind).or_default() += 1,
                CaseVerdict::Deliberate(reason) => *deliberate.entry(reason).or_default() += 1,
                CaseVerdict::Different { .. } => {
                    failures += 1;
                    let small = sides.shrunk(case);
                    let file = self.keep(&small);
                    if shown.insert(file.clone()) {
                        sides.show(&small);
                        println!("{name}: kept as {}", file.display());
                    }
                    // Shrinking a failure takes some thousand queries.
                    if shown.len() >= ENOUGH || failures >= 4 * ENOUGH {
                        break;
                    }
                }
            }
        }
        println!(
            "{name}: {} cases and {} old ones in {:.1} s, {failures} differ; alike: {kinds:?}; on purpose: {deliberate:?}",
            self.cases,
            old.len(),
            begun.elapsed().as_secs_f64()
        );
        failures == 0
    }

    /// Whether a planted bug is detected and shrunk to a case that still shows it.
    pub(crate) fn sees_a_planted_bug(&self) -> bool {
        let name = self.comparison.name();
        let mut sides = self.sides(true);
        let mut rng = self.rng();
        for number in 1..=self.cases {
            let case = self.comparison.generate(&mut rng);
            if matches!(sides.compare(&case), CaseVerdict::Different { .. }) {
                let small = sides.shrunk(case);
                let seen = matches!(sides.compare(&small), CaseVerdict::Different { .. });
                println!("{name}: the planted bug is seen in case {number}");
                return seen;
            }
        }
        println!("{name}: the planted bug is not seen in {} cases", self.cases);
        false
    }

    fn kept(&self) -> Vec<(PathBuf, Value)> {
        let Ok(entries) = fs::read_dir(&self.regressions) else { return Vec::new() };
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        files.sort();
        let read = |file: PathBuf| {
            let case = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("a case");
            (file, case)
        };
        files.into_iter().map(read).collect()
    }

    /// The name is derived from the case, so that equal cases are stored once.
    fn keep(&self, case: &Value) -> PathBuf {
        let text = serde_json::to_string_pretty(case).expect("JSON") + "\n";
        let hash = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        fs::create_dir_all(&self.regressions).expect("a directory");
        let file = self.regressions.join(format!("{hash:016x}.json"));
        fs::write(&file, text).expect("a file");
        file
    }
}

impl ComparisonSides<'_> {
    fn compare(&mut self, case: &Value) -> CaseVerdict {
        let mut query = self.comparison.query(case, self.dir.path());
        let theirs = self.oracle.ask(&query);
        let mut plain = theirs.clone();
        self.comparison.plain(&mut plain);
        if self.planted {
            self.comparison.plant(&mut query);
        }
        let (ours, why) = self.comparison.ours(&query);
        if plain == ours {
            return CaseVerdict::Same(self.comparison.kind(&theirs));
        }
        match self.comparison.deliberate(&query, &Difference { theirs: &theirs, plain: &plain, ours: &ours, why: &why })
        {
            Some(reason) => CaseVerdict::Deliberate(reason),
            None => CaseVerdict::Different { theirs, ours: if why.is_empty() { ours } else { json!([ours, why]) } },
        }
    }

    fn shrunk(&mut self, case: Value) -> Value {
        shrink(case, &mut |case| matches!(self.compare(case), CaseVerdict::Different { .. }))
    }

    fn show(&mut self, case: &Value) {
        if let CaseVerdict::Different { theirs, ours } = self.compare(case) {
            println!("  case   {case}\n  theirs {theirs}\n  ours   {ours}");
        }
    }
}
