//! The suite of [`session_store`]: all checks in order.

use crate::error::Result;
use crate::session::SessionStore;

use super::super::checks::Failures;
use super::{contents, copies, handles, leases, lists};

/// Checks that a [`SessionStore`] fulfills its contract:
///
/// * Written data can be read back, even by a store that is reopened.
/// * A write happens as a whole or not at all, even if its future is dropped.
/// * Only one run at a time has the lease of a session. A run whose lease was replaced can no
///   longer write.
/// * Copies, lists and removals affect no other session.
/// * Different ids are different sessions, and messages may be large.
///
/// `make` returns an empty store for each check. `reopen` is given a store that is no longer used
/// and returns another over the same sessions; for a store that is lost with the process, it
/// returns the store unchanged.
///
/// # Errors
///
/// Returns [`ErrorKind::Other`](crate::ErrorKind::Other) with one line for each failed check.
///
/// ```
/// use agentcore::ThreadStore;
/// use agentcore::testing::conformance;
///
/// # let run = async {
/// conformance::session_store(|| async { ThreadStore::new() }, |store| async { store }).await
/// # };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
pub async fn session_store<S, M, R>(make: impl Fn() -> M, reopen: impl Fn(S) -> R) -> Result<()>
where
    S: SessionStore,
    M: Future<Output = S>,
    R: Future<Output = S>,
{
    let mut failures = Failures::default();
    failures.check("appending", contents::appending(&make().await).await);
    failures.check("saving", contents::saving(&make().await).await);
    failures.check(
        "calls that had started",
        contents::started(&make().await).await,
    );
    failures.check("ids of others", contents::foreign(&make().await).await);
    failures.check(
        "blocks of a provider",
        contents::blocks(&make().await).await,
    );
    failures.check("calls that had ended", contents::ended(&make().await).await);
    failures.check("data about a run", contents::about(&make().await).await);
    failures.check(
        "data other than the history",
        contents::other_data(&make().await).await,
    );
    failures.check("large messages", contents::large(&make().await).await);
    failures.check("ids", contents::odd_ids(&make().await).await);
    failures.check("leases", leases::exclusive(&make().await).await);
    failures.check(
        "writers that were replaced",
        leases::fenced(&make().await).await,
    );
    failures.check(
        "concurrent writes",
        leases::side_by_side(&make().await).await,
    );
    failures.check(
        "futures that are dropped",
        leases::dropped(&make().await).await,
    );
    failures.check(
        "saves, copies and removals that are dropped",
        leases::dropped_saves_forks_and_deletes(&make().await).await,
    );
    failures.check("creating", copies::creating(&make().await).await);
    failures.check("forking", copies::forking(&make().await).await);
    failures.check(
        "forking at a message",
        copies::forking_at(&make().await).await,
    );
    failures.check("export and import", copies::exported(&make().await).await);
    failures.check("listing", lists::listing(&make().await).await);
    failures.check("deleting", lists::deleting(&make().await).await);
    failures.check("pruning", lists::pruning(&make().await).await);
    failures.check(
        "the latest of a directory",
        lists::latest(&make().await).await,
    );
    failures.check("reopening", reopened(make().await, &reopen).await);
    failures.finish()
}

async fn reopened<S, R>(store: S, reopen: &impl Fn(S) -> R) -> Result<()>
where
    S: SessionStore,
    R: Future<Output = S>,
{
    let expected = lists::Kept::write(&store).await?;
    let store = reopen(store).await;
    expected.check(&store).await?;

    // A session that was read must be writable like a new one.
    expected.go_on(&store).await?;
    let store = reopen(store).await;
    expected.check_gone_on(&store).await?;

    // Each operation is checked as the last one before reopening.
    let mut store = store;
    for last in lists::Last::ALL {
        last.write(&store).await?;
        store = reopen(store).await;
        last.check(&store).await?;
    }

    Ok(())
}

/// Checks that two stores over the same sessions, as two processes have them, exclude each other.
///
/// `make` returns, for each check, two stores over the same place, which has no sessions yet.
/// [`session_store`] checks a single store.
///
/// # Errors
///
/// Returns [`ErrorKind::Other`](crate::ErrorKind::Other) with one line for each failed check.
///
/// ```
/// use agentcore::ThreadStore;
/// use agentcore::testing::conformance;
///
/// # let run = async {
/// let make = || async {
///     let store = ThreadStore::new();
///     (store.clone(), store)
/// };
/// conformance::shared_session_store(make).await
/// # };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
pub async fn shared_session_store<S, M>(make: impl Fn() -> M) -> Result<()>
where
    S: SessionStore,
    M: Future<Output = (S, S)>,
{
    let mut failures = Failures::default();
    let (store, other_store) = make().await;
    failures.check(
        "leases of two stores",
        handles::exclusive(&store, &other_store).await,
    );
    let (store, other_store) = make().await;
    failures.check(
        "turns of two stores",
        handles::turns(&store, &other_store).await,
    );
    let (store, other_store) = make().await;
    failures.check(
        "made by two stores",
        handles::creating(&store, &other_store).await,
    );
    failures.finish()
}
