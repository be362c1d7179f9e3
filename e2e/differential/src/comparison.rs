use std::path::Path;

use fastrand::Rng;
use serde_json::Value;

/// Which program answers for the reference.
pub(crate) enum Reference {
    /// One of `e2e/cluster/oracle`.
    Oracle(&'static str),
    /// `e2e/oracle-exec` in this mode.
    Exec(&'static str),
}

/// Two answers to one query.
pub(crate) struct Difference<'a> {
    /// As the oracle gave it, with the text of its error.
    pub(crate) theirs: &'a Value,
    /// The same, made plain.
    pub(crate) plain: &'a Value,
    pub(crate) ours: &'a Value,
    /// Our error.
    pub(crate) why: &'a str,
}

/// One question that both sides can be asked. A case is plain JSON, so that it can be shrunk and kept without knowing what
/// it means: every member of it may be missing.
pub(crate) trait Comparison: Sync {
    /// Also the name of its folder under `regressions/`.
    fn name(&self) -> &'static str;

    fn reference(&self) -> Reference;

    fn generate(&self, rng: &mut Rng) -> Value;

    /// The line the oracle is asked. Files of the case are written into `dir`, which both sides see.
    fn query(&self, case: &Value, dir: &Path) -> Value;

    /// Our answer to the same query, in the oracle's words, and our own words if we refuse.
    fn ours(&self, query: &Value) -> (Value, String);

    /// Takes out of the oracle's answer what nobody promises, such as the texts of its errors.
    fn plain(&self, theirs: &mut Value);

    /// Why the two may differ on this query: the reason that `docs/behaviour.md` gives.
    fn deliberate(&self, _query: &Value, _difference: &Difference<'_>) -> Option<&'static str> {
        None
    }

    /// Spoils the query on its way to our side, like a bug would.
    fn plant(&self, query: &mut Value);

    /// Which kind of case this turned out to be, to see that all kinds are there.
    fn kind(&self, theirs: &Value) -> String;
}
