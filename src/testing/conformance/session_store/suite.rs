//! All checks in order.

use crate::error::{Error, ErrorKind, Result};
use crate::state::SessionStore;

use super::{contents, copies, leases, lists};

/// Holds a [`SessionStore`] against its contract: what is written is read again, also by a store
/// that is opened anew; a write is done as a whole or not at all, whatever becomes of its future;
/// one run at a time holds a session, and one that was replaced writes no more; copies, lists and
/// removals touch what they should; ids are told apart and messages may be large.
///
/// `make` returns a store with nothing in it for each check. `reopen` is given a store that
/// nobody uses any more and returns another over the same sessions; that of a store which keeps
/// nothing gives it back as it is.
///
/// # Errors
///
/// [`ErrorKind::Other`] with one line for each check that failed.
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
    let mut failures = Vec::new();
    let mut check = |name: &str, outcome: Result<()>| {
        if let Err(error) = outcome {
            failures.push(format!("{name}: {error}"));
        }
    };
    check("appending", contents::appending(&make().await).await);
    check("saving", contents::saving(&make().await).await);
    check(
        "calls that had started",
        contents::started(&make().await).await,
    );
    check("calls that had ended", contents::ended(&make().await).await);
    check(
        "what belongs to a run",
        contents::about(&make().await).await,
    );
    check(
        "what stands beside the history",
        contents::beside(&make().await).await,
    );
    check("large messages", contents::large(&make().await).await);
    check("ids", contents::odd_ids(&make().await).await);
    check("leases", leases::exclusive(&make().await).await);
    check(
        "writers that were replaced",
        leases::fenced(&make().await).await,
    );
    check(
        "writes side by side",
        leases::side_by_side(&make().await).await,
    );
    check(
        "futures that are dropped",
        leases::dropped(&make().await).await,
    );
    check(
        "saves, copies and removals that are dropped",
        leases::dropped_wholes(&make().await).await,
    );
    check("forking", copies::forking(&make().await).await);
    check(
        "forking at a message",
        copies::forking_at(&make().await).await,
    );
    check("export and import", copies::exported(&make().await).await);
    check("listing", lists::listing(&make().await).await);
    check("deleting", lists::deleting(&make().await).await);
    check("pruning", lists::pruning(&make().await).await);
    check(
        "the latest of a directory",
        lists::latest(&make().await).await,
    );
    check("opening anew", reopened(make().await, &reopen).await);
    if failures.is_empty() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Other, failures.join("\n")))
}

async fn reopened<S, R>(store: S, reopen: &impl Fn(S) -> R) -> Result<()>
where
    S: SessionStore,
    R: Future<Output = S>,
{
    let kept = lists::Kept::write(&store).await?;
    let store = reopen(store).await;
    kept.check(&store).await?;
    // What was read from the store goes on as what was written by it.
    kept.go_on(&store).await?;
    let store = reopen(store).await;
    kept.check_gone_on(&store).await?;
    // Whatever was acknowledged last.
    let mut store = store;
    for last in lists::Last::ALL {
        last.write(&store).await?;
        store = reopen(store).await;
        last.check(&store).await?;
    }
    Ok(())
}
