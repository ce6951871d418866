//! Session stores: their contract, where they keep things, what damage and crashes do to them, and what a run
//! stores when.

mod broken;
#[cfg(all(feature = "__durable", unix))]
mod crash;
#[cfg(all(feature = "__durable", unix))]
mod damage;
#[cfg(all(feature = "sqlite", unix))]
mod database;
#[cfg(all(feature = "jsonl", unix))]
mod files;
#[cfg(all(feature = "__durable", unix))]
mod moments;
#[cfg(all(feature = "jsonl", feature = "sqlite", unix))]
mod old_formats;
mod order;
#[cfg(all(feature = "__durable", unix))]
mod places;
#[cfg(all(feature = "sqlite", unix))]
mod processes;
mod records;
#[cfg(all(any(feature = "postgres", feature = "redis"), unix))]
mod servers;
#[cfg(all(feature = "__durable", unix))]
mod snapshots;

use std::sync::Arc;

use agentcore::testing::conformance;
use agentcore::{SessionStore, ThreadStore};

#[tokio::test]
async fn memory_keeps_the_contract() {
    conformance::session_store(|| async { ThreadStore::new() }, |store| async { store })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_shared_store_keeps_the_contract() {
    let make = || async { Arc::new(ThreadStore::new()) as Arc<dyn SessionStore> };
    conformance::session_store(make, |store| async { store })
        .await
        .unwrap();
}

#[cfg(all(feature = "jsonl", unix))]
#[tokio::test]
async fn files_keep_the_contract() {
    use agentcore::session::JsonlStore;

    let held = tempfile::tempdir().unwrap();
    let count = std::sync::atomic::AtomicUsize::new(0);
    let make = || async {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        JsonlStore::open(held.path().join(number.to_string())).unwrap()
    };
    let reopen = |store: JsonlStore| async move { JsonlStore::open(store.folder()).unwrap() };
    conformance::session_store(make, reopen).await.unwrap();
    let two = || async {
        let one = make().await;
        let other = JsonlStore::open(one.folder()).unwrap();
        (one, other)
    };
    conformance::shared_session_store(two).await.unwrap();
}

#[cfg(all(feature = "sqlite", unix))]
#[tokio::test]
async fn a_database_keeps_the_contract() {
    use agentcore::session::SqliteStore;

    let held = tempfile::tempdir().unwrap();
    let count = std::sync::atomic::AtomicUsize::new(0);
    let make = || async {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        SqliteStore::open(held.path().join(number.to_string())).unwrap()
    };
    let reopen = |store: SqliteStore| async move { SqliteStore::open(store.path()).unwrap() };
    conformance::session_store(make, reopen).await.unwrap();
    let two = || async {
        let one = make().await;
        let other = SqliteStore::open(one.path()).unwrap();
        (one, other)
    };
    conformance::shared_session_store(two).await.unwrap();
}
