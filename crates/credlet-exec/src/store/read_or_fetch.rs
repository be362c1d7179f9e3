use std::ops::ControlFlow;

/// Returns a stored value, or fetches it once for all processes: looks, takes the lock, looks again, and only then fetches.
///
/// `look` returns `Break` with a stored value that may be used, else `Continue` with what the next step needs. Its second call
/// gets the result of the first, and the lock. The lock is held until `fetch` completes, so `fetch` must store the value.
///
/// # Errors
/// Those of `lock` and `fetch`.
pub async fn read_or_fetch<V, M, L, E, F: Future<Output = Result<V, E>>>(
    look: impl Fn(Option<(M, &L)>) -> ControlFlow<V, M>,
    lock: impl Future<Output = Result<L, E>>,
    fetch: impl FnOnce(M) -> F,
) -> Result<V, E> {
    let missed = match look(None) {
        ControlFlow::Break(value) => return Ok(value),
        ControlFlow::Continue(missed) => missed,
    };
    let lock = lock.await?;
    match look(Some((missed, &lock))) {
        ControlFlow::Break(value) => Ok(value),
        ControlFlow::Continue(missed) => fetch(missed).await,
    }
}
