//! Session stores: their contract, their files and tables, damage, crashes, and the order of writes
//! of a run.

mod broken;
#[cfg(feature = "session-log")]
mod broken_logs;
#[cfg(all(
    any(
        feature = "jsonl",
        feature = "sqlite",
        feature = "postgres",
        feature = "redis"
    ),
    unix
))]
pub mod crash;
#[cfg(all(
    any(
        feature = "jsonl",
        feature = "sqlite",
        feature = "postgres",
        feature = "redis"
    ),
    unix
))]
mod damage;
#[cfg(all(feature = "sqlite", unix))]
mod database;
#[cfg(all(feature = "jsonl", unix))]
mod files;
mod flushes;
#[cfg(all(feature = "sqlite", unix))]
mod hostile_database;
#[cfg(all(feature = "sqlite", unix))]
mod hostile_database_files;
mod imports;
#[cfg(all(any(feature = "jsonl", feature = "sqlite"), unix))]
mod memory;
#[cfg(all(
    any(
        feature = "jsonl",
        feature = "sqlite",
        feature = "postgres",
        feature = "redis"
    ),
    unix
))]
mod moments;
#[cfg(all(feature = "jsonl", feature = "sqlite", unix))]
mod old_formats;
mod order;
#[cfg(all(feature = "session-log", unix))]
#[cfg(unix)]
mod own_log;
#[cfg(all(
    any(
        feature = "jsonl",
        feature = "sqlite",
        feature = "postgres",
        feature = "redis"
    ),
    unix
))]
mod places;
#[cfg(all(feature = "sqlite", unix))]
mod processes;
mod records;
#[cfg(all(any(feature = "postgres", feature = "redis"), unix))]
mod servers;
#[cfg(all(
    any(
        feature = "jsonl",
        feature = "sqlite",
        feature = "postgres",
        feature = "redis"
    ),
    unix
))]
mod sizes;
#[cfg(all(any(feature = "jsonl", feature = "sqlite"), unix))]
mod snapshot_crash;
#[cfg(all(
    any(
        feature = "jsonl",
        feature = "sqlite",
        feature = "postgres",
        feature = "redis"
    ),
    unix
))]
mod snapshots;

#[cfg(all(
    any(
        feature = "jsonl",
        feature = "sqlite",
        feature = "postgres",
        feature = "redis"
    ),
    unix
))]
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(all(
    any(
        feature = "jsonl",
        feature = "sqlite",
        feature = "postgres",
        feature = "redis"
    ),
    unix
))]
use std::sync::atomic::{AtomicUsize, Ordering};

use agentcore::testing::conformance;
use agentcore::{SessionStore, ThreadStore};

#[tokio::test]
async fn memory_store_passes_the_suite() {
    conformance::session_store(|| async { ThreadStore::new() }, |store| async { store })
        .await
        .unwrap();
}

#[tokio::test]
async fn shared_trait_object_store_passes_the_suite() {
    let make = || async { Arc::new(ThreadStore::new()) as Arc<dyn SessionStore> };
    conformance::session_store(make, |store| async { store })
        .await
        .unwrap();
}

#[cfg(all(feature = "jsonl", unix))]
#[tokio::test]
async fn jsonl_store_passes_the_suite() {
    use agentcore::session::JsonlStore;

    let open = |path: &Path| JsonlStore::open(path).unwrap();
    assert_contract(open, |store| store.folder().to_owned()).await;
}

#[cfg(all(feature = "sqlite", unix))]
#[tokio::test]
async fn sqlite_store_passes_the_suite() {
    use agentcore::session::SqliteStore;

    let open = |path: &Path| SqliteStore::open(path).unwrap();
    assert_contract(open, |store| store.path().to_owned()).await;
}

/// Checks a store that is opened at a path, alone and as one of two stores at the same path.
#[cfg(all(
    any(
        feature = "jsonl",
        feature = "sqlite",
        feature = "postgres",
        feature = "redis"
    ),
    unix
))]
async fn assert_contract<S: SessionStore>(open: impl Fn(&Path) -> S, path: impl Fn(&S) -> PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let count = AtomicUsize::new(0);
    let make = || async {
        let number = count.fetch_add(1, Ordering::Relaxed);
        open(&folder.path().join(number.to_string()))
    };

    let (open, path) = (&open, &path);
    let reopen = |store: S| async move { open(&path(&store)) };
    conformance::session_store(make, reopen).await.unwrap();
    let make_two = || async {
        let store = make().await;
        let other = open(&path(&store));
        (store, other)
    };

    conformance::shared_session_store(make_two).await.unwrap();
}
