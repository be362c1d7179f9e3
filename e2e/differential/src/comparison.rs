use std::path::Path;

use fastrand::Rng;
use serde_json::Value;

/// The reference program.
pub(crate) enum ReferenceProgram {
    /// One of `e2e/cluster/oracle`.
    OracleProcess(&'static str),
    /// `e2e/oracle-exec` in this mode.
    Exec(&'static str),
}

/// Two results for one query.
pub(crate) struct Difference<'a> {
    /// The oracle's result, with its error text.
    pub(crate) theirs: &'a Value,
    /// The oracle's result, normalised.
    pub(crate) plain: &'a Value,
    pub(crate) ours: &'a Value,
    pub(crate) why: &'a str,
}

/// A query for both sides. A case is plain JSON, so that it can be shrunk and stored generically: every member may be missing.
pub(crate) trait Comparison: Sync {
    /// Name, also of its directory under `regressions/`.
    fn name(&self) -> &'static str;

    fn reference(&self) -> ReferenceProgram;

    fn generate(&self, rng: &mut Rng) -> Value;

    /// Returns the query line for the oracle. Files of the case are written to `dir`, which both sides read.
    fn query(&self, case: &Value, dir: &Path) -> Value;

    /// Returns credlet's result for the query in the oracle's format, and the error text if it is rejected.
    fn ours(&self, query: &Value) -> (Value, String);

    /// Removes unspecified parts of the oracle's result, such as error texts.
    fn plain(&self, theirs: &mut Value);

    /// Returns the reason of `docs/behaviour.md` why the two may differ on this query.
    fn deliberate(&self, _query: &Value, _difference: &Difference<'_>) -> Option<&'static str> {
        None
    }

    /// Changes the query for credlet's side, as a bug would.
    fn plant(&self, query: &mut Value);

    /// Classifies the case, to verify that all kinds occur.
    fn kind(&self, theirs: &Value) -> String;
}
